"""A settlement's path through the machines, from its rows.

    row: slots, status, reversed_for, expired_at ──┐
                                                   ├─▶ walks: states in order, each with what proves it
    evidence: review, limbo:n, resolve:n ──────────┘

Step Functions' history is incomplete: Express keeps none, and Standard's ends after 90 days. So a walk has
commits, recorded refusals, and the states that the definitions force between them. Retries, replays and
takeovers leave no trace here. Only `owner_epoch` counts the takeovers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import REVIEW
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.model.saga import REVERSIBLE, SAGA, Step
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status

SETTLEMENT, COMPENSATION = "settlement", "compensation"
"""The names of the machines' definitions."""

FORWARD = {step: facts.state for step, facts in SAGA.items()}
REVERSING = {step: facts.moves.reversed_by for step, facts in SAGA.items() if facts.moves}
_UNCLAIMED = "claim"
"""The failed step of a settlement reversed before its request came."""


class Mark(StrEnum):
    COMMITTED = "committed"
    REFUSED = "refused"
    PASSED = "passed"
    HERE = "here"


@dataclass(frozen=True)
class Visit:
    """A state on the path.

    `proof`: the row's attribute, or the evidence's step, that proves the visit.
    """

    state: str
    mark: Mark = Mark.PASSED
    at: str | None = None
    proof: str | None = None


@dataclass(frozen=True)
class Walk:
    """Consecutive states of one machine. `begun_by` names the trigger."""

    machine: str
    begun_by: str
    visits: tuple[Visit, ...]


def walks(state: SettlementState, evidence: Sequence[Row]) -> list[Walk]:
    found = {row["step"]: row for row in evidence}
    return [walk for walk in (*_forward(state, found), *_reversal(state, found)) if walk.visits]


def _forward(state: SettlementState, found: dict[str, Row]) -> Iterator[Walk]:
    if state.status is Status.REJECTED:
        if not _is_rejected_by_reversal(state):
            refused = Visit("HoldFunds", Mark.REFUSED, state.finished_at, "failure")
            last = Visit("RejectSettlement", Mark.COMMITTED, state.finished_at, "status")
            yield Walk(SETTLEMENT, "the request", (refused, last))
        return
    committed = [
        Visit(name, Mark.COMMITTED, state.steps[step], step.slot)
        for step, name in FORWARD.items()
        if step in state.steps
    ]
    hold, later = committed[:1], committed[1:]
    if state.is_in_review and state.status is Status.PROCESSING:
        asked = Visit("VerifyKyc", Mark.HERE, None, "review")
        yield Walk(SETTLEMENT, "the request", (*hold, asked, Visit("ReportOutcome")))
        return
    begun_by = "the request"
    if REVIEW in found:
        asked = Visit("VerifyKyc", Mark.PASSED, None, REVIEW)
        yield Walk(SETTLEMENT, begun_by, (*hold, asked, Visit("ReportOutcome")))
        hold, begun_by = [Visit("HoldFunds")], "recovery, after the review"
    yield Walk(SETTLEMENT, begun_by, (*hold, *later, *_stop(state, found)))


def _stop(state: SettlementState, found: dict[str, Row]) -> Iterator[Visit]:
    if state.status is Status.PROCESSING and state.following:
        yield Visit(FORWARD[state.following], Mark.HERE)
    stopped = (state.reversed_for or {}).get("step")
    if stopped in (None, REVERSE, Step.HOLD.value) or state.is_expired or stopped not in list(Step):
        return
    if stopped not in state.steps:
        proof = next((name for name in (REVIEW, stopped) if name in found), "reversed_for")
        at = found[proof]["posted_at"] if proof in found else None
        yield Visit(FORWARD[Step(stopped)], Mark.REFUSED, at, proof)
    yield Visit("Compensate")
    yield Visit("ReportOutcome")


