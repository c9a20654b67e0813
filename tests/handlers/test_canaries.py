import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers.kyc import _provider as _kyc
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import InReview, KycUnavailable, SettlementError
from settlement.core.model.status import Step
from tests.handlers.conftest import Calls
from tests.handlers.kyc.provider_stage import DEAD, FAILURES, YES, Stage, stage
from tests.world.constants import CLAIMED_AT, KEY, REPLAYED, WIRE
from tests.world.rooms import needs
from tests.world.services import NEW_API_KEY, THIRD, Caller, past, signed, text, throttled, unanswered

CANARY_WIRE: dict[str, Any] = WIRE | {
    "payer": "canary.maria.muster",
    "payee": "canary.m.muster",
    "amount": "66391826047.31",
    "payer_name": "Maria Muster",
    "payee_name": "Moritz Muster",
    "reference": "canary reference",
    "metadata": {"cart": "canary cart"},
}
TELLTALES = ["canary", "muster", "Muster", "66391826047", "Y2FuYXJ5", "whsec_"]
"""Texts that no output may have, such as parts of keys or names; amounts are too long to equal a time."""


def answered(decision: str, **more: Any) -> tuple[int, bytes]:
    content = {"decision": decision, "reference": "ver_1", "reason": "canary-reason: Maria Muster", **more}
    return (200, json.dumps(content).encode())


GARBAGE = [
    (200, b"canary-garbage"),
    answered("CANARY"),
    answered("APPROVED", reference="canary with blanks"),
    answered("APPROVED", reason={"canary": "muster"}),
    (500, b"canary-answer"),
    (302, b"canary-answer"),
    (422, b"canary-answer"),
    (401, b"canary-answer"),
    DEAD,
]


class Listened:
    def __init__(self, log: io.StringIO, capfd: pytest.CaptureFixture[str]) -> None:
        self._log, self._capfd, self.heard = log, capfd, ""

    def to(self, call: Callable[[], Any]) -> str:
        """Make a call; keep and return its output as text, including a refusal."""
        try:
            call()
        except SettlementError as error:
            self.heard += (
                f"{error!r} {error.__cause__!r} {error.__notes__ if hasattr(error, '__notes__') else ''}"
            )
        printed = self._capfd.readouterr()
        self.heard += self._log.getvalue() + printed.out + printed.err
        self._log.seek(0)
        self._log.truncate()
        return self.heard

    def check_no_leak(self) -> None:
        assert "StepCalled" in self.heard
        assert [word for word in TELLTALES if word in self.heard] == []


@pytest.fixture
def listened(log: io.StringIO, capfd: pytest.CaptureFixture[str]) -> Listened:
    return Listened(log, capfd)


