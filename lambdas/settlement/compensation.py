"""What reversing a settlement does: pure decisions, one function for each kind of transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from settlement import items, limbo, reversals, rows
from settlement.errors import ResolutionRefused, StepFenced
from settlement.limbo import Case
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution, Reversal
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.terms import Terms
from settlement.writes import Posting, Transfer

FINISHED = frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATED})


def failed_step(row: Row) -> str:
    """The step at which a settlement came to a stop: the first that has not committed."""
    committed = row.get("steps", ())
    return next((step.value for step in Step if step not in committed), Step.FEE.value)


def outstanding(row: Row) -> list[Step]:
    """The steps that have moved money and are not reversed yet, in the order of their reversal."""
    committed, reversed_ = row.get("steps", ()), row.get("reversed", ())
    return [step for step in REVERSIBLE if step in committed and step not in reversed_]


def requested(settlement: Settlement, order: Reversal, now: datetime, terms: Terms) -> Posting:
    """Begin to reverse a settlement on a person's order, and put on record who gave it and why."""
    failure = {"step": "reverse", "error": "ReversalRequested", "cause": f"{order.reason} (by {order.by})"}
    return Posting(
        entry=items.evidence_entry(settlement, "reverse", order.record(), now),
        settlement=reversals.reopen(settlement, order.seen, failure, now, terms),
    )


def undo(
    settlement: Settlement, step: Step, committed: Sequence[str], reversed_: Sequence[str], now: datetime
) -> Posting | None:
    """Reverse `step` if it has committed, else put on record that it has not. None where it is reversed.

    `committed` and `reversed_` are what the settlement's row said when PROCESSING was taken away, or
    later: from then on no step commits, and a reversal that was missed is found by its entry.
    """
    if step in reversed_:
        return None
    return _reverse(settlement, step, now) if step in committed else _skip(settlement, step, now)


def stuck(settlement: Settlement, row: Row) -> Case:
    """The case of a settlement that is in LIMBO."""
    step = next(step for step in REVERSIBLE if step.reversal == row["stuck_step"])
    return case_of(settlement, row, step)


def case_of(settlement: Settlement, row: Row, step: Step) -> Case:
    """The case that a stuck reversal of `step` makes. Nobody is barred where nothing is left to move."""
    transfer, due = _reversal(settlement, step), step in outstanding(row)
    account = settlement.payer if step is Step.HOLD else transfer.debit
    return Case(
        step=step,
        account=account,
        barred=account if due and rows.is_customer(account) else None,
        amount=transfer.amount if due else 0,
        number=row.get("resolutions", 0) + 1,
        escrow=row["escrow"],
        done=step in row.get("reversed", ()),
    )


def enter_limbo(settlement: Settlement, case: Case, failure: Mapping[str, str], now: datetime) -> Posting:
    """Put the settlement into LIMBO, and with it the customer whose part is stuck."""
    evidence = {"account": case.account, "error": failure["error"], "cause": failure["cause"]}
    return Posting(
        entry=items.evidence_entry(settlement, f"limbo:{case.number}", evidence, now),
        settlement=limbo.enter(settlement, case, failure, now),
        balance=limbo.flag(case.barred, settlement.key) if case.barred else None,
        counted="LimboEntered",
    )


def check(settlement: Settlement, row: Row, decision: Decision) -> None:
    """Raise ResolutionRefused where a decision makes no sense for a settlement; StepFenced out of LIMBO."""
    if row["status"] != Status.LIMBO:
        raise StepFenced(f"resolve: the settlement is {row['status']}, not in LIMBO")
    if decision is Decision.COMPLETE and Step.RELEASE not in outstanding(row):
        raise ResolutionRefused("complete: there is no release left that could be accepted; use retry")
    case = stuck(settlement, row)
    if decision is Decision.WRITE_OFF and (case.step is Step.HOLD or case.step not in outstanding(row)):
        raise ResolutionRefused("write-off: the escrow lacks nothing that could be covered; use retry")


def resolve(
    settlement: Settlement, case: Case, resolution: Resolution, execution: str, now: datetime, terms: Terms
) -> Posting:
    """Carry out a person's decision and put on record who decided and why, in one transaction."""
    name, escrow = f"resolve:{case.number}", rows.escrow(settlement.key)
    evidence = resolution.record() | {"account": case.account}
    if resolution.decision is Decision.RETRY:
        entry = items.evidence_entry(settlement, name, evidence, now)
    else:
        transfer = (
            Transfer(debit=rows.losses(settlement.currency), credit=escrow, amount=case.amount)
            if resolution.decision is Decision.WRITE_OFF
            else Transfer(debit=escrow, credit=rows.fees(settlement.currency), amount=case.escrow)
        )
        entry = items.transfer_entry(settlement, name, transfer, now, evidence)
    return Posting(
        entry=entry,
        settlement=limbo.leave(settlement, case, resolution, execution, now, terms),
        balance=limbo.unflag(case.barred, settlement.key) if case.barred else None,
        counted="Settled" if resolution.decision is Decision.COMPLETE else None,
    )


def _reverse(settlement: Settlement, step: Step, now: datetime) -> Posting:
    transfer = _reversal(settlement, step)
    incoming = transfer.credit == rows.escrow(settlement.key)
    balances = {Step.RELEASE: reversals.debit_payee, Step.HOLD: reversals.credit_payer}
    return Posting(
        entry=items.transfer_entry(settlement, step.reversal, transfer, now),
        settlement=reversals.undo(
            settlement, step, escrow_change=transfer.amount if incoming else -transfer.amount, now=now
        ),
        balance=balances[step](settlement) if step in balances else None,
        counted="Compensated" if step is Step.HOLD else None,
    )


def _skip(settlement: Settlement, step: Step, now: datetime) -> Posting:
    evidence = {"reason": f"nothing to reverse: {step} never committed"}
    return Posting(
        entry=items.evidence_entry(settlement, step.reversal, evidence, now),
        settlement=reversals.conclude(settlement, now)
        if step is Step.HOLD
        else reversals.pass_over(settlement, step),
        counted="Compensated" if step is Step.HOLD else None,
    )


def _reversal(settlement: Settlement, step: Step) -> Transfer:
    escrow = rows.escrow(settlement.key)
    if step is Step.FEE:
        return Transfer(debit=rows.fees(settlement.currency), credit=escrow, amount=settlement.fee)
    if step is Step.RELEASE:
        return Transfer(debit=settlement.payee, credit=escrow, amount=settlement.net)
    return Transfer(debit=escrow, credit=settlement.payer, amount=settlement.amount)
