import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from settle import order
from settle.door import Answer
from settle.exit_codes import Exit
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.payouts.office import KEY, WIRE, Office, office

__all__ = ["office"]

OTHER = "payout-2026-000102"
Written = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(*payouts: Any) -> str:
        file = tmp_path / "payouts.jsonl"
        file.write_text("\n".join(map(json.dumps, payouts)))
        return str(file)

    return write


def told(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def available(desk: Desk) -> int:
    row = desk.ledger.row(keys.account("alice"))
    assert row
    found: int = row["available"]
    return found


def test_each_payout_of_a_file_is_started_once(office: Office, command: Command, written: Written) -> None:
    office.add_payee()
    file = written(WIRE, WIRE | {"key": OTHER, "amount": "1.00"})

    first = command("payout", "start", file, "--json")
    again = command("payout", "start", file, "--json")

    assert (first[0], first[2], again[0]) == (Exit.IN_FLIGHT, "", Exit.IN_FLIGHT)
    assert [(one["key"], one["status"], one["replayed"]) for one in told(first[1])] == [
        (KEY, "RESERVED", False),
        (OTHER, "RESERVED", False),
    ]
    assert [one["replayed"] for one in told(again[1])] == [True, True]
    assert available(office.desk) == 500_00 - 49_20
    assert office.follow.asked[:2] == [KEY, OTHER]


def test_a_started_payout_is_answered_in_one_line(office: Office, command: Command, written: Written) -> None:
    office.add_payee()

    code, out, err = command("payout", "start", written(WIRE))
    again = command("payout", "start", written(WIRE))[1]

    assert (code, err) == (Exit.IN_FLIGHT, "")
    assert out == f"{KEY}: RESERVED, 48.20 EUR of alice to flat-9\n"
    assert again == f"{KEY}: RESERVED, 48.20 EUR of alice to flat-9, which was started before\n"


@pytest.mark.parametrize(
    ("changed", "code", "error"),
    [
        ({"destination": "nowhere"}, Exit.REFUSED, "DestinationRefused"),
        ({"amount": "100.01"}, Exit.REFUSED, "PayoutRefused"),
        ({"account": "bob"}, Exit.REFUSED, "DestinationRefused"),
        ({"key": KEY, "amount": "1.00"}, Exit.CONFLICT, "IdempotencyConflict"),
    ],
)
def test_a_refused_payout_is_named_and_the_next_is_sent(
    office: Office, command: Command, written: Written, changed: dict[str, str], code: Exit, error: str
) -> None:
    office.add_payee()
    command("payout", "start", written(WIRE))
    refused = WIRE | {"key": "payout-refused-0001"} | changed

    found, out, err = command("payout", "start", written(refused, WIRE | {"key": OTHER}))
    shown = told(command("payout", "start", written(refused), "--json")[1])

    assert found == Exit.IN_FLIGHT, "graver than a refusal"
    assert err.startswith(f"{refused['key']}: {error}: ")
    assert out.startswith(f"{OTHER}: RESERVED")
    assert [(one["key"], one["error"]) for one in shown] == [(refused["key"], error)]
    assert command("payout", "start", written(refused))[0] == code


def test_a_payout_beyond_the_balance_is_refused(office: Office, command: Command, written: Written) -> None:
    office.add_payee("shop-1", "bob")
    poor = WIRE | {"account": "bob", "destination": "shop-1"}

    code, _, err = command("payout", "start", written(poor))

    assert (code, "InsufficientFunds" in err) == (Exit.REFUSED, True)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (WIRE | {"amount": "0"}, "line 2: amount: must be more than 0; nothing was sent"),
        (WIRE | {"amount": 48.2}, "line 2: amount: "),
        (WIRE | {"iban": "DE89"}, "line 2: iban: unknown field"),
        (WIRE | {"amount": "1.00"}, f"line 2: key: {KEY} has other content on a line before"),
        ([WIRE], "line 2: payout: must be a JSON object"),
        (WIRE | {"key": "short"}, "line 2: key: must be a string"),
    ],
)
def test_nothing_is_sent_if_a_line_is_invalid(
    office: Office, command: Command, written: Written, bad: Any, message: str
) -> None:
    office.add_payee()

    code, out, err = command("payout", "start", written(WIRE, bad))

    assert (code, out, office.services.posted) == (Exit.USAGE, "", [])
    assert err.startswith(f"settle: {message}")


def test_after_a_lost_answer_a_repeated_command_is_a_replay(
    office: Office, command: Command, written: Written
) -> None:
    office.add_payee()
    office.services.losing = 1
    file = written(WIRE, WIRE | {"key": OTHER})

    code, out, err = command("payout", "start", file)
    again, repeated, _ = command("payout", "start", file, "--json")

    assert (code, out) == (Exit.FAILED, "")
    assert f"repeat it with its key {KEY}" in err
    assert "0 of 2 payouts are answered" in err
    assert (again, [one["replayed"] for one in told(repeated)]) == (Exit.IN_FLIGHT, [True, False])


def test_a_throttled_call_is_repeated(
    office: Office, command: Command, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "PAUSES_SECONDS", (0, 0))
    office.add_payee()
    office.services.answering = [Answer(429, {"message": "Too Many Requests"}), Answer(502, {"message": ""})]

    assert command("payout", "start", written(WIRE))[0] == Exit.IN_FLIGHT
    assert office.services.posted == [WIRE] * 3


@pytest.mark.parametrize(
    "content", [{}, {"message": "welcome"}, {"key": OTHER, "status": "PAID"}, {"key": KEY, "status": "FINE"}]
)
def test_an_unexpected_answer_does_not_prove_a_start(
    office: Office, command: Command, written: Written, content: dict[str, str]
) -> None:
    office.services.answering = [Answer(200, content)]

    code, out, err = command("payout", "start", written(WIRE))

    assert (code, out) == (Exit.FAILED, "")
    assert "not known to be started" in err


def test_a_forbidden_start_names_the_route_to_allow(
    office: Office, command: Command, written: Written
) -> None:
    office.services.answering = [Answer(403, {"message": "Forbidden"})]

    code, _, err = command("payout", "start", written(WIRE))

    assert (code, "execute-api:Invoke on POST /payouts" in err) == (Exit.FAILED, True)
