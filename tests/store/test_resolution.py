"""Out of LIMBO: by a person's decision, once, on the case that the person has seen."""

from typing import Any

import pytest

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import AccountNotFound, IdempotencyConflict, ResolutionRefused, StepFenced
from settlement.model.orders import Resolution
from settlement.model.status import REVERSIBLE, Status, Step
from tests.conftest import NOW
from tests.store.books import assert_conserved
from tests.store.reversal import (
    DECIDED_AT,
    DUE_AGAIN,
    ESCROW,
    REVERSED,
    begun,
    book,
    decision,
    entry,
    finished,
    moved,
    posted,
    said,
)
from tests.store.saga import COMPLETE, DECIDED, LATER, RETRY, STUCK, WRITE_OFF, Saga
from tests.store.test_limbo import ACCOUNT, limbo_entry

DECISIONS = [RETRY, WRITE_OFF, COMPLETE]
ESCROW_ACCOUNT = "escrow:order-2026-000101"


def named(resolution: Resolution) -> str:
    return resolution.decision.value


def decided(last: Step, resolution: Resolution, **changes: Any) -> Row:
    """Return the row of a settlement whose reversal continues after a decision."""
    return begun(last, resolutions=1, resolution=decision(resolution), **DUE_AGAIN, **changes)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_to_retry_moves_nothing_and_lets_the_reversal_continue(saga: Saga, step: Step) -> None:
    saga.stuck(step)
    saga.wait()
    before = [REVERSED[earlier] for earlier in REVERSIBLE[: REVERSIBLE.index(step)]]
    progress: Row = {"escrow": sum(each["amount"] for each in before)} | (
        {"reversed": {earlier.value for earlier in REVERSIBLE[: len(before)]}} if before else {}
    )

    resolved = saga.resolve(RETRY)

    assert resolved == entry("resolve:1", DECIDED_AT, account=ACCOUNT[step], **said(RETRY))
    assert saga.books() == book(
        decided(Step.FEE, RETRY, **progress),
        *(*posted(Step.FEE), *before, limbo_entry(step), resolved),
        alice=5180,
        bob=500 if step is Step.HOLD else 5272,
    )
    for each in REVERSIBLE:
        saga.reverse(each)
    assert saga.row()["status"] == Status.COMPENSATED
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize(("step", "amount"), [(Step.FEE, 48), (Step.RELEASE, 4772)])
def test_to_write_off_covers_the_stuck_amount_from_the_losses(saga: Saga, step: Step, amount: int) -> None:
    saga.stuck(step)
    before = [REVERSED[Step.FEE]] if step is Step.RELEASE else []

    resolved = saga.resolve(WRITE_OFF)

    assert resolved == moved(
        *("resolve:1", "losses:EUR", ESCROW_ACCOUNT, amount, DECIDED_AT),
        account=ACCOUNT[step],
        **said(WRITE_OFF),
    )
    covered = {"fee"} if step is Step.FEE else {"fee", "release"}
    row = decided(Step.FEE, WRITE_OFF, escrow=48 if step is Step.FEE else 4820, reversed=covered)
    entries = [*posted(Step.FEE), *before, limbo_entry(step), resolved]
    assert saga.books() == book(row, *entries, alice=5180, bob=5272)
    assert assert_conserved(saga.ledger.rows())["losses:EUR"] == -amount


@pytest.mark.parametrize("last", [Step.RELEASE, Step.FEE])
def test_after_a_write_off_the_payer_is_whole_and_the_payee_keeps_it(saga: Saga, last: Step) -> None:
    saga.stuck(Step.RELEASE, last)
    saga.resolve(WRITE_OFF)

    saga.reverse(Step.HOLD)

    row = saga.row()
    assert (row["status"], row["escrow"]) == ("COMPENSATED", 0)
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 5272]
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500, "losses:EUR": -4772}


def test_a_fee_that_was_written_off_stays_with_the_fees_and_the_rest_is_reversed(saga: Saga) -> None:
    saga.stuck(Step.FEE)
    saga.resolve(WRITE_OFF)

    for step in (Step.RELEASE, Step.HOLD):
        saga.reverse(step)

    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]
    assert assert_conserved(saga.ledger.rows()) == {
        "external:EUR": -10_500,
        "fees:EUR": 48,
        "losses:EUR": -48,
    }


@pytest.mark.parametrize(
    ("last", "step", "rest"),
    [
        pytest.param(Step.RELEASE, Step.RELEASE, 48, id="fee never collected"),
        pytest.param(Step.FEE, Step.RELEASE, 48, id="fee collected and refunded"),
        pytest.param(Step.FEE, Step.FEE, 0, id="fee collected"),
    ],
)
def test_to_complete_accepts_the_release_and_makes_the_rest_of_the_escrow_the_fee(
    saga: Saga, last: Step, step: Step, rest: int
) -> None:
    saga.stuck(step, last)
    saga.wait()
    earlier = [row for row in saga.books() if row["sk"].partition(":")[2].startswith(("comp", "limbo"))]

    resolved = saga.resolve(COMPLETE)

    assert resolved == moved(
        *("resolve:1", ESCROW_ACCOUNT, "fees:EUR", rest, DECIDED_AT),
        account=ACCOUNT[step],
        **said(COMPLETE),
    )
    refunded = {"reversed": {"fee"}} if (last, step) == (Step.FEE, Step.RELEASE) else {}
    row = decided(last, COMPLETE, status="SETTLED", finished_at=DECIDED_AT, escrow=0, **refunded)
    row = {name: value for name, value in finished(row).items() if name != "failure"}
    assert saga.books() == book(row, *posted(last), *earlier, resolved, alice=5180, bob=5272)
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500, "fees:EUR": 48}


