import json
from dataclasses import dataclass
from typing import Any

import pytest

from settle.actions.start import Ended, start
from settle.machines import Machine
from settle.queries import table_scan
from settlement.ledger import keys
from tests.e2e.embedded import Embedded, new_account, new_key


@dataclass(frozen=True)
class Stalled:
    """A settlement that met an unforeseen error, so that its money is held and goes nowhere."""

    request: dict[str, str]
    ended: Ended


@pytest.fixture(scope="module", params=list(Machine))
def stalled(embedded: Embedded, request: pytest.FixtureRequest) -> Stalled:
    wanted = {
        "key": new_key("stalled"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
    }
    with embedded.without_grants("ReleaseFunds"):
        return Stalled(wanted, start(embedded.stack, request.param, json.dumps(wanted)))


def test_a_settlement_that_cannot_go_on_is_never_reported_as_done(stalled: Stalled) -> None:
    assert stalled.ended.outcome is None
    assert stalled.ended.error == "SettlementStalled"


def test_its_cause_names_what_stopped_it(stalled: Stalled) -> None:
    assert stalled.ended.message is not None
    assert stalled.ended.message.startswith("ClientError: An error occurred (AccessDeniedException)")


def test_its_row_stays_in_flight_with_the_money_in_escrow(embedded: Embedded, stalled: Stalled) -> None:
    row = embedded.settlement(stalled.request["key"])

    assert row["status"] == "PROCESSING"
    assert row["steps"] == {"hold", "verify"}
    assert row["escrow"] == row["amount"] == 4820
    assert row["gsi1pk"] == keys.in_flight_index(stalled.request["key"], "")["gsi1pk"]
    assert "finished_at" not in row
    assert embedded.available(stalled.request["payer"]) == "51.80"


def test_status_shows_what_is_held_and_ends_with_in_flight(embedded: Embedded, stalled: Stalled) -> None:
    finished = embedded.settle("status", stalled.request["key"], "--json")

    assert finished.returncode == 7, finished.stderr
    shown: dict[str, Any] = json.loads(finished.stdout)
    assert (shown["status"], shown["escrow"], shown["steps"]) == ("PROCESSING", "48.20", ["hold", "verify"])
    assert shown["finished_at"] is None


def test_the_same_key_again_reports_it_and_does_not_hold_twice(embedded: Embedded, stalled: Stalled) -> None:
    before = embedded.rows()

    again = start(embedded.stack, Machine.EXPRESS, json.dumps(stalled.request))

    assert again.outcome is not None
    assert (again.outcome["status"], again.outcome["replayed"]) == ("PROCESSING", True)
    assert embedded.rows() == before


def test_start_ends_with_1_and_the_reason_in_one_line(embedded: Embedded) -> None:
    request = {
        "key": new_key("stalled"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
    }

    with embedded.without_grants("ReleaseFunds"):
        finished = embedded.settle("start", "-", stdin=json.dumps(request))

    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith(f"{request['key']}: SettlementStalled: ClientError: ")
    assert len(finished.stderr.splitlines()) == 1


def test_money_in_a_stalled_escrow_is_neither_lost_nor_made(embedded: Embedded, stalled: Stalled) -> None:
    findings = table_scan.check(embedded.stack)

    assert findings.faults == []
    assert findings.conserved
    assert findings.totals["EUR"]["escrow"] >= 4820
