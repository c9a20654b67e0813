from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AccountInLimbo, AccountNotFound, IdempotencyConflict, StepFenced
from settlement.core.model.orders import Resolution
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.store.rows import (
    DECIDED_AT,
    DUE_AGAIN,
    REVERSED,
    REVERSED_AT,
    another,
    begun,
    book,
    decision,
    evidence,
    finished,
    in_order,
    moved,
    posted,
    said,
    undone,
)
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.saga import COMPLETE, DECIDED, KEY, RETRY, STUCK, WRITE_OFF, Saga

ACCOUNT = {Step.FEE: "fees:EUR", Step.RELEASE: "bob", Step.HOLD: "alice"}

BLOCK: Row = {"limbo_cases": 1}
UNBLOCKED: Row = {"limbo_cases": 0}
DECISIONS = pytest.mark.parametrize(
    "resolution", [RETRY, WRITE_OFF, COMPLETE], ids=lambda each: each.decision.value
)
ESCROW_ACCOUNT = f"escrow:{KEY}"


def limbo_evidence(step: Step, number: int = 1) -> Row:
    return evidence(
        f"limbo:{number}", account=ACCOUNT[step], **{name: STUCK[name] for name in ("error", "cause")}
    )


def resolve_evidence(step: Step, resolution: Resolution) -> Row:
    return evidence("resolve:1", DECIDED_AT, account=ACCOUNT[step], **said(resolution))


def waiting(token: str = "token-1", execution: str = "arn:execution-1", case: int = 1) -> Row:
    return {
        "pk": f"WAITING#{KEY}",
        "sk": "WAITING",
        "key": KEY,
        "token": token,
        "execution": execution,
        "case": case,
    }


def before(step: Step) -> list[Step]:
    return list(REVERSIBLE[: REVERSIBLE.index(step)])


def progress(step: Step) -> Row:
    """Return the row's attributes when the reversal of `step` is next."""
    done = before(step)
    return {"escrow": sum(REVERSED[each]["amount"] for each in done), **undone(*done)}


def decided(last: Step | None, resolution: Resolution, events: int = 0, **changes: Any) -> Row:
    """Return a settlement's row that continues its reversal after a decision.

    `events` counts the reversals before the stuck one.
    """
    closed = {"resolutions": 1, "resolution": decision(resolution), **DUE_AGAIN, **changes}
    return begun(last, events=2 + events, **closed)


# Into LIMBO


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_stuck_reversal_enters_limbo_and_blocks_the_customer(saga: Saga, step: Step) -> None:
    saga.stuck(step)

    blocked = {name: BLOCK if ACCOUNT[step] == name else {} for name in ("alice", "bob")}
    alice: Row = {"available": 5180, **blocked["alice"]}
    bob: Row = {"available": 500 if step is Step.HOLD else 5272, **blocked["bob"]}
    row = begun(
        Step.FEE,
        status="LIMBO",
        events=len(before(step)) + 1,
        stuck_step=step.reversal,
        failure=STUCK | {"step": step.reversal},
        gsi1pk="LIMBO",
        gsi1sk=REVERSED_AT,
        **progress(step),
    )
    others = [*posted(Step.FEE), *(REVERSED[each] for each in before(step)), limbo_evidence(step)]
    assert saga.books() == book(row, *others, alice=alice, bob=bob)


def test_entering_limbo_again_changes_nothing_unless_the_request_differs(
    saga: Saga, counted: list[str]
) -> None:
    saga.begun(Step.RELEASE)
    first = saga.enter()

    with saga.writes_nothing():
        again = saga.enter(failure=STUCK | {"error": "StoreUnavailable"}, now=DECIDED)
        with pytest.raises(IdempotencyConflict, match="other content"):
            saga.asking(amount=4821).enter()

    assert again == first == limbo_evidence(Step.RELEASE)
    assert counted == ["LimboEntered", "StepReplayed"]