@pytest.fixture
def kyc(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A held settlement between two named people, with the real provider client."""
    made = stage(calls.ledger, monkeypatch)
    monkeypatch.setattr(_kyc, "ask", made.ask)
    calls.ledger.open(CANARY_WIRE["payer"], 10_000_000_000_000)
    calls.ledger.open(CANARY_WIRE["payee"], 500)
    calls("HoldFunds", CANARY_WIRE)
    return made


@pytest.mark.parametrize(
    "answer", [YES, *(answered(d) for d in ("APPROVED", "REJECTED", "REVIEW")), *GARBAGE]
)
def test_no_answer_of_the_provider_leaks(calls: Calls, kyc: Stage, listened: Listened, answer: Any) -> None:
    kyc.answers = [answer]

    listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))
    calls.secrets.content = {"api_key": NEW_API_KEY}
    listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))
    listened.to(lambda: calls.report(CANARY_WIRE))
    listened.to(lambda: calls.report(CANARY_WIRE, **REPLAYED))

    assert len(kyc.sent) >= 1
    listened.check_no_leak()


def test_a_change_of_the_circuit_leaks_no_question(calls: Calls, kyc: Stage, listened: Listened) -> None:
    kyc.answers, kyc.bus = [DEAD], throttled("PutEvents")

    kyc.ledger.put(keys.circuit("kyc") | {"state": "CLOSED", "failure_count": FAILURES - 1})
    for _ in range(2):
        listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))
    kyc.answers = [answered("APPROVED")]
    kyc.ledger.put(kyc.circuit() | {"failed": ""})  # as if other payments had failed
    kyc.recovered()
    listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))

    assert kyc.states() == ["OPEN", "HALF_OPEN", "CLOSED"]
    assert "canary" not in str(kyc.events)
    listened.check_no_leak()


@pytest.mark.parametrize(
    "content",
    [
        throttled("GetSecretValue"),
        unanswered(),
        "canary-no-json",
        '["canary"]',
        {"api_key": "canary\n", "current": THIRD},
    ],
)
def test_no_unusable_secret_leaks(calls: Calls, kyc: Stage, listened: Listened, content: Any) -> None:
    calls.secrets.content = content

    with pytest.raises(KycUnavailable):
        calls("VerifyKyc", CANARY_WIRE)
    listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))
    listened.to(lambda: listen_to_answer(calls, listened, signed()))

    listened.check_no_leak()


@needs("doors")
@pytest.mark.parametrize(
    "names",
    [
        {"payer_name": "canary Muster\n"},
        {"payee_name": "canary Muster" * 20},
        {"payer_name": ["canary Muster"]},
        {"payee_name": "Moritz Mustermann"},
        {"reference": "canary\n"},
        {"metadata": {"cart": "canary\n"}},
        {"metadata": ["canary"]},
        {"metadata": {"cart": "another canary"}},
    ],
    ids=str,
)
def test_a_refused_party_name_is_not_leaked(
    calls: Calls, kyc: Stage, listened: Listened, names: dict[str, Any]
) -> None:
    refused = CANARY_WIRE | names

    listened.to(lambda: calls("HoldFunds", refused))
    listened.to(lambda: calls("ReleaseFunds", refused))
    listened.to(lambda: calls.receive(text(refused)))
    listened.heard += calls.queues.sent[0]["reason"]

    listened.check_no_leak()


@needs("doors")
def test_a_request_lacking_one_name_does_not_leak_the_other(
    calls: Calls, kyc: Stage, listened: Listened
) -> None:
    calls.change_config(party_names="required")
    request = {name: CANARY_WIRE[name] for name in CANARY_WIRE if name != "payee_name"}

    listened.to(lambda: calls("HoldFunds", request | {"key": "order-2026-000199"}))
    listened.to(lambda: calls.receive(text(request | {"key": "order-2026-000199"})))
    listened.heard += calls.queues.sent[0]["reason"]

    assert "payee_name: missing" in listened.heard
    listened.check_no_leak()


def listen_to_answer(calls: Calls, listened: Listened, event: Any) -> None:
    status, content = calls.decided(event)
    listened.heard += f"{status} {content}"


CALLS: dict[str, Callable[[], Any]] = {
    "approved": lambda: signed(reason="canary-reason: Maria Muster"),
    "rejected": lambda: signed(decision="REJECTED", reason="canary-reason: Maria Muster"),
    "another verification": lambda: signed(reference="ver_2", reason="canary-reason"),
    "unknown settlement": lambda: signed(idempotency_key="order-2026-999999:verify", reason="canary-reason"),
    "not signed": lambda: replace(signed, secret=THIRD)(text({"reason": "canary-reason"})),
    "too old": lambda: replace(signed, at=past(hours=-1))(text({"reason": "canary-reason"})),
    "a megabyte": lambda: signed("canary" * 200_000),
    "no JSON": lambda: signed("canary-reason"),
    "unknown field": lambda: signed(canary="Maria Muster"),
    "bad decision": lambda: signed(decision="canary"),
    "bad reference": lambda: signed(reference="canary with blanks"),
    "bad reason": lambda: signed(reason={"canary": "muster"}),
    "bad key": lambda: signed(idempotency_key="canary-Muster"),
    "bad event id": lambda: Caller(id="canary " * 40)(reason="canary-reason"),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_call_of_the_webhook_leaks(calls: Calls, kyc: Stage, listened: Listened, call: str) -> None:
    kyc.answers = [answered("REVIEW")]
    with pytest.raises(InReview):
        calls("VerifyKyc", CANARY_WIRE)

    listened.to(lambda: listen_to_answer(calls, listened, CALLS[call]()))
    calls.step_functions.failing["start_execution"] = throttled("StartExecution")
    listened.to(lambda: listen_to_answer(calls, listened, CALLS[call]()))

    listened.check_no_leak()


@pytest.mark.parametrize("failing", [{}, {"start_execution": unanswered()}])
@pytest.mark.parametrize("poison", [{}, {"currency": "XXX"}, {"amount": "canary"}])
def test_no_recovered_row_leaks(
    calls: Calls, kyc: Stage, listened: Listened, poison: dict[str, Any], failing: dict[str, BaseException]
) -> None:
    calls.step_functions.failing = failing
    calls.alter(deadline_seconds=900, **poison)  # named by the request: it is not extended
    calls.later(minutes=15)

    listened.to(calls.recover)

    assert KEY in listened.heard
    errors = [started["error"] for _, _, started in calls.step_functions.started if "error" in started]
    assert bool(errors) is not bool(poison or failing)
    assert "canary" not in str(errors)
    listened.check_no_leak()


@needs("doors")
def test_no_content_of_a_queued_message_is_leaked(calls: Calls, kyc: Stage, listened: Listened) -> None:
    new = CANARY_WIRE | {"key": "order-2026-000102"}
    bodies = [
        text(CANARY_WIRE | {"payee": "canary.x"}),
        text(new),
        text(new | {"note": "canary"}),
        "canary-text",
    ]

    listened.to(lambda: calls.receive(*bodies))
    calls.queues.failure = throttled("SendMessage")
    calls.step_functions.failing["start_execution"] = throttled("StartExecution")
    listened.to(lambda: calls.receive(*bodies))

    listened.check_no_leak()


def test_the_verdicts_reason_is_recorded_although_never_logged(calls: Calls, kyc: Stage) -> None:
    kyc.answers = [answered("APPROVED")]

    calls("VerifyKyc", CANARY_WIRE)

    row = calls.ledger.row(keys.evidence(KEY, Step.VERIFY))
    assert row is not None
    assert (row["reason"], row["posted_at"]) == ("canary-reason: Maria Muster", CLAIMED_AT)


def test_the_leak_detector_notices_a_leak(calls: Calls, kyc: Stage, listened: Listened) -> None:
    listened.to(lambda: calls("VerifyKyc", CANARY_WIRE))
    telemetry.logger.warning("canary-api-key-old")
    listened.to(lambda: None)

    with pytest.raises(AssertionError, match="canary"):
        listened.check_no_leak()
