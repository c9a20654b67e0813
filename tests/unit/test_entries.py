from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from settlement.core.ledger import entries, forward, keys, kyc_review, reversal
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import AlreadyApplied, Transfer
from settlement.core.model.errors import IdempotencyConflict, ProposalRefused, StepFenced
from settlement.core.model.orders import Resolution
from settlement.core.model.status import Step
from settlement.core.model.verdict import Verdict
from settlement.core.policy import steps
from tests.unit import books, states, vectors
from tests.unit.books import LAST, STUCK, unwind
from tests.unit.conditions import admits
from tests.unit.states import found
from tests.unit.vectors import CONFIG, DECIDER, ESCROW, EVENT, FAILURE, SETTLEMENT, VERDICT, VERDICTS
from tests.world.environment import NOW
from tests.world.rooms import there
from tests.world.saga import COMPLETE, LATER, RETRY, WRITE_OFF, Saga

PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
WAITING = "limbo.await_decision"
TRANSFERS = [name for name, put in PUTS.items() if keys.is_entry(put.parameters["Item"])]
"""Includes an order's entry: its row, in the same transaction, records the order."""

MOVES = [name for name in PUTS if name.startswith("proposals.record.")]
EVIDENCE = [
    name for name, put in PUTS.items() if keys.is_evidence(put.parameters["Item"]) and name not in MOVES
]
SWEPT_AGAIN = "sweep.fold.again[0]"
"""Replaces its row on a version condition: test_sweeps.py."""

PROPOSED_AGAIN = "proposals.propose.again"
"""Replaces a void or closed proposal: tests/handlers/orders/test_void_proposals.py."""

PAYOUTS_NAME = "writes.reserve[1]"
"""Its payout's row is the record."""

OTHERS = (*TRANSFERS, *MOVES, WAITING, SWEPT_AGAIN, PROPOSED_AGAIN, PAYOUTS_NAME)
RECORDS = [name for name in PUTS if name not in OTHERS]
"""Names only: writes are built in their tests, because mutants are not active at import."""

CLAIMED = f"key: {SETTLEMENT.key} was claimed by a request with other content"


@pytest.mark.parametrize("name", RECORDS)
def test_an_existing_row_is_not_put_but_already_applied(name: str) -> None:
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
def test_the_evidence_of_a_move_does_not_record_its_proposal(name: str) -> None:
    """The proposal's row is the record: evidence beside a row without the move means a restored row."""
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    assert admits(write, None)
    assert not admits(write, row)
    refusal = write.on_failure(row)
    assert type(refusal) is ProposalRefused
    assert "is on record, but not in its row" in str(refusal)


@pytest.mark.parametrize("name", TRANSFERS)
def test_an_entry_is_never_overwritten_and_never_records_its_step(name: str) -> None:
    """The slot on the settlement's row is the record.

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


def test_every_kind_of_put_is_examined() -> None:
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
        *there("payouts", "DESTINATION", "PAYOUT", "PAYOUT_REFERENCE"),
    }
    assert {"entries.transfer.hold", "steps.claim_and_hold[1]"} <= set(TRANSFERS)
    assert {"entries.evidence", "compensation.reverse_on_order.settled[0]"} <= set(EVIDENCE)


def test_another_requests_claim_is_left_for_the_idempotency_check() -> None:
    earlier = states.state(request_hash="another", owner="another")

    for build in (forward.claim, forward.claim_and_hold):
        replayed = build(SETTLEMENT, "owner", NOW, CONFIG).on_failure(earlier)
        assert isinstance(replayed, AlreadyApplied)
        assert replayed.found is earlier


def test_a_tombstone_is_the_row_of_an_ended_claim() -> None:
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


PARTIES = {Step.HOLD: "alice", Step.RELEASE: "bob", Step.FEE: "fees:EUR"}


def entries_by_the_row(saga: Saga) -> set[tuple[str, str]]:
    """Return the addresses of a settlement's entries, derived from its row and its decisions."""
    state, decisions = saga.state(), [f"resolve:{number + 1}" for number in range(saga.state().resolutions)]
    placed = [(PARTIES[Step(step)], at, step) for step, at in state.steps.items() if Step(step) in PARTIES]
    undone = {Step(step): at for step, at in state.reversed.items()}
    for name in decisions:
        evidence = saga.ledger.store.evidence(SETTLEMENT.key, name)
        assert evidence
        if evidence["decision"] == "write-off":
            (covered,) = (step for step, at in undone.items() if at == evidence["posted_at"])
            del undone[covered]
            placed.append(("losses:EUR", evidence["posted_at"], name))
        elif evidence["decision"] == "complete":
            placed.append(("fees:EUR", evidence["posted_at"], name))
    placed += [(PARTIES[step], at, step.reversal) for step, at in undone.items()]
    rows = [keys.entry(account, at, SETTLEMENT.key, step) for account, at, step in placed]
    return {(row["pk"], row["sk"]) for row in rows}