def test_a_stale_case_cannot_be_opened_after_the_decision(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    stale = saga.case(Step.RELEASE)
    saga.enter(stale)
    saga.resolve(RETRY)

    with saga.writes_nothing():
        assert saga.enter(stale, now=DECIDED) == limbo_evidence(Step.RELEASE)
        with pytest.raises(StepFenced, match=r"^limbo: the settlement is COMPENSATING "):
            saga.enter(saga.case(Step.RELEASE, number=3))


# The execution that waits


def test_the_waiting_row_names_the_latest_waiting_execution(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    before = saga.books()

    assert saga.wait() == waiting()

    assert saga.books() == in_order(*before, waiting())
    saga.wait("token-2", "arn:execution-2")
    assert saga.books() == in_order(*before, waiting("token-2", "arn:execution-2"))


def test_an_execution_waiting_for_a_later_case_is_not_replaced(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.wait()
    saga.resolve(RETRY)
    saga.enter(now=DECIDED)
    assert saga.wait("token-2", case=2) == waiting("token-2", case=2)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=rf"^await: a later case of {KEY} is waited for$"),
    ):
        saga.wait("token-3", case=1)

    assert saga.wait("token-4", case=2) == waiting("token-4", case=2)


@DECISIONS
def test_a_decision_does_not_touch_the_waiting_row(saga: Saga, resolution: Resolution) -> None:
    saga.stuck(Step.RELEASE)
    saga.wait()

    saga.resolve(resolution)

    assert saga.ledger.row(keys.waiting(KEY)) == waiting()


# Out of LIMBO


@pytest.mark.parametrize("step", REVERSIBLE)
def test_retry_moves_no_money_and_lets_the_reversal_continue(saga: Saga, step: Step) -> None:
    saga.stuck(step)

    resolved = saga.resolve(RETRY)

    assert resolved == resolve_evidence(step, RETRY)
    assert saga.books() == book(
        decided(Step.FEE, RETRY, len(before(step)), **progress(step)),
        *(*posted(Step.FEE), *(REVERSED[each] for each in before(step)), limbo_evidence(step), resolved),
        alice={"available": 5180} | (UNBLOCKED if step is Step.HOLD else {}),
        bob={"available": 500 if step is Step.HOLD else 5272} | (UNBLOCKED if step is Step.RELEASE else {}),
    )
    saga.unwind()
    assert saga.row()["status"] == Status.COMPENSATED
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize(
    ("step", "amount", "left"),
    [
        (Step.FEE, 48, [10_000, 500, {"external:EUR": -10_500, "fees:EUR": 48, "losses:EUR": -48}]),
        (Step.RELEASE, 4772, [10_000, 5272, {"external:EUR": -10_500, "losses:EUR": -4772}]),
    ],
)
def test_write_off_covers_the_stuck_amount_from_the_losses(
    saga: Saga, step: Step, amount: int, left: list[Any]
) -> None:
    saga.stuck(step)

    resolved = saga.resolve(WRITE_OFF)

    both = [
        resolve_evidence(step, WRITE_OFF),
        moved("resolve:1", "losses:EUR", ESCROW_ACCOUNT, amount, DECIDED_AT),
    ]
    assert resolved == both[0] | both[1]
    escrow = 48 if step is Step.FEE else 4820
    row = decided(Step.FEE, WRITE_OFF, len(before(step)), **undone(*before(step)), escrow=escrow)
    row |= {step.reversal_slot: DECIDED_AT, "resolution": decision(WRITE_OFF) | {"covered": step.value}}
    others = [*posted(Step.FEE), *(REVERSED[each] for each in before(step)), limbo_evidence(step), *both]
    bob: Row = {"available": 5272} | (UNBLOCKED if step is Step.RELEASE else {})
    assert saga.books() == book(row, *others, alice=5180, bob=bob)
    saga.unwind()
    assert (saga.row()["status"], saga.row()["escrow"]) == ("COMPENSATED", 0)
    alice, bob, *_ = saga.books()
    assert [alice["available"], bob["available"], assert_conserved(saga.ledger.rows())] == left


@pytest.mark.parametrize(
    ("last", "step", "rest"),
    [
        pytest.param(Step.RELEASE, Step.RELEASE, 48, id="fee never collected"),
        pytest.param(Step.RELEASE, Step.FEE, 48, id="fee never collected, and its refund stuck"),
        pytest.param(Step.FEE, Step.RELEASE, 48, id="fee collected and refunded"),
        pytest.param(Step.FEE, Step.FEE, 0, id="fee collected"),
    ],
)
def test_complete_accepts_the_release_and_books_the_rest_as_fee(
    saga: Saga, last: Step, step: Step, rest: int
) -> None:
    saga.stuck(step, last)
    refunded = [Step.FEE] if (last, step) == (Step.FEE, Step.RELEASE) else []

    resolved = saga.resolve(COMPLETE)

    both = [
        resolve_evidence(step, COMPLETE),
        moved("resolve:1", ESCROW_ACCOUNT, "fees:EUR", rest, DECIDED_AT),
    ]
    assert resolved == both[0] | both[1]
    row = decided(last, COMPLETE, len(refunded), **undone(*refunded), escrow=0)
    row |= {"status": "SETTLED", "finished_at": DECIDED_AT}
    row = {name: value for name, value in finished(row).items() if name != "failure"}
    others = [*posted(last), *(REVERSED[each] for each in refunded), limbo_evidence(step), *both]
    bob: Row = {"available": 5272} | (UNBLOCKED if step is Step.RELEASE else {})
    assert saga.books() == book(row, *others, alice=5180, bob=bob)
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500, "fees:EUR": 48}


