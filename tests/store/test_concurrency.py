"""Concurrent calls end as if executed one by one; other tests state each order's end."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.case import Case
from settlement.core.model.errors import InsufficientFunds, StepFenced
from settlement.core.model.orders import Resolution
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.verdict import Verdict
from tests.store.rivals import Act, Start, assert_one_order, at_once, callers
from tests.store.rows import ENDS, EVENT, begin_review, due, event, held, in_review, own, take_over, webhook
from tests.store.test_recovery import DUE, EARLY, STARTS, in_limbo, late
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.journal import journal
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.saga import (
    COMPLETE,
    DEADLINE,
    DECIDED,
    KEY,
    LATER,
    RETRY,
    STALLED,
    STUCK,
    WRITE_OFF,
    Saga,
    outcome_of,
)

pytestmark = pytest.mark.parametrize("engine", ["server"])

ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 4))]
SPENDING = {"key": "order-2026-000202", "payer": "bob", "payee": "carol", "fee": 0}
SPENT = 5000
CASE = Case(step=Step.RELEASE, account="bob", blocked_account="bob", amount=4772, number=1, escrow=48)


def reach(last: Step | None) -> Start:
    return lambda saga: saga.reach(last)


def begun(last: Step | None) -> Start:
    return lambda saga: saga.begun(last)


def spending(start: Start) -> Start:
    """Return a start that also claims a settlement of the payee's money; its hold is next."""

    def begin(saga: Saga) -> None:
        start(saga)
        saga.asking(**SPENDING, amount=SPENT).claim()

    return begin


def call(make: Callable[..., Any], *arguments: Any, **named: Any) -> Act:
    """Return a call that ignores the state seen before the race."""
    return lambda saga, seen: make(saga, *arguments, **named)


def taking_over(now: datetime) -> Act:
    return lambda saga, seen: take_over(saga, seen, now)


def hearing(verdict: Verdict, number: int) -> Act:
    return call(webhook, verdict, event(number), LATER)


def resolving(resolution: Resolution) -> Act:
    return call(Saga.resolve, resolution, case=CASE)


def spend(saga: Saga, seen: SettlementState | None) -> Any:
    return saga.asking(**SPENDING, amount=SPENT).commit(Step.HOLD)


def begin_and_finish(saga: Saga, seen: SettlementState | None) -> None:
    saga.begin()
    saga.finish_unheld()


def reverse_all(saga: Saga, seen: SettlementState | None) -> None:
    for step in REVERSIBLE:
        saga.reverse(step)


BEGIN, CLAIM_AND_HOLD = call(Saga.begin), call(Saga.claim_and_hold)
HOLD, RECLAIM, ENTER = call(Saga.commit, Step.HOLD), call(Saga.reverse, Step.RELEASE), call(Saga.enter, CASE)
REVIEW, HEAR = call(begin_review), hearing(APPROVED, 1)

RACES: dict[str, tuple[Start, list[Act]]] = {
    "claims with a hold": (Saga.fund, [CLAIM_AND_HOLD, call(Saga.claim_and_hold, LATER, "execution-2")]),
    "contents of a claim": (
        Saga.fund,
        [CLAIM_AND_HOLD, lambda saga, seen: saga.asking(amount=1000).claim_and_hold()],
    ),
    "claims with and without a hold": (Saga.fund, [CLAIM_AND_HOLD, call(Saga.claim, NOW, "execution-2")]),
    # Steps
    **{
        f"{step} by two clocks": (
            reach(step.previous()),
            [call(Saga.commit, step), call(Saga.commit, step, LATER)],
        )
        for step in (Step.HOLD, Step.RELEASE, Step.FEE)
    },
    **{f"{step} and the fence": (reach(step.previous()), [call(Saga.commit, step), BEGIN]) for step in Step},
    "a hold and a rejection": (reach(None), [HOLD, call(Saga.reject, {"step": "hold"})]),
    "a hold and a reversal's end": (reach(None), [HOLD, begin_and_finish]),
    # Verdicts
    "one event": (held, [HEAR]),
    "one event in review": (in_review, [HEAR]),
    "contents of an event": (in_review, [HEAR, call(webhook, APPROVED, replace(EVENT, digest="d2"), LATER)]),
    "opposite decisions": (in_review, [HEAR, hearing(REJECTED, 2)]),
    "one answer": (held, [call(own)]),
    "opposite answers": (held, [call(own, APPROVED), call(own, REJECTED)]),
    "an answer, a review and two decisions": (held, [call(own), REVIEW, HEAR, hearing(REJECTED, 2)]),
    "reviews": (held, [REVIEW, call(begin_review, replace(IN_REVIEW, reference="ver_2"))]),
    "a decision and a reversal": (in_review, [HEAR, BEGIN]),
    # Reversals
    **{
        f"{step.reversal} by two clocks": (
            partial(due, step=step),
            [call(Saga.reverse, step), call(Saga.reverse, step, DECIDED)],
        )
        for step in REVERSIBLE
    },
    "whole reversals": (begun(Step.FEE), [reverse_all]),
    "ends without a hold": (begun(None), [call(Saga.finish_unheld), call(Saga.finish_unheld, DECIDED)]),
    "an order and the last step": (
        reach(Step.RELEASE),
        [call(Saga.order, STALLED), call(Saga.commit, Step.FEE)],
    ),
    "a reclaim and a spending": (spending(partial(due, step=Step.RELEASE)), [RECLAIM, spend]),
    # LIMBO
    "a block and a spending": (spending(begun(Step.RELEASE)), [ENTER, spend]),
    "two failures": (begun(Step.RELEASE), [ENTER, call(Saga.enter, CASE, STUCK | {"error": "Other"})]),
    "a reclaim and LIMBO": (begun(Step.RELEASE), [RECLAIM, ENTER]),
    "three decisions": (in_limbo, [resolving(each) for each in (RETRY, WRITE_OFF, COMPLETE)]),
    "two persons": (in_limbo, [resolving(WRITE_OFF), resolving(replace(WRITE_OFF, by="another"))]),
    # Recovery
    **{f"takeovers of one {name}": (start, [taking_over(now)]) for name, (start, now, _) in STARTS.items()},
    "a takeover and a review": (held, [taking_over(DUE), REVIEW]),
    "a takeover and a reversal of the former owner": (
        held,
        [taking_over(DUE), call(Saga.begin, owner="execution-1")],
    ),
    "a takeover and a resolution": (in_limbo, [taking_over(DUE), resolving(RETRY)]),
    **{
        f"an expiry and a {name} webhook": (in_review, [taking_over(ENDS), call(webhook, now=ENDS - behind)])
        for name, behind in (("late", timedelta()), ("timely", EARLY))
    },
    **{
        f"an expiry and a {name} release": (
            late(Step.VERIFY),
            [taking_over(DEADLINE), call(Saga.commit, Step.RELEASE, DEADLINE - behind)],
        )
        for name, behind in (("late", timedelta()), ("timely", EARLY))
    },
}
"""The state before a race, and the calls that race.

An answer makes two writes, so answers share one clock: otherwise an end could mix the times of two.
"""


