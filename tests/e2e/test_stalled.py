import json

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import start
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, new_request
from tests.world.journal import slots

pytestmark = pytest.mark.long


@pytest.mark.parametrize("machine", Machine)
def test_a_stalled_settlement_stays_in_flight_never_reported_as_done(
    embedded: Embedded, machine: Machine
) -> None:
    request = new_request(embedded)
    with embedded.without_grants("ReleaseFunds"):
        ended = start(embedded.stack, machine, json.dumps(request))

    assert (ended.outcome, ended.error) == (None, "SettlementStalled")
    assert str(ended.message).startswith("ClientError: An error occurred (AccessDeniedException)")
    row = embedded.settlement(request["key"])
    assert (row["status"], slots(row)) == ("PROCESSING", {"hold_at", "verify_at"})
    assert row["escrow"] == row["amount"] == 4820
    assert row["gsi1pk"] == keys.in_flight_index(request["key"], "")["gsi1pk"]
    assert "finished_at" not in row
    assert embedded.available(request["payer"]) == "51.80"
    shown = embedded.told("status", request["key"], code=7)
    assert (shown["status"], shown["escrow"], shown["steps"]) == ("PROCESSING", "48.20", ["hold", "verify"])
    with embedded.writes_nothing():
        again = start(embedded.stack, Machine.EXPRESS, json.dumps(request)).outcome
    assert again is not None
    assert (again["status"], again["replayed"]) == ("PROCESSING", True)
    assert embedded.conserved()


def test_settle_start_exits_with_1_and_one_line_if_stalled(embedded: Embedded) -> None:
    request = new_request(embedded)

    with embedded.without_grants("ReleaseFunds"):
        finished = embedded.settle("start", "-", stdin=json.dumps(request))

    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith(f"{request['key']}: SettlementStalled: ClientError: ")
    assert len(finished.stderr.splitlines()) == 1
