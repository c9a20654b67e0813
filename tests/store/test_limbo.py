"""Into LIMBO and within it: the stuck reversal is on record, its party is blocked, and a person decides."""

import pytest

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.case import Case
from settlement.model.errors import AccountInLimbo, AccountNotFound, IdempotencyConflict, StepFenced
from settlement.model.status import REVERSIBLE, Status, Step
from tests.conftest import NOW
from tests.store.reversal import AVAILABLE, ESCROW, REVERSED, REVERSED_AT, begun, book, entry, posted
from tests.store.saga import DECIDED, KEY, RETRY, STUCK, Saga

ACCOUNT = {Step.FEE: "fees:EUR", Step.RELEASE: "bob", Step.HOLD: "alice"}
"""The account of a stuck reversal, by its step."""

BLOCK = {"limbo_keys": {KEY}}


def limbo_row(step: Step, **changes: object) -> Row:
    """Return the row of a settlement that had settled and whose reversal is stuck at `step`."""
    before = REVERSIBLE[: REVERSIBLE.index(step)]
    return begun(
        Step.FEE,
        **{
            "status": "LIMBO",
            "stuck_step": step.reversal,
            "failure": STUCK | {"step": step.reversal},
            "escrow": {Step.FEE: 0, Step.RELEASE: 48, Step.HOLD: 4820}[step],
            "gsi1pk": "LIMBO",
            "gsi1sk": REVERSED_AT,
            **({"reversed": {earlier.value for earlier in before}} if before else {}),
            **changes,
        },
    )


def limbo_entry(step: Step, number: int = 1) -> Row:
    said = {name: STUCK[name] for name in ("error", "cause")}
    return entry(f"limbo:{number}", account=ACCOUNT[step], **said)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_stuck_reversal_puts_the_settlement_into_limbo_and_blocks_the_customer(
    saga: Saga, step: Step
) -> None:
    saga.stuck(step)

    before = [REVERSED[earlier] for earlier in REVERSIBLE[: REVERSIBLE.index(step)]]
    alice, bob = {"available": 5180}, {"available": 500 if step is Step.HOLD else 5272}
    alice, bob = {"alice": (alice | BLOCK, bob), "bob": (alice, bob | BLOCK)}.get(ACCOUNT[step], (alice, bob))
    assert saga.books() == book(
        limbo_row(step), *posted(Step.FEE), *before, limbo_entry(step), alice=alice, bob=bob
    )


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_nothing_enters_limbo_unless_it_is_being_reversed(saga: Saga, status: Status) -> None:
    saga.begun(Step.RELEASE)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^limbo: the settlement is {status} "):
        saga.enter()


def test_a_second_entry_into_limbo_changes_nothing(saga: Saga, counted: list[str]) -> None:
    saga.begun(Step.RELEASE)
    first = saga.enter()

    with saga.writes_nothing():
        again = saga.enter(failure=STUCK | {"error": "StoreUnavailable"}, now=DECIDED)

    assert again == first == limbo_entry(Step.RELEASE)
    assert counted == ["LimboEntered", "StepReplayed"]


def test_a_case_from_before_the_last_decision_does_not_enter_limbo_again(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    stale = saga.case(Step.RELEASE)
    saga.enter(stale)
    saga.resolve(RETRY)

    with saga.writes_nothing():
        assert saga.enter(stale, now=DECIDED) == limbo_entry(Step.RELEASE)


@pytest.mark.parametrize(("decided", "number"), [(0, 2), (1, 3), (2, 2)])
def test_no_case_is_opened_but_the_one_that_is_next(saga: Saga, decided: int, number: int) -> None:
    saga.begun(Step.RELEASE)
    saga.alter(resolutions=decided)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^limbo: the settlement is COMPENSATING "):
        saga.enter(saga.case(Step.RELEASE, number=number))


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversal_that_has_committed_after_all_is_not_stuck(saga: Saga, step: Step) -> None:
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)
    seen = saga.case(step)
    saga.reverse(step)
    saga.alter(status=Status.COMPENSATING)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^limbo: .* and \[.*\] reversed$"):
        saga.enter(seen)


@pytest.mark.parametrize("after", [False, True])
def test_other_content_does_not_enter_limbo(saga: Saga, after: bool) -> None:
    saga.begun(Step.RELEASE)
    if after:
        saga.enter()

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(amount=4821).enter()


@pytest.mark.parametrize(
    ("last", "step"),
    [
        *((None, step) for step in REVERSIBLE),
        *((last, Step.FEE) for last in (Step.HOLD, Step.VERIFY, Step.RELEASE)),
        *((last, Step.RELEASE) for last in (Step.HOLD, Step.VERIFY)),
    ],
)
def test_a_stuck_reversal_of_an_uncommitted_step_risks_nothing_and_blocks_no_account(
    saga: Saga, last: Step | None, step: Step
) -> None:
    saga.begun(last)
    failure = STUCK | {"step": step.reversal}

    entered = saga.enter(failure=failure)

    assert entered == limbo_entry(step)
    index = {"gsi1pk": "LIMBO", "gsi1sk": REVERSED_AT}
    row = begun(last, status="LIMBO", stuck_step=step.reversal, failure=failure, **index)
    alice, bob = AVAILABLE[last]
    assert saga.books() == book(row, *posted(last), entered, alice=alice, bob=bob)
    assert saga.case() == Case(
        step=step, account=ACCOUNT[step], blocked_account=None, amount=0, number=1, escrow=ESCROW[last]
    )