@pytest.mark.parametrize("_round", ROUNDS)
@pytest.mark.parametrize(("start", "acts"), RACES.values(), ids=RACES)
def test_concurrent_calls_end_as_if_executed_one_by_one(
    saga: Saga, start: Start, acts: list[Act], _round: int
) -> None:
    assert_one_order(saga, start, acts)


@pytest.mark.parametrize("call", [HOLD, CLAIM_AND_HOLD], ids=["hold", "claim and hold"])
@pytest.mark.parametrize(("rivals", "affordable"), [(2, 1), (16, 5)])
def test_as_many_payments_hold_as_the_payer_can_afford(
    saga: Saga, call: Act, rivals: int, affordable: int
) -> None:
    saga.fund(payer=4820)
    amount = 4820 // affordable
    racing = [
        caller.asking(key=f"order-2026-0002{number:02}", amount=amount)
        for number, caller in enumerate(callers(saga, rivals))
    ]
    if call is HOLD:
        for rival in racing:
            rival.claim()

    answers = at_once([partial(call, rival, None) for rival in racing])

    refused = [isinstance(answer, InsufficientFunds) for answer in answers]
    assert refused.count(False) == affordable
    rows = saga.ledger.rows()
    escrows = {keys.subject(row)[1]: row["escrow"] for row in rows if keys.is_settlement(row)}
    assert [escrows.get(rival.settlement.key, 0) for rival in racing] == [
        0 if is_refused else amount for is_refused in refused
    ]
    assert len(escrows) == (rivals if call is HOLD else affordable)
    assert rows[0]["available"] == 0
    assert_conserved(rows)


@pytest.mark.parametrize("seed", ROUNDS)
def test_concurrent_steps_out_of_order_leave_the_rows_consistent(saga: Saga, seed: int) -> None:
    """A verdict's evidence may precede the hold: it moves nothing, and no step builds on it."""
    saga.fund(payer=4820)
    saga.claim()
    shuffled = random.Random(seed)
    orders = [(caller, shuffled.sample(list(Step), len(Step))) for caller in callers(saga, 16)]

    def in_that_order(caller: Saga, order: list[Step]) -> list[Any]:
        return [outcome_of(partial(caller.commit, step)) for step in order]

    answers = at_once([partial(in_that_order, caller, order) for caller, order in orders])

    refusals = [answer for some in answers for answer in some if not isinstance(answer, dict)]
    assert {type(refusal) for refusal in refusals} <= {StepFenced}
    committed = list(saga.state().steps)
    assert committed == list(Step)[: len(committed)]
    entered = journal(saga.ledger.rows(), KEY)
    assert {name for name, row in entered.items() if "debit" in row} == set(committed) - {"verify"}
    saga.books()

    for step in Step:
        saga.commit(step)

    assert (saga.row()["status"], saga.row()["escrow"]) == (Status.SETTLED, 0)
    assert [found["available"] for found in saga.books()[:2]] == [0, 5272]