def entries_in_the_table(saga: Saga) -> set[tuple[str, str]]:
    own = [row for row in saga.ledger.rows() if keys.is_entry(row) and f"#{SETTLEMENT.key}:" in row["sk"]]
    return {(row["pk"], row["sk"]) for row in own}


@pytest.mark.parametrize("last", LAST)
def test_the_address_of_each_entry_follows_from_its_settlements_row(last: Step | None) -> None:
    """Otherwise a check of one settlement would have to read whole accounts."""
    saga = books.begun(last)
    assert entries_in_the_table(saga) == entries_by_the_row(saga)

    unwind(saga)

    assert entries_in_the_table(saga) == entries_by_the_row(saga)
    assert len(entries_in_the_table(saga)) == 2 * len(
        [step for step in saga.state().steps if step != "verify"]
    )


@pytest.mark.parametrize("decision", [RETRY, WRITE_OFF, COMPLETE], ids=lambda order: order.decision.value)
@pytest.mark.parametrize(("last", "step"), [where for where in STUCK if where[1] is not Step.HOLD])
def test_the_address_of_a_decisions_entry_follows_from_its_evidence(
    last: Step, step: Step, decision: Resolution
) -> None:
    saga = books.stuck(last, step)

    saga.resolve(decision)

    assert entries_in_the_table(saga) == entries_by_the_row(saga)
    if decision is not COMPLETE:
        unwind(saga)
    assert entries_in_the_table(saga) == entries_by_the_row(saga)


# The webhook's rows


def test_a_reused_event_id_with_other_content_is_a_conflict() -> None:
    marker: Row = dict(kyc_review.event_marker(EVENT, SETTLEMENT, NOW).parameters["Item"])
    other = kyc_review.event_marker(replace(EVENT, digest="0" * 64), SETTLEMENT, NOW)

    for earlier in (None, marker):
        refusal = other.on_failure(earlier)
        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == "webhook-id: was used before by an event with other content"


def by_webhook(saga: Saga, verdict: Verdict, event: WebhookEvent = EVENT) -> None:
    writes = steps.record_webhook_verdict(SETTLEMENT, verdict, event, DECIDER, LATER, CONFIG)
    saga.ledger.store.transact(writes)


def by_answer(saga: Saga, verdict: Verdict, event: WebhookEvent = EVENT) -> None:
    saga.verify(verdict)