def test_the_case_is_of_the_failed_reversal_and_not_of_another_that_is_due(saga: Saga) -> None:
    """The refund has committed, but the reversal of the hold failed before the reclaim was tried."""
    saga.begun(Step.FEE)
    saga.reverse(Step.FEE)

    entered = saga.enter(failure=STUCK | {"step": "compensate:hold"})

    assert entered == limbo_entry(Step.HOLD)
    assert saga.row()["stuck_step"] == "compensate:hold"
    assert [row.get("limbo_keys") for row in saga.books()[:2]] == [{KEY}, None]
    assert saga.case() == Case(
        step=Step.HOLD, account="alice", blocked_account="alice", amount=4820, number=1, escrow=48
    )


@pytest.mark.parametrize(("last", "step"), [(Step.FEE, Step.RELEASE), (Step.VERIFY, Step.FEE)])
def test_in_limbo_the_row_yields_the_very_case_that_was_entered(saga: Saga, last: Step, step: Step) -> None:
    saga.begun(last)
    case = saga.case(step)

    saga.enter(case)

    assert saga.case() == case


# The account


def test_a_deleted_account_cannot_be_blocked_and_limbo_is_entered_without(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    key = {name: {"S": text} for name, text in keys.account("bob").items()}
    saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)
    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^stuck party: "):
        saga.enter()

    entered = saga.enter(saga.case(Step.RELEASE, blocked_account=None))

    assert entered == limbo_entry(Step.RELEASE)
    assert saga.ledger.row(keys.account("bob")) is None
    assert saga.row()["status"] == Status.LIMBO


def test_a_blocked_account_places_no_hold_until_its_case_is_resolved(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    spending = saga.spent(1)

    with saga.writes_nothing(), pytest.raises(AccountInLimbo):
        spending.commit(Step.HOLD)

    saga.resolve(RETRY)
    spending.commit(Step.HOLD)
    assert saga.books()[1]["available"] == 5271


def test_a_blocked_account_may_receive(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    paying = saga.asking(key="order-2026-000303", amount=100, fee=0)
    paying.claim()

    for step in Step:
        paying.commit(step)

    assert saga.books()[1] == {**saga.books()[1], "available": 5372, "limbo_keys": {KEY}}


# Waiting


def test_a_waiting_execution_is_recorded_and_nothing_else_changes(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)

    state = saga.wait()

    assert state == saga.state()
    assert saga.row() == limbo_row(Step.RELEASE, waiting={"token": "token-1", "execution": "arn:execution-1"})


def test_the_last_waiting_execution_replaces_the_one_before(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.wait()

    state = saga.wait("token-2", "arn:execution-2")

    assert state.waiting == saga.row()["waiting"] == {"token": "token-2", "execution": "arn:execution-2"}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_no_execution_waits_for_a_decision_out_of_limbo(saga: Saga, status: Status) -> None:
    saga.stuck(Step.RELEASE)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^limbo: the settlement is {status} "):
        saga.wait()


def test_no_execution_waits_with_other_content_or_for_an_unclaimed_key(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^limbo: .* was never claimed$"):
        saga.wait()
    saga.stuck(Step.RELEASE)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict):
        saga.asking(amount=4821).wait()


# Two settlements, one account


def second(saga: Saga) -> Saga:
    """Put another settlement between the same two into LIMBO, at its reclaim."""
    other = saga.asking(key="order-2026-000404", amount=1000)
    other.claim()
    for step in (Step.HOLD, Step.VERIFY, Step.RELEASE):
        other.commit(step)
    other.begin()
    other.enter()
    return other


@pytest.mark.parametrize("first_out", [0, 1])
def test_an_account_leaves_limbo_only_with_the_last_of_its_settlements(saga: Saga, first_out: int) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    stuck = [saga, second(saga)]
    spending = saga.spent(1, key="order-2026-000505")
    assert saga.books()[1]["limbo_keys"] == {KEY, "order-2026-000404"}

    early, late = stuck[first_out], stuck[1 - first_out]
    early.resolve(RETRY)
    assert saga.books()[1]["limbo_keys"] == {late.settlement.key}
    with saga.writes_nothing(), pytest.raises(AccountInLimbo):
        spending.commit(Step.HOLD)

    late.resolve(RETRY)
    assert "limbo_keys" not in saga.books()[1]
    spending.commit(Step.HOLD)
    saga.books()


def test_one_settlement_may_be_stuck_on_one_party_after_the_other(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(RETRY)
    saga.reverse(Step.RELEASE)

    entered = saga.enter(failure=STUCK | {"step": "compensate:hold"}, now=NOW)

    assert (entered["step"], entered["account"]) == ("limbo:2", "alice")
    assert [row.get("limbo_keys") for row in saga.books()[:2]] == [{KEY}, None]
    assert saga.case().number == 2
