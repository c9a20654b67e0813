import pytest

from settlement.core.ledger import entries, forward, keys
from settlement.core.ledger.transaction import AlreadyApplied, Transfer
from settlement.core.model.errors import IdempotencyConflict, LineRefused, ProposalRefused
from settlement.core.model.status import Step
from tests.unit import states, vectors
from tests.unit.conditions import admits
from tests.unit.states import found
from tests.unit.vectors import CONFIG, ESCROW, SETTLEMENT
from tests.world.environment import NOW
from tests.world.rooms import there

PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
WAITING = "limbo.await_decision"
TRANSFERS = [name for name, put in PUTS.items() if keys.is_entry(put.parameters["Item"])]
"""Names of the puts of entries. A movement's record is its slot or the order's row, not its entry."""

MOVES = [name for name in PUTS if name.startswith("proposals.record.")]
EVIDENCE = [
    name for name, put in PUTS.items() if keys.is_evidence(put.parameters["Item"]) and name not in MOVES
]
SWEPT_AGAIN = "sweep.fold.again[0]"
"""A put that replaces its row if the version matches; tested in test_sweeps.py."""

PROPOSED_AGAIN = "proposals.propose.again"
"""A put that replaces a void or closed proposal; see tests/handlers/orders/test_void_proposals.py."""

PAYOUTS_NAME = "writes.reserve[1]"
"""A put of a reference's row. A repetition is recognised by the payout's row instead."""

OF_A_LINE = [
    name for name in PUTS if name.startswith("writes.") and PUTS[name].parameters["Item"]["sk"] == "MATCH"
]

OF_A_RUN = "writes.taken[0]"
"""A put of a pay run's line. A replay is recognised by the reservation in the same transaction."""

OF_A_FREEZE = "destination.freeze[1]"  # the payee's row is the record

OTHERS = (
    *(*TRANSFERS, *MOVES, WAITING, SWEPT_AGAIN, PROPOSED_AGAIN),
    *(PAYOUTS_NAME, *OF_A_LINE, OF_A_RUN, OF_A_FREEZE),
)
RECORDS = [name for name in PUTS if name not in OTHERS]
"""Names of the puts whose own row is the record. No writes, as mutants are not active at import."""

CLAIMED = f"key: {SETTLEMENT.key} was claimed by a request with other content"


@pytest.mark.parametrize("name", RECORDS)
def test_an_existing_equal_row_is_reported_as_already_applied(name: str) -> None:
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    replayed = write.on_failure(found(row))

    assert admits(write, None)
    assert not admits(write, row)
    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found == found(row)


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_of_another_request_is_a_conflict_not_a_replay(name: str) -> None:
    write = vectors.named_writes()[name]
    earlier = dict(write.parameters["Item"])

    for other in (None, earlier | {"request_hash": "another"}):
        refusal = write.on_failure(other)
        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == CLAIMED


@pytest.mark.parametrize("name", MOVES)
def test_existing_proposal_evidence_beside_a_row_without_it_is_refused(name: str) -> None:
    """The record is the proposal's row. If it lacks a move that has evidence, the row was restored."""
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    assert admits(write, None)
    assert not admits(write, row)
    refusal = write.on_failure(row)
    assert type(refusal) is ProposalRefused
    assert "is on record, but not in its row" in str(refusal)


@pytest.mark.parametrize("name", TRANSFERS)
def test_an_existing_entry_is_a_conflict_not_a_replay(name: str) -> None:
    """The record of a movement is its slot on the settlement's row.

    An entry with a free slot is a fault that must be visible.
    """
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])
    key = row["sk"].rpartition("#")[2].partition(":")[0]

    assert admits(write, None)
    assert not admits(write, row)
    for earlier in (None, row):
        refusal = write.on_failure(earlier)
        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == CLAIMED.replace(SETTLEMENT.key, key)


@pytest.mark.parametrize("name", OF_A_LINE)
def test_a_line_matched_to_a_payout_is_refused(name: str) -> None:
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    assert admits(write, None)
    assert not admits(write, row)
    refusal = write.on_failure(row)
    assert type(refusal) is LineRefused
    assert str(refusal) == f"line: it belongs to {row['order']}"


def test_the_tests_cover_every_kind_of_put() -> None:
    kinds = {keys.subject(put.parameters["Item"])[0] for put in PUTS.values()}

    assert kinds == {
        "SETTLEMENT",
        "ENTRIES",
        "EVIDENCE",
        "WAITING",
        "KYC_EVENT",
        *there("merchants", "SWEPT"),
        "ORDER",
        "PROPOSAL",
        *("BANK_FILE", "BANK_LINE", "BANKED", "BANK_ORDER"),
        *there("payouts", "DESTINATION", "PAYOUT", "PAYOUT_CASE", "PAYOUT_LINE", "PAYOUT_REFERENCE"),
        *("PAYRUN", "PAYRUN_DECISION", "PAYRUN_LINE"),
    }
    assert {"entries.transfer.hold", "steps.claim_and_hold[1]"} <= set(TRANSFERS)
    assert {"entries.evidence", "compensation.reverse_on_order.settled[0]"} <= set(EVIDENCE)


def test_an_existing_claim_of_another_request_is_returned() -> None:
    earlier = states.state(request_hash="another", owner="another")

    for build in (forward.claim, forward.claim_and_hold):
        replayed = build(SETTLEMENT, "owner", NOW, CONFIG).on_failure(earlier)
        assert isinstance(replayed, AlreadyApplied)
        assert replayed.found is earlier


# Entries of transfers


@pytest.mark.parametrize(
    ("debit", "credit", "side", "partition"),
    [
        ("alice", ESCROW, "debit", "ENTRIES#alice"),
        (ESCROW, "bob", "credit", "ENTRIES#bob"),
        (ESCROW, "fees:EUR", "credit", "ENTRIES#fees:EUR#2"),
        ("losses:EUR", ESCROW, "debit", "ENTRIES#losses:EUR#2"),
    ],
)
def test_an_entry_is_kept_under_the_account_opposite_the_escrow(
    debit: str, credit: str, side: str, partition: str
) -> None:
    transfer = Transfer(debit=debit, credit=credit, amount=1)

    entry = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW).parameters["Item"]

    assert (entry["side"], entry["pk"]) == (side, partition)
