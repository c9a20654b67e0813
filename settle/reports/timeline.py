from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from settle.instants import seconds_since, span
from settle.settlements.awaited import decider
from settlement.core.ledger.keys import Row
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, REVERSIBLE, Status, Step
from settlement.core.model.timestamps import timestamp

NOW = "this report"
_NAMES = {
    "claimed": "a request, or the start queue, claims the key",
    "hold": "the hold commits: payer → escrow",
    "verify": "an approval of the KYC provider commits",
    "release": "the release commits: escrow → payee",
    "fee": "the fee commits: escrow → fees",
    "check": "a check of the stage answers",
    "review": "the provider's webhook brings the verdict of the review",
    "reverse": "a person orders the reversal",
    "limbo": "the reversal is stuck: a case of LIMBO opens",
    "resolve": "a person decides the case",
    "propose": "a person proposes a decision",
    "approve": "a person approves the proposal",
    "withdraw": "a person withdraws the proposal",
    "break-glass": "one person decides alone",
    "reverse-part": "a person orders a reversal in part",
    "compensate": "a reversal commits",
    "deadline": "recovery, late itself, extends the deadline",
    "expired": "recovery expires the settlement after its deadline",
    "erased": "the parties' names are erased from the row",
    "finished": "the settlement is finished",
}
_GAPS = {
    "hold": "waits for the hold",
    "verify": "waits for the KYC provider",
    "check": "waits for a check of the stage",
    "review": "waits for the provider's reviewer",
    "release": "waits for the release",
    "fee": "waits for the fee",
    "reverse": "nothing runs before the order",
    "limbo": "tries the reversal that is stuck",
    "resolve": "waits for a person's decision",
    "propose": "waits for a person's proposal",
    "approve": "waits for another person's approval",
    "break-glass": "waits for a person's decision",
    "compensate": "waits for the reversal",
    "expired": "no step commits before the deadline",
}
_BY_NOW = {
    Status.PROCESSING: "runs, or waits for recovery",
    Status.COMPENSATING: "the reversal runs, or waits for recovery",
    Status.LIMBO: "waits for a person's decision",
}


@dataclass(frozen=True)
class Moment:
    """An event. `after` is the time since the previous event. `gap` explains that time."""

    at: str
    kind: str
    what: str
    after: str = ""
    gap: str = ""


def moments(state: SettlementState, row: Row, evidence: Sequence[Row], at: datetime) -> list[Moment]:
    found = sorted({(instant, _place(name), name) for instant, name in _instants(state, row, evidence)})
    told: list[Moment] = []
    for instant, _, name in found:
        kind = name.partition(":")[0]
        what = _NAMES.get(kind, name) + (f" ({name})" if ":" in name else "")
        told.append(_following(told, instant, name, what, _GAPS.get(kind, "")))
    who = decider(state.review).replace("the provider", "the provider's reviewer")
    review = f"waits for {who}" if state.is_in_review else ""
    gap = "" if state.status in FINISHED else review or _BY_NOW[state.status]
    return [*told, _following(told, timestamp(at), NOW, NOW, gap)]


def _instants(state: SettlementState, row: Row, evidence: Sequence[Row]) -> Iterator[tuple[str, str]]:
    yield state.claimed_at, "claimed"
    for step, at in state.steps.items():
        yield at, step
    covered = {one["posted_at"] for one in evidence if one.get("decision") == Decision.WRITE_OFF}
    for step, at in state.reversed.items():
        if at not in covered:
            yield at, Step(step).reversal
    for one in evidence:
        if one["step"] != Step.VERIFY or Step.VERIFY not in state.steps:
            yield one["posted_at"], one["step"]
    once = {
        "deadline": state.deadline_extended_at,
        "expired": state.expired_at,
        "erased": row.get("names_erased_at"),
        "finished": state.finished_at,
    }
    yield from ((at, name) for name, at in once.items() if at)


def _place(name: str) -> int:
    order = [
        "claimed",
        *Step,
        "check",
        "review",
        "limbo",
        "resolve",
        *(step.reversal for step in REVERSIBLE),
        "finished",
    ]
    kind = name if name in order else name.partition(":")[0]
    return order.index(kind) if kind in order else len(order) - 1


def _following(told: Sequence[Moment], at: str, kind: str, what: str, gap: str) -> Moment:
    if not told:
        return Moment(at, kind, what)
    try:
        passed = seconds_since(told[-1].at, datetime.fromisoformat(at))
    except ValueError:
        passed = None
    if passed is None:  # a row that was changed by hand
        return Moment(at, kind, what, "not known")
    return Moment(at, kind, what, duration(passed), gap if passed else "")


def duration(seconds: float) -> str:
    """Format a duration in two units, or milliseconds below a second. Negative after clock skew."""
    if abs(seconds) < 1:
        return f"{round(seconds * 1000)} ms"
    return span(int(seconds)) if seconds > 0 else f"-{span(int(-seconds))}"
