from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from settlement.core.ledger import balances, entries, limbo, reversal
from settlement.core.ledger.transaction import StepTransaction, Transfer, Write
from settlement.core.model import accounts
from settlement.core.model.case import Case
from settlement.core.model.errors import ResolutionRefused, SettlementError, StepFenced
from settlement.core.model.orders import (
    REVERSAL_REQUESTED,
    REVERSE,
    Decision,
    Resolution,
    Reversal,
    order_name,
)
from settlement.core.model.saga import REVERSIBLE, SAGA, Step
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import outcome

CUT_OFF = (
    *("Sandbox.Timedout", "Runtime.InvokeTimeout", "Runtime.OutOfMemory"),
    *("States.Timeout", "Lambda.Unknown", "Lambda.ClientExecutionTimeoutException"),
    "Lambda.TooManyRequestsException",
)
"""Errors of a function that ran out of time, memory or concurrency.

They reverse the settlement only at a step with a `cut_off`. Concurrency is included, because a hanging
provider uses up VerifyKyc's concurrency.
"""


def failure_of(state: SettlementState, error: Mapping[str, str]) -> dict[str, str]:
    """Return the failure to report for a reversal, at the first uncommitted step.

    An error in CUT_OFF becomes the step's `cut_off`, or else an earlier step's, because the failed step may
    have committed before its answer was lost.
    """
    stopped = state.following or Step.FEE
    if error["Error"] in CUT_OFF and (cut_off := _cut_off(stopped)):
        error = {"Error": cut_off[0].__name__, "Cause": f"{cut_off[1]} ({error['Error']})"}
    return outcome.failure(stopped.value, error)


def about_to_begin(state: SettlementState, error: Mapping[str, str], execution: str) -> SettlementState:
    """Predict the settlement after `execution` begins the compensation.

    It stays unchanged in review, after the release, if a compensation has begun, or if `execution` is not the
    owner.
    """
    continues = state.is_in_review or state.is_released or state.owner != execution
    if state.status is not Status.PROCESSING or continues:
        return state
    return replace(state, status=Status.COMPENSATING, failure=failure_of(state, error))


def reverse_on_order(
    settlement: Settlement, order: Reversal, now: datetime, config: StageConfig, seen: int | None = None
) -> StepTransaction:
    """Build a reversal on order. `seen` is the row's `sequence` that several persons approved."""
    failure = {"step": "reverse", "error": REVERSAL_REQUESTED, "cause": f"{order.reason} (by {order.by})"}
    return StepTransaction(
        evidence=entries.evidence(settlement, REVERSE, order.evidence(), now),
        settlement=reversal.begin_on_order(settlement, order.expected_status, failure, now, config, seen),
    )


def reverse_step(settlement: Settlement, step: Step, now: datetime) -> StepTransaction:
    transfer = Transfer.of(settlement, step).reversed
    change = transfer.change_of(accounts.escrow(settlement.key))
    return StepTransaction(
        settlement=reversal.reverse_step(settlement, step, escrow_change=change, now=now),
        entry=entries.transfer(settlement, step.reversal, transfer, now),
        balance=_customers_part(settlement, step),
        metric="Compensated" if step is Step.HOLD else None,
    )


def machine_state(state: SettlementState, config: StageConfig) -> dict[str, Any]:
    """The compensating machine's state after the machine's first step."""
    return {
        "settlement": state.settlement.to_wire(config),
        "steps": sorted(state.steps),
        "reversed": sorted(state.reversed),
        "finished": state.status in (*FINISHED, Status.PROCESSING),
        "in_limbo": state.status is Status.LIMBO,
        "fee_due": Step.FEE in state.unreversed,
        "release_due": Step.RELEASE in state.unreversed,
        "case": state.case_number,
        "alerts": 0,
    }


def is_completed_by(state: SettlementState, case: int | None) -> bool:
    """Whether a person decided to complete `case`, after which nothing resumes the settlement."""
    return state.status is Status.SETTLED and state.resolution is not None and case == state.resolutions