@pytest.mark.parametrize("resolution", DECISIONS, ids=named)
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_no_decision_is_carried_out_out_of_limbo(saga: Saga, resolution: Resolution, status: Status) -> None:
    saga.stuck(Step.RELEASE)
    saga.alter(status=status)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"),
    ):
        saga.resolve(resolution)


@pytest.mark.parametrize("first", DECISIONS, ids=named)
@pytest.mark.parametrize("second", DECISIONS, ids=named)
def test_a_second_decision_on_a_case_finds_the_first_and_changes_nothing(
    saga: Saga, first: Resolution, second: Resolution
) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    resolved = saga.resolve(first)

    with saga.writes_nothing():
        again = saga.resolve(second, case=case, now=DECIDED + (DECIDED - NOW))

    assert again == resolved
    assert second.is_on(again) == (first is second)


@pytest.mark.parametrize("resolution", DECISIONS, ids=named)
@pytest.mark.parametrize(
    "seen",
    [
        pytest.param({"number": 2}, id="a case that is not open yet"),
        pytest.param({"escrow": 49}, id="an escrow that is another"),
    ],
)
def test_a_decision_on_a_case_that_is_not_the_rows_is_refused(
    saga: Saga, resolution: Resolution, seen: dict[str, int]
) -> None:
    saga.stuck(Step.RELEASE)

    with (
        saga.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"^resolution: the settlement has moved on since "),
    ):
        saga.resolve(resolution, case=saga.case(**seen))


@pytest.mark.parametrize("resolution", DECISIONS, ids=named)
def test_a_decision_on_the_first_case_does_not_touch_the_second(saga: Saga, resolution: Resolution) -> None:
    saga.stuck(Step.RELEASE)
    stale = saga.case()
    first = saga.resolve(RETRY)
    saga.enter(now=DECIDED)

    with saga.writes_nothing():
        assert saga.resolve(resolution, case=stale) == first

    assert (saga.row()["status"], saga.case().number) == ("LIMBO", 2)


def test_each_case_is_decided_on_and_on_record_for_itself(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(RETRY)
    saga.enter(now=DECIDED)

    second = saga.resolve(WRITE_OFF)

    assert second["step"] == "resolve:2"
    assert saga.row()["resolutions"] == 2
    assert saga.row()["resolution"] == decision(WRITE_OFF)
    names = {row["sk"].partition(":")[2] for row in saga.books() if row["pk"].startswith("SETTLEMENT#")}
    assert names >= {"limbo:1", "limbo:2", "resolve:1", "resolve:2"}


@pytest.mark.parametrize("resolution", [WRITE_OFF, COMPLETE], ids=named)
def test_a_reversed_step_is_neither_covered_nor_accepted(saga: Saga, resolution: Resolution) -> None:
    saga.stuck(Step.HOLD)

    with saga.writes_nothing(), pytest.raises(ResolutionRefused):
        saga.resolve(resolution, case=saga.case(step=Step.RELEASE, amount=4772))


@pytest.mark.parametrize("resolution", [WRITE_OFF, COMPLETE], ids=named)
def test_an_uncommitted_step_is_neither_covered_nor_accepted(saga: Saga, resolution: Resolution) -> None:
    saga.stuck(Step.HOLD, last=Step.VERIFY)

    with saga.writes_nothing(), pytest.raises(ResolutionRefused):
        saga.resolve(resolution, case=saga.case(step=Step.RELEASE, amount=4772))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("resolution", DECISIONS, ids=named)
def test_a_decision_on_other_content_is_a_conflict(saga: Saga, resolution: Resolution, after: bool) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    if after:
        saga.resolve(resolution)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(fee=49).resolve(resolution, case=case)


def test_a_decision_on_a_key_that_was_never_claimed_is_fenced(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    unknown = saga.asking(key="order-2026-000909")

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^resolve: .*000909 was never claimed$"):
        unknown.resolve(RETRY, case=saga.case())


# The blocked account


def test_an_account_deleted_since_stops_no_decision(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    key = {name: {"S": text} for name, text in keys.account("bob").items()}
    saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)
    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^stuck party: "):
        saga.resolve(WRITE_OFF)

    resolved = saga.resolve(WRITE_OFF, case=saga.case(blocked_account=None))

    assert (resolved["account"], resolved["amount"]) == ("bob", 4772)
    assert saga.ledger.row(keys.account("bob")) is None


@pytest.mark.parametrize("others", [{}, {"limbo_keys": {"order-2026-000099"}}], ids=["none", "another"])
def test_an_account_that_was_never_blocked_stays_as_it_is(saga: Saga, others: Row) -> None:
    """It was missing when its settlement got stuck, and may have been opened again since."""
    saga.begun(Step.RELEASE)
    saga.enter(saga.case(Step.RELEASE, blocked_account=None), STUCK, LATER)
    saga.ledger.open("bob", 0, **others)

    saga.resolve(WRITE_OFF)

    assert saga.ledger.rows()[1] == {
        **keys.account("bob"),
        "available": 0,
        "currency": "EUR",
        **others,
    }
    assert saga.row()["escrow"] == ESCROW[Step.HOLD]