@pytest.mark.parametrize("second", VERDICTS.values(), ids=VERDICTS)
@pytest.mark.parametrize("first", VERDICTS.values(), ids=VERDICTS)
@pytest.mark.parametrize("decide", [by_webhook, by_answer])
def test_the_same_decision_is_replayed_and_another_conflicts_for_good(
    decide: Callable[[Saga, Verdict], None], first: Verdict, second: Verdict
) -> None:
    """Each decision has its own event id, like a provider that decides again."""
    saga, another = books.reached(Step.HOLD), replace(EVENT, id="evt-2")
    decide(saga, first)
    again = replace(second, reference="ver_2", reason="sent again")

    if second.decision is first.decision:
        with saga.writes_nothing(), pytest.raises(AlreadyApplied) as replayed:
            by_webhook(saga, again, another)
        assert replayed.value.found == saga.state()
    else:
        message = f"^decision: {first.decision} is on record, for good$"
        with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match=message):
            by_webhook(saga, again, another)


def test_the_providers_answer_and_webhook_are_two_facts_worded_alike() -> None:
    """Neither replaces the other: the settlement's row shows which came first."""
    answered = entries.evidence(SETTLEMENT, Step.VERIFY, VERDICT.evidence(), NOW).parameters["Item"]
    *_, sent = steps.record_webhook_verdict(SETTLEMENT, VERDICT, EVENT, DECIDER, NOW, CONFIG)

    assert sent.parameters["Item"] == answered | {"sk": f"{SETTLEMENT.key}:review", "step": "review"}
    assert answered["sk"] == f"{SETTLEMENT.key}:verify"


@pytest.mark.parametrize("answered", VERDICTS)
@pytest.mark.parametrize("sent", VERDICTS)
@pytest.mark.parametrize("moment", range(3))
def test_the_first_verdict_on_the_row_stays_with_its_evidence(moment: int, sent: str, answered: str) -> None:
    """Covers a webhook before, between and after the answer's two writes.

    The webhook is one transaction. In between, both have evidence, which may contradict.
    """
    saga = books.reached(Step.HOLD)
    webhook = partial(by_webhook, saga, VERDICTS[sent])

    if moment == 0:
        webhook()
    on_record = Verdict.on_record(saga.put_evidence(VERDICTS[answered]))
    if moment == 1:
        webhook()
    saga.put_verdict(on_record)
    if moment == 2:
        with pytest.raises(AlreadyApplied if sent == answered else IdempotencyConflict):
            webhook()

    review = saga.ledger.store.evidence(SETTLEMENT.key, kyc_review.REVIEW)
    verify = saga.ledger.store.evidence(SETTLEMENT.key, Step.VERIFY)
    assert verify
    assert verify["decision"] == VERDICTS[answered].decision
    assert (review is None) == (moment == 2)
    assert saga.state().verdict == (review or verify)["decision"]
    assert saga.state().verdict == VERDICTS[answered if moment == 2 else sent].decision
    books.moved(saga)
    assert (Step.VERIFY in saga.state().steps) == (saga.state().verdict == "APPROVED")


# The execution that waits in LIMBO


@pytest.mark.parametrize("case", [1, 2, 3])
def test_the_last_execution_waiting_for_a_case_is_woken(case: int) -> None:
    saga = books.fresh()
    saga.wait("token-1", "arn:execution-1", case=2)

    if case < 2:
        with (
            saga.writes_nothing(),
            pytest.raises(StepFenced, match=r"^await: a later case of .* is waited for$"),
        ):
            saga.wait("token-2", "arn:execution-2", case=case)
    else:
        saga.wait("token-2", "arn:execution-2", case=case)
        (row,) = saga.ledger.rows()
        more = {"key": SETTLEMENT.key, "case": case, "token": "token-2", "execution": "arn:execution-2"}
        assert row == keys.waiting(SETTLEMENT.key) | more


def test_a_task_token_is_on_no_row_of_the_settlement() -> None:
    """A reader of the row, for a report or a statement, could resume the machine with it."""
    saga = books.stuck(Step.FEE, Step.RELEASE)
    before = saga.row()

    saga.wait("a-task-token")

    assert saga.row() == before
    assert [row["pk"] for row in saga.ledger.rows() if "a-task-token" in str(row)] == [
        f"WAITING#{SETTLEMENT.key}"
    ]