@DECISIONS
def test_a_second_decision_on_a_case_finds_the_first(saga: Saga, resolution: Resolution) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    resolved = saga.resolve(resolution)

    with saga.writes_nothing():
        for second in (RETRY, WRITE_OFF, COMPLETE):
            again = saga.resolve(second, case=case, now=DECIDED + (DECIDED - NOW))
            assert again == resolved
            assert second.is_on(again) == (resolution is second)
        with pytest.raises(IdempotencyConflict, match="other content"):
            saga.asking(fee=49).resolve(resolution, case=case)


def test_each_case_has_its_own_recorded_decision(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    stale = saga.case()
    first = saga.resolve(RETRY)
    saga.enter(now=DECIDED)
    with saga.writes_nothing():
        for resolution in (RETRY, WRITE_OFF, COMPLETE):
            assert saga.resolve(resolution, case=stale) == first

    second = saga.resolve(WRITE_OFF)

    assert second["step"] == "resolve:2"
    assert (saga.row()["resolutions"], saga.row()["resolution"]) == (
        2,
        decision(WRITE_OFF) | {"covered": "release"},
    )
    names = {row["step"] for row in saga.books() if row["pk"] == f"EVIDENCE#{KEY}"}
    assert names == {"verify", "reverse", "limbo:1", "limbo:2", "resolve:1", "resolve:2"}


def test_a_later_decision_keeps_what_the_losses_have_covered(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(WRITE_OFF)
    saga.enter(failure=STUCK | {"step": Step.HOLD.reversal}, now=DECIDED)

    saga.resolve(RETRY)

    assert (saga.state().resolutions, saga.state().covered) == (2, frozenset({"release"}))


# The account


def test_a_missing_account_is_not_blocked_and_stops_no_decision(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    blocked = saga.case(Step.RELEASE)
    free = saga.case(Step.RELEASE, blocked_account=None)
    saga.ledger.delete(keys.account("bob"))
    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^stuck party: "):
        saga.enter(blocked)

    assert saga.enter(free) == limbo_evidence(Step.RELEASE)

    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^stuck party: "):
        saga.resolve(WRITE_OFF)
    resolved = saga.resolve(WRITE_OFF, case=free)
    assert (resolved["account"], resolved["amount"]) == ("bob", 4772)
    assert saga.ledger.row(keys.account("bob")) is None


@pytest.mark.parametrize("first_out", [0, 1])
def test_an_account_is_unblocked_only_with_its_last_case(saga: Saga, first_out: int) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    other = another(saga)
    other.enter()
    spending = saga.spent(1)
    early, late = (saga, other) if first_out == 0 else (other, saga)

    early.resolve(RETRY)
    assert saga.books()[1]["limbo_cases"] == 1
    with saga.writes_nothing(), pytest.raises(AccountInLimbo):
        spending.commit(Step.HOLD)

    late.resolve(RETRY)
    assert saga.books()[1]["limbo_cases"] == 0
    spending.commit(Step.HOLD)
    saga.books()


def test_one_settlement_can_be_stuck_on_payee_then_payer(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(RETRY)
    saga.reverse(Step.RELEASE)

    entered = saga.enter(failure=STUCK | {"step": "compensate:hold"}, now=NOW)

    assert (entered["step"], entered["account"]) == ("limbo:2", "alice")
    assert [row.get("limbo_cases") for row in saga.books()[:2]] == [1, 0]
    assert saga.case().number == 2