def stuck_case(state: SettlementState) -> Case:
    """The open case. Raises MalformedRow if the row names no stuck step."""
    step = next((step for step in REVERSIBLE if step.reversal == state.stuck_step), None)
    if step is None:
        raise MalformedRow(f"SETTLEMENT#{state.key}: stuck_step is {state.stuck_step!r}")
    return case_of(state, step)


def case_of(state: SettlementState, step: Step) -> Case:
    transfer, is_due = Transfer.of(state.settlement, step).reversed, step in state.unreversed
    account = state.settlement.payer if step is Step.HOLD else transfer.debit
    return Case(
        step=step,
        account=account,
        blocked_account=account if is_due and accounts.is_customer(account) else None,
        amount=transfer.amount if is_due else 0,
        number=state.case_number,
        escrow=state.escrow,
        covered=state.covered,
        done=step in state.reversed,
    )


def enter_limbo(
    settlement: Settlement, case: Case, failure: Mapping[str, str], now: datetime
) -> StepTransaction:
    evidence = {"account": case.account, "error": failure["error"], "cause": failure["cause"]}
    return StepTransaction(
        evidence=entries.evidence(settlement, f"limbo:{case.number}", evidence, now),
        settlement=limbo.enter(settlement, case, failure, now),
        balance=balances.block(case.blocked_account) if case.blocked_account else None,
        metric="LimboEntered",
    )


def ensure_can_resolve(state: SettlementState, decision: Decision, number: int | None = None) -> None:
    """Raise ResolutionRefused if the decision does not fit, or StepFenced outside LIMBO.

    `number` is the case that the person saw. None: the open case.
    """
    if state.status is not Status.LIMBO:
        raise StepFenced("resolve", f"the settlement is {state.status}, not in LIMBO", state.status)
    if number not in (None, state.case_number):
        raise ResolutionRefused(f"case: the open case is number {state.case_number}, not {number}")
    if decision is Decision.COMPLETE and Step.RELEASE not in state.unreversed:
        raise ResolutionRefused("decision: there is no release left that could be accepted; use retry")
    case = stuck_case(state)
    if decision is Decision.WRITE_OFF and (case.step is Step.HOLD or case.step not in state.unreversed):
        raise ResolutionRefused("decision: the escrow lacks nothing that could be covered; use retry")


def resolve(
    settlement: Settlement,
    case: Case,
    resolution: Resolution,
    execution: str,
    now: datetime,
    config: StageConfig,
) -> StepTransaction:
    name, escrow = order_name(case.number), accounts.escrow(settlement.key)
    evidence = resolution.evidence() | {"account": case.account}
    entry = None
    if resolution.decision is not Decision.RETRY:
        transfer = (
            Transfer(debit=accounts.losses(settlement.currency), credit=escrow, amount=case.amount)
            if resolution.decision is Decision.WRITE_OFF
            else Transfer(debit=escrow, credit=accounts.fees(settlement.currency), amount=case.escrow)
        )
        entry = entries.transfer(settlement, name, transfer, now)
    return StepTransaction(
        evidence=entries.evidence(settlement, name, evidence, now),
        entry=entry,
        settlement=limbo.leave(settlement, case, resolution, execution, now, config),
        balance=balances.unblock(case.blocked_account) if case.blocked_account else None,
        metric="Settled" if resolution.decision is Decision.COMPLETE else None,
    )


def _cut_off(step: Step | None) -> tuple[type[SettlementError], str] | None:
    if step is None:
        return None
    return SAGA[step].cut_off or _cut_off(step.previous())


def _customers_part(settlement: Settlement, step: Step) -> Write | None:
    match step:
        case Step.HOLD:
            return balances.credit_payer(settlement)
        case Step.RELEASE:
            return balances.debit_payee(settlement)
        case Step.VERIFY | Step.FEE:
            return None
        case _:
            assert_never(step)
