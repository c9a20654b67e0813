"""The three ways out of LIMBO: what each does to the money, on whose word, and once."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement import compensation, rows
from settlement.errors import AccountInLimbo, NotReversible, ResolutionRefused, StepFenced
from settlement.request import Settlement
from settlement.resolution import Decision, Order, Resolution
from settlement.status import Status, Step
from settlement.writes import Posting
from tests.conftest import NOW
from tests.unit.books import ERROR, LATER, Books, forward, in_limbo, waiting
from tests.unit.test_compensation import AMOUNTS, STUCK, UNMOVED
from tests.unit.vectors import CASES, FAILURE, ORDER, RESOLVER, SETTLEMENT, TERMS, resolution

ACCEPTED = [(committed, stuck) for committed, stuck in STUCK if stuck is not Step.HOLD]
"""Where there is something that the payee, or the fees, may keep."""


def amount_stuck(settlement: Settlement, stuck: Step) -> int:
    return {Step.FEE: settlement.fee, Step.RELEASE: settlement.net, Step.HOLD: settlement.amount}[stuck]


# The money


@given(settlement=AMOUNTS, where=st.sampled_from(STUCK))
def test_a_retry_goes_on_to_the_end(settlement: Settlement, where: tuple[int, Step]) -> None:
    books = in_limbo(*where, settlement)
    before = books.moved()

    books.resolve(Decision.RETRY)

    assert books.moved() == before
    books.finish()
    books.assert_consistent()
    assert books.moved() == {}
    assert books.row()["status"] == Status.COMPENSATED


@given(settlement=AMOUNTS, where=st.sampled_from(ACCEPTED))
def test_a_write_off_makes_the_payer_whole_at_our_cost(
    settlement: Settlement, where: tuple[int, Step]
) -> None:
    books = in_limbo(*where, settlement)
    amount = amount_stuck(settlement, where[1])
    keeper = {Step.FEE: "fees:EUR", Step.RELEASE: "bob"}[where[1]]

    books.resolve(Decision.WRITE_OFF)

    books.assert_consistent()
    books.finish()
    books.assert_consistent()
    assert books.moved() == ({"losses:EUR": -amount, keeper: amount} if amount else {})
    row = books.row()
    assert (row["status"], row["escrow"]) == (Status.COMPENSATED, 0)
    assert not [entry for entry in books.entries() if entry["step"] == where[1].reversal]


@given(settlement=AMOUNTS, where=st.sampled_from([*ACCEPTED, (3, Step.FEE)]))
def test_what_is_completed_has_settled_as_if_nothing_had_happened(
    settlement: Settlement, where: tuple[int, Step]
) -> None:
    books = in_limbo(*where, settlement)

    books.resolve(Decision.COMPLETE)

    books.assert_consistent()
    expected = {"alice": -settlement.amount, "bob": settlement.net, "fees:EUR": settlement.fee}
    assert books.moved() == {account: change for account, change in expected.items() if change}
    row = books.row()
    assert (row["status"], row["escrow"]) == (Status.SETTLED, 0)
    assert row["finished_at"] == rows.timestamp(LATER)
    assert not row.keys() & {"failure", "gsi1pk", "gsi1sk", "stuck_step", "waiting"}


def test_what_was_completed_is_not_reversed_by_any_later_word() -> None:
    books = in_limbo(3, Step.RELEASE)
    books.resolve(Decision.COMPLETE)
    before = books.bytes()

    told = "the settlement is SETTLED and was completed out of LIMBO"
    with pytest.raises(NotReversible, match=f"^reverse: it was to be SETTLED, but {told}$"):
        books.table.post(compensation.requested(SETTLEMENT, ORDER, LATER, TERMS))
    for step in (Step.RELEASE, Step.HOLD):
        reversal = compensation.undo(SETTLEMENT, step, list(Step), [], LATER)
        assert reversal is not None
        with pytest.raises(StepFenced):
            books.table.post(reversal)
    assert books.bytes() == before


# The row


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_is_on_record_with_who_why_and_when(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    waiting(books)

    entry = books.resolve(decision)

    row, said = books.row(), {"decision": decision.value, "reason": ORDER.reason, "by": ORDER.by}
    assert said.items() <= entry.items()
    assert (entry["sk"], entry["posted_at"]) == (f"{SETTLEMENT.key}:resolve:1", rows.timestamp(LATER))
    assert entry["account"] == "bob"
    assert row["resolution"] == said | {"decided_at": rows.timestamp(LATER)}
    assert row["resolutions"] == 1
    assert not row.keys() & {"stuck_step", "waiting"}


@pytest.mark.parametrize("decision", Decision)
def test_only_what_is_completed_counts_as_settled(decision: Decision) -> None:
    arguments = (SETTLEMENT, CASES[Step.RELEASE], resolution(decision), RESOLVER, NOW, TERMS)

    posting = compensation.resolve(*arguments)

    assert posting.counted == ("Settled" if decision is Decision.COMPLETE else None)


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.WRITE_OFF])
def test_what_goes_on_is_in_flight_again_for_its_first_reason(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    assert books.row()["gsi1pk"] == "LIMBO"

    books.resolve(decision)

    row = books.row()
    due = rows.timestamp(LATER + timedelta(seconds=TERMS.recover_after_seconds))
    index = rows.in_flight_index(SETTLEMENT.key, due)
    assert index.items() <= row.items()
    assert row["failure"] == row["reversed_for"] == ERROR


def test_the_row_in_limbo_says_what_is_stuck_and_keeps_why_it_was_reversed() -> None:
    books = in_limbo(4, Step.RELEASE)
    row = books.row()

    assert (row["stuck_step"], row["failure"]) == ("compensate:release", FAILURE)
    assert row["reversed_for"]["error"] == "ReversalRequested"
    assert rows.limbo_index(rows.timestamp(LATER)).items() <= row.items()


# The account


@pytest.mark.parametrize("decision", Decision)
def test_an_account_leaves_limbo_with_its_last_case_only(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    bob = books.account("bob")
    bob["limbo_keys"] = {*bob["limbo_keys"], "order-2026-000999"}
    hold = forward(replace(SETTLEMENT, key="order-2026-000102", payer="bob", payee="alice"))[Step.HOLD]
    assert hold.balance is not None

    books.resolve(decision)

    assert books.account("bob")["limbo_keys"] == {"order-2026-000999"}
    with pytest.raises(AccountInLimbo):
        books.table.transact([hold.balance])


@pytest.mark.parametrize("decision", Decision)
def test_the_last_case_frees_the_account(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    hold = forward(replace(SETTLEMENT, key="order-2026-000102", payer="bob", payee="alice"))[Step.HOLD]
    assert hold.balance is not None
    with pytest.raises(AccountInLimbo):
        books.table.transact([hold.balance])

    books.resolve(decision)

    assert "limbo_keys" not in books.account("bob")
    books.table.transact([hold.balance])


# Once


def posting(books: Books, said: Resolution) -> Posting:
    row = books.row()
    case = compensation.stuck(SETTLEMENT, row)
    return compensation.resolve(SETTLEMENT, case, said, RESOLVER, LATER, TERMS)


@pytest.mark.parametrize("first", Decision)
@pytest.mark.parametrize("second", Decision)
def test_of_two_decisions_the_first_stands(first: Decision, second: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    late = posting(books, resolution(second))
    entry = books.resolve(first)
    before = books.bytes()

    assert books.table.post(late) == entry
    assert books.bytes() == before


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_on_an_earlier_case_does_nothing_to_a_later_one(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    late = posting(books, resolution(decision))
    books.resolve(Decision.RETRY)
    books.stick(Step.RELEASE)
    before = books.bytes()

    assert books.table.post(late)["decision"] == Decision.RETRY
    with pytest.raises(ResolutionRefused, match="moved on since it was looked at"):
        books.table.transact(late.writes[1:])
    assert books.bytes() == before


def test_a_late_entry_into_limbo_does_not_bring_a_resolved_case_back() -> None:
    books = in_limbo(3, Step.RELEASE)
    late = compensation.enter_limbo(SETTLEMENT, compensation.stuck(SETTLEMENT, books.row()), ERROR, LATER)
    books.resolve(Decision.RETRY)
    before = books.bytes()

    books.table.post(late)
    with pytest.raises(StepFenced):
        books.table.transact(late.writes[1:])
    assert books.bytes() == before


def test_a_reversal_that_was_on_its_way_cannot_take_what_was_written_off() -> None:
    books = in_limbo(3, Step.RELEASE)
    late = compensation.undo(SETTLEMENT, Step.RELEASE, ["hold", "verify", "release"], [], LATER)
    assert late is not None
    with pytest.raises(StepFenced, match="is LIMBO"):
        books.table.post(late)
    books.resolve(Decision.WRITE_OFF)
    before = books.bytes()

    with pytest.raises(StepFenced, match=r"\[release\] reversed"):
        books.table.post(late)
    assert books.bytes() == before


def test_another_person_or_reason_is_another_decision() -> None:
    books = in_limbo(3, Step.RELEASE)
    entry = books.resolve(Decision.RETRY)

    assert resolution(Decision.RETRY).is_on(entry)
    assert not resolution(Decision.COMPLETE).is_on(entry)
    for other in (Order(reason="x", by=ORDER.by), Order(reason=ORDER.reason, by="x")):
        assert not Resolution(reason=other.reason, by=other.by, decision=Decision.RETRY).is_on(entry)


# What makes sense

COVERS_NOTHING = "write-off: the escrow lacks nothing that could be covered; use retry"
ACCEPTS_NOTHING = "complete: there is no release left that could be accepted; use retry"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
@pytest.mark.parametrize("decision", Decision)
def test_there_is_nothing_to_decide_out_of_limbo(status: Status, decision: Decision) -> None:
    row = in_limbo(3, Step.RELEASE).row() | {"status": status.value}

    with pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"):
        compensation.check(SETTLEMENT, row, decision)


@pytest.mark.parametrize(("committed", "stuck"), [*UNMOVED, *STUCK])
def test_a_decision_that_makes_no_sense_is_refused_with_a_way_out(committed: int, stuck: Step) -> None:
    row = in_limbo(committed, stuck).row()
    refused = {
        decision.value: str(refusal)
        for decision in Decision
        if (refusal := _refusal(row, decision)) is not None
    }

    moved = list(Step)[:committed]
    covers_nothing = stuck is Step.HOLD or stuck not in moved
    accepts_nothing = stuck is Step.HOLD or Step.RELEASE not in moved
    assert refused == {
        **({"write-off": COVERS_NOTHING} if covers_nothing else {}),
        **({"complete": ACCEPTS_NOTHING} if accepts_nothing else {}),
    }


def _refusal(row: rows.Row, decision: Decision) -> ResolutionRefused | None:
    try:
        compensation.check(SETTLEMENT, row, decision)
    except ResolutionRefused as refusal:
        return refusal
    return None
