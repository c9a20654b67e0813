"""Rows that are put once: the journal's entries, claims, tombstones, and markers of webhook events."""

from dataclasses import replace

import pytest

from settlement.ledger import entries, forward, kyc_review, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, Transfer
from settlement.model.errors import IdempotencyConflict
from settlement.model.status import Step
from settlement.policy import steps
from tests.unit import states, vectors
from tests.unit.conditions import admits
from tests.unit.states import found
from tests.unit.vectors import CONFIG, ESCROW, EVENT, FAILURE, SETTLEMENT, VERDICT, VERDICTS
from tests.world.environment import NOW

PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
ENTRIES = [name for name, put in PUTS.items() if {"step", "request_hash"} <= put.parameters["Item"].keys()]
"""The names only: each write is built in its test, as at import it would not meet its mutants."""

CLAIMED = f"key: {SETTLEMENT.key} was claimed by a request with other content"


@pytest.mark.parametrize("name", PUTS)
def test_a_row_is_put_only_if_there_is_none_and_else_is_already_applied(name: str) -> None:
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    replayed = write.on_failure(found(row))

    assert admits(write, None)
    assert not admits(write, row)
    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found == found(row)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_another_request_is_a_conflict_and_not_a_replay(name: str) -> None:
    write = vectors.named_writes()[name]
    entry = dict(write.parameters["Item"])

    for earlier in (None, entry | {"request_hash": "another"}):
        refusal = write.on_failure(earlier)
        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == CLAIMED.replace(SETTLEMENT.key, entry["pk"].removeprefix("SETTLEMENT#"))


def test_a_claim_by_another_request_is_left_for_the_idempotency_check() -> None:
    earlier = states.state(request_hash="another", owner="another")

    replayed = forward.claim(SETTLEMENT, "owner", NOW, CONFIG).on_failure(earlier)

    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found is earlier


def test_a_tombstone_is_the_row_of_a_claim_with_its_end() -> None:
    claim = forward.claim(SETTLEMENT, "execution", NOW, CONFIG).parameters["Item"]

    tombstone = reversal.tombstone(SETTLEMENT, "execution", FAILURE, NOW).parameters["Item"]

    assert claim.keys() - tombstone.keys() == {"gsi1pk", "gsi1sk"}
    assert tombstone.keys() - claim.keys() == {"failure", "finished_at"}
    differing = {name for name in claim.keys() & tombstone.keys() if claim[name] != tombstone[name]}
    assert differing == {"status", "deadline_at"}
    assert tombstone["finished_at"] == tombstone["claimed_at"] == tombstone["deadline_at"]
    assert steps.is_replay(found(tombstone), "execution")


# Entries of transfers


@pytest.mark.parametrize(
    ("debit", "credit", "side", "partition"),
    [
        ("alice", ESCROW, "debit", "ACCOUNT#alice"),
        (ESCROW, "bob", "credit", "ACCOUNT#bob"),
        (ESCROW, "fees:EUR", "credit", "ACCOUNT#fees:EUR#2"),
        ("losses:EUR", ESCROW, "debit", "ACCOUNT#losses:EUR#2"),
    ],
)
def test_an_entry_is_listed_under_the_account_on_the_other_side_of_escrow(
    debit: str, credit: str, side: str, partition: str
) -> None:
    transfer = Transfer(debit=debit, credit=credit, amount=1)

    plain = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW).parameters["Item"]
    with_evidence = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW, {"decision": "retry"})

    assert (plain["side"], plain["gsi1pk"]) == (side, partition)
    assert with_evidence.parameters["Item"] == plain | {"decision": "retry"}


# The webhook's rows


def test_the_id_of_an_event_with_other_content_is_a_conflict() -> None:
    marker: Row = dict(kyc_review.event_marker(EVENT, SETTLEMENT, NOW).parameters["Item"])
    other = kyc_review.event_marker(replace(EVENT, digest="0" * 64), SETTLEMENT, NOW)

    for earlier in (None, marker):
        refusal = other.on_failure(earlier)
        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == "webhook-id: was used before by an event with other content"


def test_the_same_decision_is_replayed_and_another_is_a_conflict_for_good() -> None:
    for first in VERDICTS.values():
        left = dict(entries.verdict(SETTLEMENT, first, NOW).parameters["Item"])
        for second in VERDICTS.values():
            again = replace(second, reference="ver_2", reason="sent again")
            refusal = entries.verdict(SETTLEMENT, again, NOW).on_failure(left)
            if second.decision is first.decision:
                assert isinstance(refusal, AlreadyApplied)
                assert refusal.found == left
            else:
                assert type(refusal) is IdempotencyConflict
                assert str(refusal) == f"decision: {first.decision} is on record, for good"


def test_the_providers_answer_and_its_webhook_write_the_same_entry() -> None:
    """The two ways to a verdict meet in one row, so that there is one verdict."""
    answer = steps.verify(SETTLEMENT, VERDICT, NOW).entry.parameters["Item"]

    assert answer == entries.verdict(SETTLEMENT, VERDICT, NOW).parameters["Item"]
