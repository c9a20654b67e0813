"""Forged rows on the deployed stack that recovery then pays out."""

from collections.abc import Iterator

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.store.wire import to_wire
from tests.e2e.embedded import Embedded, embedded_aws, new_account, new_key
from tests.proof.test_forged_money import AMOUNT, FEE, sound_rows

pytestmark = pytest.mark.long


@pytest.fixture
def embedded() -> Iterator[Embedded]:
    """A separate embedded AWS, because forged money stays in its books."""
    with embedded_aws() as own:
        own.up()
        own.schedule(enabled=False)
        yield own


def put(embedded: Embedded, row: Row) -> None:
    embedded.dynamodb.put_item(TableName=embedded.stack.outputs["TableName"], Item=to_wire(row))


def test_the_proof_names_a_forged_hold_that_recovery_paid_out(embedded: Embedded) -> None:
    """The forgery is three puts: payment, hold and verdict. No account has paid the 900,000.00 EUR."""
    payer, payee = new_account(embedded, "alice", "1.00"), new_account(embedded, "mallory")
    forged = Settlement(
        key=new_key("forged"), payer=payer, payee=payee, amount=AMOUNT, currency="EUR", fee=FEE
    )
    rows = sound_rows(forged)
    settlement = {
        name: value
        for name, value in rows["SETTLEMENT"].items()
        if name not in ("release_at", "fee_at", "finished_at")
    }
    settlement |= {"status": "PROCESSING", "escrow": AMOUNT, "deadline_at": "2999-01-01T00:00:00.000Z"}
    settlement["sequence"] = 2  # held and verified: what recovery adds counts on from here
    for row in (
        settlement | keys.in_flight_index(forged.key, settlement["claimed_at"]),
        rows["hold"],
        rows["verify"],
    ):
        put(embedded, row)

    assert embedded.recover(forged.key)["action"] == "settle"
    embedded.wait_for(lambda: embedded.settlement(forged.key)["status"] == "SETTLED")

    assert embedded.available(payee) == "899999.52"
    told, by_rows_alone = (
        embedded.told("reconcile", *option, code=1) for option in ((), ("--no-signatures",))
    )
    assert not told["conserved"]
    assert {fault.partition(":")[0] for fault in told["faults"]} == {
        *(f"{kind}#{forged.key}" for kind in ("SETTLEMENT", "EVIDENCE")),
        *(f"{kind}#{payer}" for kind in ("ENTRIES", "ACCOUNT")),
    }
    assert [fault.partition(":")[0] for fault in by_rows_alone["faults"]] == [f"ACCOUNT#{payer}"]
