"""Derives the error of a failed condition from the row's state."""

from collections.abc import Callable
from datetime import datetime

from settlement.core.ledger.transaction import AlreadyApplied, OnFailure
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    SettlementError,
    StepFenced,
)
from settlement.core.model.saga import SAGA, Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp

Explain = Callable[[str, SettlementState], SettlementError]


def forward_refusal(step: str, state: SettlementState) -> SettlementError:
    return StepFenced.at(step, state.status, state.steps)


def late_or_fenced(now: datetime) -> Explain:
    """Explain a refused write as a missed deadline or a fence. `now` is the write's time.

    The deadline is missed if it is before `now`, or if recovery expired the settlement.
    """

    def explain(step: str, state: SettlementState) -> SettlementError:
        if _is_next(step, state) and not _has_time(state, now):
            return DeadlineExceeded(step, state.deadline_at)
        return forward_refusal(step, state)

    return explain


def reversal_refusal(step: str, state: SettlementState) -> SettlementError:
    """The refusal of a reversal, because another execution was faster."""
    return StepFenced.at(step, state.status, state.steps, state.reversed)


def fenced(
    settlement: Settlement,
    step: str,
    *,
    replay_if: Callable[[SettlementState], bool] | None = None,
    explain: Explain = forward_refusal,
) -> OnFailure:
    """Explain a failed condition on the settlement's row.

    The key's claim and the request's content are checked first. If `replay_if` holds, an earlier call applied
    the write. If not, `explain` gives the refusal.
    """

    def meaning(state: SettlementState | None) -> SettlementError | AlreadyApplied:
        if state is None:
            return StepFenced.unclaimed(step, settlement.key)
        if not state.same_request(settlement):
            return IdempotencyConflict.of_key(settlement.key)
        if replay_if is not None and replay_if(state):
            return AlreadyApplied(state)
        return explain(step, state)

    return meaning


def ensure_admits(settlement: Settlement, step: Step, state: SettlementState | None, now: datetime) -> None:
    """Raise the step's refusal if the step could not commit. Call it before an irrevocable action."""
    is_open = state is not None and _is_next(step, state) and _has_time(state, now)
    if not (state and is_open and state.same_request(settlement)):
        raise fenced(settlement, step, explain=late_or_fenced(now))(state)


def account_refusal(party: str, currency: str, state: AccountState | None) -> SettlementError | None:
    if state is None:
        return AccountNotFound(party)
    if state.currency != currency:
        return CurrencyMismatch(party, f"the account is kept in {state.currency}, not in {currency}")
    return None


def out_of_use(party: str, state: AccountState | None) -> SettlementError | None:
    """Return why an account cannot place holds. None: it can."""
    if state is None:
        return None
    if state.is_closed:
        return AccountClosed(party)
    if state.is_frozen:
        return AccountFrozen(party)
    return AccountInLimbo(party) if state.is_blocked else None


def payee_refusal(currency: str, state: AccountState | None) -> SettlementError | None:
    if refusal := account_refusal("payee", currency, state):
        return refusal
    return AccountClosed("payee") if state and state.is_closed else None


def _is_next(step: str, state: SettlementState) -> bool:
    if step not in _WITH_DEADLINE or state.is_decided(Step(step)):
        return False
    is_open = state.status is Status.PROCESSING and step not in state.steps
    return is_open and Step(step).previous(state.layout) in (None, *state.steps)


def _has_time(state: SettlementState, now: datetime) -> bool:
    return timestamp(now) < state.deadline_at and not state.is_expired


_WITH_DEADLINE = tuple(step for step in Step if SAGA[step].has_deadline)
