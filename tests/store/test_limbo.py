"""Into LIMBO and in it: a stuck reversal is on record, its party places no holds, and a person is awaited."""

import pytest

from settlement import rows
from settlement.errors import AccountInLimbo, AccountNotFound, IdempotencyConflict, StepFenced
from settlement.limbo import Case
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from tests.conftest import NOW
from tests.store.reversal import AVAILABLE, ESCROW, REVERSED, REVERSED_AT, begun, book, entry, posted
from tests.store.saga import DECIDED, KEY, RETRY, STUCK, Saga

ACCOUNT = {Step.FEE: "fees:EUR", Step.RELEASE: "bob", Step.HOLD: "alice"}
"""Whose part is stuck when the reversal of a step is."""

FLAG = {"limbo_keys": {KEY}}


def limbo_row(step: Step, **changes: object) -> Row:
    """The settlement's row once the reversal of `step` is stuck, of what has settled."""
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
def test_a_stuck_reversal_puts_the_settlement_into_limbo_and_bars_the_customer(
    saga: Saga, step: Step
) -> None:
    saga.stuck(step)

    before = [REVERSED[earlier] for earlier in REVERSIBLE[: REVERSIBLE.index(step)]]
    alice, bob = {"available": 5180}, {"available": 500 if step is Step.HOLD else 5272}
    alice, bob = {"alice": (alice | FLAG, bob), "bob": (alice, bob | FLAG)}.get(ACCOUNT[step], (alice, bob))
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


def test_who_comes_from_before_the_last_decision_does_not_enter_limbo_again(saga: Saga) -> None:
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
        saga.undo(earlier)
    seen = saga.case(step)
    saga.undo(step)
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
def test_what_never_committed_gets_stuck_with_nothing_at_risk_and_bars_nobody(
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
        step=step, account=ACCOUNT[step], barred=None, amount=0, number=1, escrow=ESCROW[last]
    )


def test_the_case_is_of_the_reversal_that_failed_and_not_of_another_that_is_outstanding(saga: Saga) -> None:
    """The refund has committed, but the reversal of the hold failed before the reclaim was tried."""
    saga.begun(Step.FEE)
    saga.undo(Step.FEE)

    entered = saga.enter(failure=STUCK | {"step": "compensate:hold"})

    assert entered == limbo_entry(Step.HOLD)
    assert saga.row()["stuck_step"] == "compensate:hold"
    assert [row.get("limbo_keys") for row in saga.books()[:2]] == [{KEY}, None]
    assert saga.case() == Case(
        step=Step.HOLD, account="alice", barred="alice", amount=4820, number=1, escrow=48
    )


@pytest.mark.parametrize(("last", "step"), [(Step.FEE, Step.RELEASE), (Step.VERIFY, Step.FEE)])
def test_in_limbo_the_row_tells_the_very_case_that_was_entered(saga: Saga, last: Step, step: Step) -> None:
    saga.begun(last)
    case = saga.case(step)

    saga.enter(case)

    assert saga.case() == case


# The account


def test_an_account_that_is_gone_cannot_be_barred_and_limbo_is_entered_without(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    key = {name: {"S": text} for name, text in rows.account_key("bob").items()}
    saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)
    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^stuck party: "):
        saga.enter()

    entered = saga.enter(saga.case(Step.RELEASE, barred=None))

    assert entered == limbo_entry(Step.RELEASE)
    assert saga.ledger.row(rows.account_key("bob")) is None
    assert saga.row()["status"] == Status.LIMBO


def test_a_barred_account_places_no_hold_until_its_case_is_resolved(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    spending = saga.spent(1)

    with saga.writes_nothing(), pytest.raises(AccountInLimbo):
        spending.post(Step.HOLD)

    saga.resolve(RETRY)
    spending.post(Step.HOLD)
    assert saga.books()[1]["available"] == 5271


def test_a_barred_account_may_receive(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    paying = saga.asking(key="order-2026-000303", amount=100, fee=0)
    paying.claim()

    for step in Step:
        paying.post(step)

    assert saga.books()[1] == {**saga.books()[1], "available": 5372, "limbo_keys": {KEY}}


# Waiting


def test_whoever_waits_for_a_decision_leaves_word_and_changes_nothing_else(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)

    row = saga.wait()

    assert row == saga.row()
    assert row == limbo_row(Step.RELEASE, waiting={"token": "token-1", "execution": "arn:execution-1"})


def test_who_waits_last_is_the_one_who_is_woken(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.wait()

    row = saga.wait("token-2", "arn:execution-2")

    assert row["waiting"] == {"token": "token-2", "execution": "arn:execution-2"}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_nobody_waits_for_a_decision_out_of_limbo(saga: Saga, status: Status) -> None:
    saga.stuck(Step.RELEASE)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^limbo: the settlement is {status} "):
        saga.wait()


def test_nobody_waits_with_other_content_or_for_a_key_that_was_never_claimed(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^limbo: .* was never claimed$"):
        saga.wait()
    saga.stuck(Step.RELEASE)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict):
        saga.asking(amount=4821).wait()


# Two settlements, one account


def second(saga: Saga) -> Saga:
    """Another settlement between the two, as far as its reclaim, which gets stuck as well."""
    other = saga.asking(key="order-2026-000404", amount=1000)
    other.claim()
    for step in (Step.HOLD, Step.VERIFY, Step.RELEASE):
        other.post(step)
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
        spending.post(Step.HOLD)

    late.resolve(RETRY)
    assert "limbo_keys" not in saga.books()[1]
    spending.post(Step.HOLD)
    saga.books()


def test_one_settlement_may_be_stuck_on_one_party_after_the_other(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(RETRY)
    saga.undo(Step.RELEASE)

    entered = saga.enter(failure=STUCK | {"step": "compensate:hold"}, now=NOW)

    assert (entered["step"], entered["account"]) == ("limbo:2", "alice")
    assert [row.get("limbo_keys") for row in saga.books()[:2]] == [{KEY}, None]
    assert saga.case().number == 2
