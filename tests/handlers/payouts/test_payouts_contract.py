"""Rules for all functions of the payouts: replay, refusals, damaged rows, log lines, metrics."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from settlement.core import telemetry
from settlement.core.model.errors import SettlementError
from settlement.core.model.stored import MalformedRow
from tests.handlers.payouts.conftest import HOLDER, IBAN, KEY, REFERENCE, WIRE, Desk, numbered
from tests.handlers.test_every_function import TELLTALES, spoken
from tests.world.functions import HANDLERS

OTHER = ({"amount": "48.21"}, {"account": "bob"}, {"currency": "USD"}, {"destination": "another"})
NOBODY = "payout-2026-999999"


@dataclass(frozen=True)
class Case:
    """A function: its step, arrangement and call. The call can change the payout's fields or key.

    `done` and `repeated` are the metrics besides StepCalled. `unknown` is the error's name for an unknown
    key, None for a function that reserves it; `malformed` calls it with malformed input.
    """

    step: str
    arrange: Callable[[Desk], object]
    call: Callable[..., Any]
    malformed: Callable[[Desk], Any]
    done: str | None = None
    repeated: str | None = None
    unknown: str | None = None


def event(desk: Desk, **changed: Any) -> Any:
    key = changed.get("key", KEY)
    return desk.hear({"reference": REFERENCE if key == KEY else "A" * 32})


def ended(desk: Desk) -> None:
    desk.case()
    desk.decided()


CASES = {
    "ReservePayout": Case(
        "reserve",
        lambda desk: None,
        lambda desk, **changed: desk.reserve(**changed),
        lambda desk: desk.reserve(amount="canary", holder=HOLDER),
        "PayoutReserved",
        "StepReplayed",
    ),
    "ServePayouts": Case(
        "payout",
        lambda desk: None,
        lambda desk, **changed: desk.post(WIRE | changed),
        lambda desk: desk.post(WIRE | {"amount": "canary", "holder": HOLDER}),
        "PayoutReserved",
        "StepReplayed",
    ),
    "ServePayouts, a question": Case(
        "payout",
        lambda desk: desk.reserve(),
        lambda desk, **changed: desk.get(changed.get("key", KEY)),
        lambda desk: desk.get("canary"),
        unknown="PayoutNotFound",
    ),
    "FollowPayouts": Case(
        "follow",
        ended,
        lambda desk, **changed: desk.look(changed.get("key", KEY)),
        lambda desk: desk.look("canary"),
        unknown="PayoutNotFound",
    ),
    "BankEvents": Case(
        "hear",
        lambda desk: desk.reserve(),
        event,
        lambda desk: desk.hear({"reference": ["canary"]}),
        unknown="PayoutNotFound",
    ),
}
SPOILT: dict[str, Any] = {
    "amount": 0,
    "holder": "canary\n",
    "status": "canary",
    "sequence": 0,
    "gsi1sk": "canary",
}

every_function = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def content(answer: Any) -> Any:
    return answer[1] if isinstance(answer, tuple) else answer


def error_of(call: Callable[[], Any]) -> str:
    try:
        return str(call()[1]["error"])
    except MalformedRow:
        return "RowDamaged"
    except SettlementError as refusal:
        return type(refusal).__name__


def no_telltale(output: str) -> bool:
    known = (*TELLTALES, IBAN, HOLDER)
    return not [word for word in known if word in output]


def test_this_table_calls_every_function_of_the_room() -> None:
    files = {name for name in HANDLERS if HANDLERS[name].__module__.startswith("handlers.payouts.")}

    assert {name.partition(",")[0] for name in CASES} == files


@every_function
def test_a_repeated_call_answers_the_same_and_writes_nothing(desk: Desk, case: Case) -> None:
    case.arrange(desk)
    desk.calls.counted()

    first = content(case.call(desk))
    assert desk.calls.counted() == {"StepCalled": 1} | ({case.done: 1} if case.done else {})
    with desk.calls.writes_nothing():
        assert content(case.call(desk)) == first

    assert desk.calls.counted() == {"StepCalled": 1} | ({case.repeated: 1} if case.repeated else {})
    assert json.loads(json.dumps(first)) == first, "it is no plain JSON"


@every_function
def test_malformed_input_is_refused_and_writes_nothing(desk: Desk, case: Case) -> None:
    case.arrange(desk)
    desk.calls.counted()

    with desk.calls.writes_nothing():
        assert error_of(lambda: case.malformed(desk)) == "InvalidRequest"

    assert desk.calls.counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize("other", OTHER, ids=str)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.done])
def test_other_content_with_the_key_is_refused_writing_nothing(
    desk: Desk, name: str, other: dict[str, str]
) -> None:
    CASES[name].call(desk)
    desk.calls.counted()

    with desk.calls.writes_nothing():
        assert error_of(lambda: CASES[name].call(desk, **other)) == "IdempotencyConflict"

    assert desk.calls.counted() == {"StepCalled": 1, "IdempotencyConflict": 1}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.unknown])
def test_an_unknown_payout_is_refused(desk: Desk, name: str) -> None:
    CASES[name].arrange(desk)
    desk.calls.counted()

    with desk.calls.writes_nothing():
        assert error_of(lambda: CASES[name].call(desk, key=NOBODY)) == CASES[name].unknown

    assert desk.calls.counted() == {"StepCalled": 1, CASES[name].unknown: 1}


@pytest.mark.parametrize("name", SPOILT)
@every_function
def test_a_damaged_row_is_named_and_decides_nothing(desk: Desk, case: Case, name: str) -> None:
    case.arrange(desk)
    case.call(desk)
    desk.alter(**{name: SPOILT[name]})
    sent = list(desk.bank.sent)

    with desk.calls.writes_nothing():
        assert error_of(lambda: case.call(desk)) == "RowDamaged"

    assert desk.bank.sent == sent


@every_function
def test_each_log_line_has_its_key_without_party_or_amount(
    desk: Desk,
    case: Case,
    log: io.StringIO,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"full": True})
    case.arrange(desk)
    spoken(log, capfd)

    case.call(desk)
    lines, output = spoken(log, capfd)

    assert "StepCalled" in lines[-1]
    assert no_telltale(output)
    assert {line["step"] for line in lines} == {case.step}
    assert lines[-1]["key"] == KEY

    error_of(lambda: case.malformed(desk))
    refused, output = spoken(log, capfd)
    assert [line["error"] for line in refused if "error" in line] == ["InvalidRequest"]
    assert no_telltale(output.replace("'key': 'canary'", ""))


def test_a_run_logs_no_party_bank_account_or_amount(
    desk: Desk, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    desk.many(3)
    desk.bank.poisoned = {numbered(0)}
    spoken(log, capfd)

    desk.run()

    lines, output = spoken(log, capfd)
    assert [line["what"] for line in lines if "what" in line] == [numbered(0)]
    assert no_telltale(output)
