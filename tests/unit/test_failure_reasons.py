"""A step that its write would refuse is refused before the caller acts irrevocably.

Meanings of failed conditions: test_writes.py, test_balances.py, test_entries.py.
"""

import re
from datetime import timedelta

import pytest

from settlement.core.ledger import conditions
from settlement.core.ledger.conditions import Condition
from settlement.core.ledger.failure_reasons import ensure_admits, fenced, late_or_fenced
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import DeadlineExceeded, IdempotencyConflict, StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.policy.steps import ensure_can_verify
from tests.unit import states
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row
from tests.unit.vectors import SETTLEMENT
from tests.world import expressions
from tests.world.environment import NOW

WITH_DEADLINE = [Step.HOLD, Step.VERIFY, Step.RELEASE]
IN_TURN = {step: set(list(Step)[: list(Step).index(step)]) for step in Step}


@pytest.mark.parametrize("step", WITH_DEADLINE)
@pytest.mark.parametrize("status", Status)
def test_a_step_is_refused_beforehand_exactly_as_by_its_write(step: Step, status: Status) -> None:
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            found = SettlementState.from_row(settlement_row(status, steps, deadline_at))
            refusal = fenced(SETTLEMENT, step, explain=late_or_fenced(NOW))(found)
            if status is Status.PROCESSING and steps == IN_TURN[step] and deadline_at == AFTER:
                ensure_admits(SETTLEMENT, step, found, NOW)
            else:
                with pytest.raises(type(refusal), match=f"^{re.escape(str(refusal))}$"):
                    ensure_admits(SETTLEMENT, step, found, NOW)


@pytest.mark.parametrize("step", WITH_DEADLINE)
@pytest.mark.parametrize(("deadline_at", "expired"), [(AFTER, None), (AFTER, AT), (AT, None)])
def test_a_refused_step_is_late_only_after_its_deadline(
    step: Step, deadline_at: str, expired: str | None
) -> None:
    """A step that is in time but refused for an unknown reason is not reported as late."""
    row = settlement_row(Status.PROCESSING, IN_TURN[step], deadline_at)
    row |= {"expired_at": expired} if expired else {}

    refusal = late_or_fenced(NOW)(step, SettlementState.from_row(row))

    is_late = deadline_at == AT or bool(expired)
    assert type(refusal) is (DeadlineExceeded if is_late else StepFenced)


def test_a_fee_is_never_late() -> None:
    row = settlement_row(Status.PROCESSING, IN_TURN[Step.FEE], BEFORE, expired_at=AT)

    assert type(late_or_fenced(NOW)(Step.FEE, SettlementState.from_row(row))) is StepFenced


@pytest.mark.parametrize("step", WITH_DEADLINE)
def test_an_expired_settlement_is_late_even_for_a_lagging_clock(step: Step) -> None:
    row = settlement_row(Status.PROCESSING, IN_TURN[step], AFTER, expired_at=AT)

    with pytest.raises(DeadlineExceeded):
        ensure_admits(SETTLEMENT, step, SettlementState.from_row(row), NOW)


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (None, StepFenced, "^verify: the key"),
        (
            settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, same_request=False),
            IdempotencyConflict,
            "^key: ",
        ),
        (
            settlement_row(Status.PROCESSING, {Step.HOLD}, BEFORE, verdict="REJECTED"),
            StepFenced,
            "^verify: the settlement is PROCESSING",
        ),
    ],
    ids=["unclaimed", "other content", "decided"],
)
def test_the_provider_is_not_asked_if_no_verdict_could_commit(
    row: Row | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ensure_can_verify(SETTLEMENT, states.found(row), NOW)


@pytest.mark.parametrize("deadline_at", [BEFORE, AT, AFTER])
@pytest.mark.parametrize("milliseconds", [-1, 0, 1])
def test_every_time_is_either_before_or_after_the_deadline(deadline_at: str, milliseconds: int) -> None:
    now = NOW + timedelta(milliseconds=milliseconds)

    overdue, before = (
        _holds(build(now), deadline_at) for build in (conditions.overdue, conditions.before_deadline)
    )

    assert overdue is not before
    if milliseconds == 0:
        assert overdue is (deadline_at != AFTER)


def _holds(condition: Condition, deadline_at: str) -> bool:
    values = {name: {"S": value} for name, value in condition.values.items()}
    return expressions.condition(condition.expression).holds({"deadline_at": {"S": deadline_at}}, {}, values)
