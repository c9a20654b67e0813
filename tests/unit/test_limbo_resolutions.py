"""The three ways out of LIMBO: each moves the money once, with the person and the reason on record."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.ledger import keys
from settlement.ledger.transaction import StepTransaction
from settlement.model.errors import AccountInLimbo, NotReversible, ResolutionRefused, StepFenced
from settlement.model.orders import Decision, Order, Resolution
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.model.timestamps import timestamp
from settlement.policy import compensation
from tests.conftest import NOW
from tests.unit.books import ERROR, LATER, Books, forward, in_limbo, waiting
from tests.unit.test_compensation import AMOUNTS, STUCK, UNMOVED
from tests.unit.vectors import CASES, CONFIG, FAILURE, ORDER, RESOLVER, SETTLEMENT, resolution

ACCEPTED = [(committed, stuck) for committed, stuck in STUCK if stuck is not Step.HOLD]
"""The cases with an amount that the payee, or the fees, may keep."""


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
def test_a_completed_settlement_has_the_balances_of_a_settled_one(
    settlement: Settlement, where: tuple[int, Step]
) -> None:
    books = in_limbo(*where, settlement)

    books.resolve(Decision.COMPLETE)

    books.assert_consistent()
    expected = {"alice": -settlement.amount, "bob": settlement.net, "fees:EUR": settlement.fee}
    assert books.moved() == {account: change for account, change in expected.items() if change}
    row = books.row()
    assert (row["status"], row["escrow"]) == (Status.SETTLED, 0)
    assert row["finished_at"] == timestamp(LATER)
    assert not row.keys() & {"failure", "gsi1pk", "gsi1sk", "stuck_step", "waiting"}


def test_a_completed_settlement_is_not_reversed_on_any_order() -> None:
    books = in_limbo(3, Step.RELEASE)
    books.resolve(Decision.COMPLETE)
    before = books.bytes()

    told = "the settlement is SETTLED and was completed out of LIMBO"
    with pytest.raises(NotReversible, match=f"^reverse: it was to be SETTLED, but {told}$"):
        books.table.commit(compensation.reverse_on_order(SETTLEMENT, ORDER, LATER, CONFIG))
    for step in (Step.RELEASE, Step.HOLD):
        reversal = compensation.reverse_step(SETTLEMENT, step, list(Step), [], LATER)
        assert reversal is not None
        with pytest.raises(StepFenced):
            books.table.commit(reversal)
    assert books.bytes() == before


# The row


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_is_on_record_with_its_person_reason_and_time(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    waiting(books)

    entry = books.resolve(decision)

    row, record = books.row(), {"decision": decision.value, "reason": ORDER.reason, "by": ORDER.by}
    assert record.items() <= entry.items()
    assert (entry["sk"], entry["posted_at"]) == (f"{SETTLEMENT.key}:resolve:1", timestamp(LATER))
    assert entry["account"] == "bob"
    assert row["resolution"] == record | {"decided_at": timestamp(LATER)}
    assert row["resolutions"] == 1
    assert not row.keys() & {"stuck_step", "waiting"}


@pytest.mark.parametrize("decision", Decision)
def test_only_a_completion_counts_as_settled(decision: Decision) -> None:
    arguments = (SETTLEMENT, CASES[Step.RELEASE], resolution(decision), RESOLVER, NOW, CONFIG)

    transaction = compensation.resolve(*arguments)

    assert transaction.metric == ("Settled" if decision is Decision.COMPLETE else None)


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.WRITE_OFF])
def test_a_retry_or_write_off_is_in_flight_again_with_its_first_failure(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    assert books.row()["gsi1pk"] == "LIMBO"

    books.resolve(decision)

    row = books.row()
    due = timestamp(LATER + timedelta(seconds=CONFIG.recover_after_seconds))
    index = keys.in_flight_index(SETTLEMENT.key, due)
    assert index.items() <= row.items()
    assert row["failure"] == row["reversed_for"] == ERROR


def test_the_row_in_limbo_says_what_is_stuck_and_keeps_why_it_was_reversed() -> None:
    books = in_limbo(4, Step.RELEASE)
    row = books.row()

    assert (row["stuck_step"], row["failure"]) == ("compensate:release", FAILURE)
    assert row["reversed_for"]["error"] == "ReversalRequested"
    assert keys.limbo_index(timestamp(LATER)).items() <= row.items()


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


def decided(books: Books, order: Resolution) -> StepTransaction:
    case = compensation.stuck_case(books.state())
    return compensation.resolve(SETTLEMENT, case, order, RESOLVER, LATER, CONFIG)


@pytest.mark.parametrize("first", Decision)
@pytest.mark.parametrize("second", Decision)
def test_of_two_decisions_the_first_one_counts(first: Decision, second: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    late = decided(books, resolution(second))
    entry = books.resolve(first)
    before = books.bytes()

    assert books.table.commit(late) == entry
    assert books.bytes() == before


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_on_an_earlier_case_does_nothing_to_a_later_one(decision: Decision) -> None:
    books = in_limbo(3, Step.RELEASE)
    late = decided(books, resolution(decision))
    books.resolve(Decision.RETRY)
    books.stick(Step.RELEASE)
    before = books.bytes()

    assert books.table.commit(late)["decision"] == Decision.RETRY
    with pytest.raises(ResolutionRefused, match="moved on since it was looked at"):
        books.table.transact(late.writes[1:])
    assert books.bytes() == before


def test_a_late_entry_into_limbo_does_not_bring_a_resolved_case_back() -> None:
    books = in_limbo(3, Step.RELEASE)
    late = compensation.enter_limbo(SETTLEMENT, compensation.stuck_case(books.state()), ERROR, LATER)
    books.resolve(Decision.RETRY)
    before = books.bytes()

    books.table.commit(late)
    with pytest.raises(StepFenced):
        books.table.transact(late.writes[1:])
    assert books.bytes() == before


def test_a_reversal_that_was_on_its_way_cannot_take_what_was_written_off() -> None:
    books = in_limbo(3, Step.RELEASE)
    late = compensation.reverse_step(SETTLEMENT, Step.RELEASE, ["hold", "verify", "release"], [], LATER)
    assert late is not None
    with pytest.raises(StepFenced, match="is LIMBO"):
        books.table.commit(late)
    books.resolve(Decision.WRITE_OFF)
    before = books.bytes()

    with pytest.raises(StepFenced, match=r"\[release\] reversed"):
        books.table.commit(late)
    assert books.bytes() == before


def test_another_person_or_reason_is_another_decision() -> None:
    books = in_limbo(3, Step.RELEASE)
    entry = books.resolve(Decision.RETRY)

    assert resolution(Decision.RETRY).is_on(entry)
    assert not resolution(Decision.COMPLETE).is_on(entry)
    for other in (Order(reason="x", by=ORDER.by), Order(reason=ORDER.reason, by="x")):
        assert not Resolution(reason=other.reason, by=other.by, decision=Decision.RETRY).is_on(entry)


# Decisions that do not fit

COVERS_NOTHING = "write-off: the escrow lacks nothing that could be covered; use retry"
ACCEPTS_NOTHING = "complete: there is no release left that could be accepted; use retry"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
@pytest.mark.parametrize("decision", Decision)
def test_a_settlement_out_of_limbo_has_nothing_to_decide(status: Status, decision: Decision) -> None:
    state = replace(in_limbo(3, Step.RELEASE).state(), status=status)

    with pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"):
        compensation.ensure_can_resolve(state, decision)


@pytest.mark.parametrize(("committed", "stuck"), [*UNMOVED, *STUCK])
def test_a_decision_that_does_not_fit_is_refused_with_a_way_out(committed: int, stuck: Step) -> None:
    state = in_limbo(committed, stuck).state()
    refused = {
        decision.value: str(refusal)
        for decision in Decision
        if (refusal := _refusal(state, decision)) is not None
    }

    moved = list(Step)[:committed]
    covers_nothing = stuck is Step.HOLD or stuck not in moved
    accepts_nothing = stuck is Step.HOLD or Step.RELEASE not in moved
    assert refused == {
        **({"write-off": COVERS_NOTHING} if covers_nothing else {}),
        **({"complete": ACCEPTS_NOTHING} if accepts_nothing else {}),
    }


def _refusal(state: SettlementState, decision: Decision) -> ResolutionRefused | None:
    try:
        compensation.ensure_can_resolve(state, decision)
    except ResolutionRefused as refusal:
        return refusal
    return None
