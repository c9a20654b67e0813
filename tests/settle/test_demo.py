import json
from typing import Any

import pytest

from settle.accounts.accounts import open_account
from settle.exit_codes import CommandFailed, Exit
from settle.local import embedded_aws
from settle.local.demo import cost, outage, report, settlements, statement, stuck_reversal, tour
from settle.local.demo.cost import Cost
from settle.local.demo.settlements import Settled, describe
from settle.local.record import Running
from settle.proof import reconcile_output
from settle.settlements.machines import Machine
from settle.settlements.start import Ended
from settlement.bank.matching import Kind
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk

REQUEST = {"key": "order-1", "payer": "alice.run", "payee": "bob.run", "amount": "48.20", "currency": "EUR"}
OUTCOME = {"status": "SETTLED", "replayed": False, "failure": None}
FAILURE = {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}
COSTS = {"an-execution": Cost(calls=5, write_units=26.0, read_units=0.5)}


def settled(**outcome: object) -> Settled:
    return Settled(Machine.EXPRESS, REQUEST, Ended("order-1", "an-execution", OUTCOME | outcome))


@pytest.mark.parametrize(
    ("one", "ending"),
    [
        (settled(), "SETTLED"),
        (settled(replayed=True), "SETTLED (replayed)"),
        (settled(status="REJECTED", failure=FAILURE), "REJECTED: InsufficientFunds"),
        (
            Settled(Machine.STANDARD, REQUEST, Ended("order-1", "e", None, "IdempotencyConflict", "used")),
            "refused: IdempotencyConflict",
        ),
    ],
)
def test_each_line_of_the_demo_shows_how_its_payment_ended(
    capsys: pytest.CaptureFixture[str], one: Settled, ending: str
) -> None:
    report._settlements(describe([one], COSTS))

    heading, _, line, *_ = filter(None, capsys.readouterr().out.splitlines())
    assert heading == f"> The examples on the {one.machine} machine:"
    for part in ("order-1", "48.20 EUR", ending):
        assert part in line
    assert (line.split()[-2:] == ["5", "26+0.5"]) is (one.ended.execution in COSTS)


def test_the_demo_suggests_commands_only_for_a_settled_payment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = Settled(Machine.EXPRESS, REQUEST | {"key": "order-0"}, Ended("order-0", "e", None, "X", "y"))

    report._try_next(describe([refused, settled()], COSTS))

    shown = capsys.readouterr().out
    assert "  settle reverse order-1 --reason 'goods came back'" in shown.splitlines()
    assert "order-0" not in shown
    report._try_next(describe([refused, settled(status="REJECTED", failure=FAILURE)], COSTS))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("found", "verdict"),
    [({}, "conserved"), ({"faults": ["a: b"]}, "NOT CONSERVED"), ({"unproven": ["a: b"]}, "NOT PROVEN")],
)
def test_the_last_line_of_a_proof_is_its_verdict(
    capsys: pytest.CaptureFixture[str], found: dict[str, list[str]], verdict: str
) -> None:
    counts = {"accounts": 2, "settlements": 1, "entries": 5, "in_flight": 0}
    currencies = {"EUR": {"customers": "1.00", "external": "-1.00", "sum": "0.00"}}
    nothing = {"faults": [], "unproven": [], "listed_ahead": [], "unswept": {}, "signatures": True}

    reconcile_output.findings(
        counts | {"conserved": not found, "currencies": currencies} | nothing | found, False
    )

    first, *others, last = capsys.readouterr().out.splitlines()
    assert first == "EUR: customers 1.00 + external -1.00 = 0.00"
    assert [line.partition(" ")[2] for line in others] == [row for rows in found.values() for row in rows]
    assert last == f"{verdict}: 2 accounts, 1 settlements, 5 entries, 0 in flight"


@pytest.mark.parametrize(("conserved", "verdict"), [(True, "conserved"), (False, "NOT CONSERVED")])
def test_the_demo_prints_a_line_for_each_outage_payment(
    capsys: pytest.CaptureFixture[str], conserved: bool, verdict: str
) -> None:
    fails = {
        "provider": "fails",
        "key": "demo-outage-1",
        "answered_after": "0.4 s",
        "calls": 3,
        "outcome": "COMPENSATED",
        "error": "KycUnavailable",
        "circuit": "OPEN",
    }
    is_back = {**fails, "provider": "is back", "key": "demo-outage-2", "outcome": "SETTLED", "error": None}

    report._outage({"payments": [fails, is_back], "returned": "9.00 EUR of 9.00 EUR", "conserved": conserved})

    lines = capsys.readouterr().out.splitlines()
    (first,) = (line.split() for line in lines if "demo-outage-1" in line)
    (second,) = (line.split() for line in lines if "demo-outage-2" in line)
    assert first == ["demo-outage-1", "COMPENSATED", "KycUnavailable", "0.4", "s", "3", "OPEN"]
    assert second == ["demo-outage-2", "SETTLED", "0.4", "s", "3", "OPEN"]
    assert lines[-2] == f"the payer was refunded 9.00 EUR of 9.00 EUR meanwhile; {verdict}"


@pytest.fixture
def walked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """A demo of one request; the test sets the results of its walks."""
    walked: dict[str, dict[str, Any]] = {"limbo": {"conserved": True}, "outage": {"conserved": True}}
    monkeypatch.setattr(embedded_aws, "up", lambda report: Running(1, 1, 2))
    monkeypatch.setattr(tour, "embedded", lambda running: desk.stack)
    monkeypatch.setattr(settlements, "open_accounts", lambda *_: 0)
    monkeypatch.setattr(settlements, "settle_all", lambda *_: [settled()])
    monkeypatch.setattr(cost, "since", lambda *_: {})
    monkeypatch.setattr(stuck_reversal, "walk", lambda *_: walked["limbo"])
    monkeypatch.setattr(outage, "walk", lambda *_: walked["outage"])
    return walked


@pytest.mark.parametrize(("walk", "code"), [("", Exit.FINE), ("limbo", Exit.FAILED), ("outage", Exit.FAILED)])
def test_the_demo_fails_if_a_walk_loses_money(
    command: Command, walked: dict[str, dict[str, Any]], walk: str, code: Exit
) -> None:
    walked[walk] = {"conserved": False}

    ended, out, _ = command("demo", "--json")

    assert (ended, len(out.splitlines())) == (code, 1)
    assert json.loads(out)


def test_the_demo_shows_a_right_statement_and_six_faults(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    open_account(desk.stack, "yuki", "JPY", "500")  # of a currency that the statements do not have
    compared = statement.walk(desk.stack, lambda text: None)
    report._statements(compared)

    assert (compared["right"]["agrees"], compared["right"]["matched"]) == (True, 7)
    kinds = [one["kind"] for one in compared["wrong"]["findings"]]
    assert sorted(kinds) == sorted(
        (Kind.ONLY_BOOKS, Kind.BANK_TWICE, Kind.AMOUNT, Kind.RETURN, Kind.ONLY_BANK, Kind.BOOKS_TWICE)
    )
    shown = capsys.readouterr().out
    assert "agrees to the cent: 7 lines matched" in shown
    assert "DOES NOT AGREE: " in shown


@pytest.mark.usefixtures("walked")
def test_a_demo_that_fails_in_the_middle_prints_no_json(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck_reversal, "walk", raising(CommandFailed(Exit.FAILED, "no alert came")))

    code, out, err = command("demo", "--json")

    assert (code, out) == (Exit.FAILED, "")
    assert err.splitlines()[-1] == "settle: no alert came"