def _is_rejected_by_reversal(state: SettlementState) -> bool:
    return state.is_expired or (state.failure or {}).get("step") == _UNCLAIMED


def _reversal(state: SettlementState, found: dict[str, Row]) -> Iterator[Walk]:
    if state.status is Status.REJECTED and _is_rejected_by_reversal(state):
        first = Visit("BeginCompensation", Mark.COMMITTED, state.finished_at, "status")
        yield Walk(COMPENSATION, _who(state), (first, Visit("IsDecided"), Visit("ReportOutcome")))
    if state.reversed_for is None:
        return
    begun_at = found[REVERSE]["posted_at"] if REVERSE in found else None
    begun = Visit("BeginCompensation", Mark.COMMITTED, begun_at, "reversed_for")
    yield Walk(COMPENSATION, _who(state), (begun, Visit("IsDecided"), *_unwound(state, found)))


def _who(state: SettlementState) -> str:
    if (state.reversed_for or {}).get("step") == REVERSE:
        return "a person's order"
    if state.is_expired:
        return "recovery, after the deadline"
    return "the settlement machine" if state.reversed_for else "a caller, before any request"


def _unwound(state: SettlementState, found: dict[str, Row]) -> Iterator[Visit]:
    due = [step for step in REVERSIBLE if step in state.steps]
    for at, _, name in sorted(_moves(state, found)):
        kind, _, number = name.partition(":")
        if kind == "limbo":
            is_open = state.status is Status.LIMBO and number == str(state.case_number)
            stuck = state.stuck_step if is_open else None
            yield from _case(at, name, _reversing(stuck, due), is_open)
        elif kind == "resolve":
            yield Visit("ResolveLimbo", Mark.COMMITTED, at, name)
            yield from map(Visit, ("AnnounceResolution", "BeginCompensation", "IsDecided"))
            if found[name].get("decision") == Decision.WRITE_OFF and due:
                due.pop(0)
        else:
            step = Step(kind)
            due.remove(step)
            yield Visit(REVERSING[step], Mark.COMMITTED, at, step.reversal_slot)
    yield from _end(state, due)


def _moves(state: SettlementState, found: dict[str, Row]) -> Iterator[tuple[str, int, str]]:
    covered = {
        row["posted_at"]
        for row in found.values()
        if row.get("decision") == Decision.WRITE_OFF and _is_case(row)
    }
    for place, step in enumerate(REVERSIBLE):
        at = state.reversed.get(step)
        if step in state.steps and at is not None and at not in covered:
            yield at, place, step.value
    for name, row in found.items():
        if _is_case(row):
            yield row["posted_at"], len(REVERSIBLE) + (name.startswith("resolve")), name


def _is_case(row: Row) -> bool:
    return str(row["step"]).startswith(("limbo:", "resolve:"))


def _reversing(stuck: str | None, due: list[Step]) -> str:
    named = next((step for step in REVERSIBLE if step.reversal == stuck), None)
    return REVERSING[named or next(iter(due), Step.HOLD)]


def _case(at: str, name: str, stuck: str, is_open: bool) -> Iterator[Visit]:
    yield Visit(stuck, Mark.REFUSED, at, name)
    yield Visit("EnterLimbo", Mark.COMMITTED, at, name)
    yield from map(Visit, ("PrepareAlert", "PageOnCall", "IsPaged"))
    yield Visit("AwaitResolution", Mark.HERE if is_open else Mark.PASSED)


def _end(state: SettlementState, due: list[Step]) -> Iterator[Visit]:
    if state.status is Status.COMPENSATING:
        yield Visit(REVERSING[next(iter(due), Step.HOLD)], Mark.HERE)
    if state.status is Status.COMPENSATED and Step.HOLD not in state.steps:
        yield Visit("VoidHold", Mark.COMMITTED, state.finished_at, "status")
    if state.status in (Status.COMPENSATED, Status.SETTLED):
        yield Visit("ReportOutcome")
