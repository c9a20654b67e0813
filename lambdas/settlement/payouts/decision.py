from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from settlement.core.model.errors import InvalidRequest, ResolutionRefused
from settlement.core.model.orders import CASES_MAX, fields_of, one_line
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller, person_of
from settlement.payouts.payout import State, Status, Word

_FIELDS = ("key", "case", "digest", "verdict", "reason")


class Verdict(StrEnum):
    PAID = "paid"
    NOT_PAID = "not-paid"
    ASK = "ask"


AGAINST = {
    Verdict.PAID: frozenset({Word.REFUSED, Word.NEVER_SEEN}),
    Verdict.NOT_PAID: frozenset({Word.ACCEPTED, Word.PAID}),
    Verdict.ASK: frozenset[Word](),
}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`digest`: of the payout as shown.

    `contradicts`: the person knowingly contradicts the bank.
    """

    key: str
    case: int
    digest: str
    verdict: Verdict
    reason: str
    contradicts: bool = False


def parse_decision(raw: object) -> Decision:
    """Raises InvalidRequest."""
    content = fields_of(raw, (*_FIELDS, "contradicts"), optional=("contradicts",))
    case, verdict, contradicts = content["case"], content["verdict"], content.get("contradicts", False)
    if type(case) is not int or not 1 <= case <= CASES_MAX:
        raise InvalidRequest("case: must be the number of the case")
    if verdict not in list(Verdict):
        raise InvalidRequest(f"verdict: must be one of {', '.join(Verdict)}")
    if type(contradicts) is not bool:
        raise InvalidRequest("contradicts: must be true or false")
    if not isinstance(content["digest"], str):
        raise InvalidRequest("digest: must be that of the payout, as it was shown")
    return Decision(
        key=content["key"],
        case=case,
        digest=content["digest"],
        verdict=Verdict(verdict),
        reason=one_line(content["reason"], "reason"),
        contradicts=contradicts,
    )


def ensure_fits(state: State, order: Decision, caller: Caller) -> bool:
    """Return whether another person has proposed the same decision. Raises ResolutionRefused."""
    if state.status is not Status.LIMBO:
        raise ResolutionRefused(f"decide: {state.key} is {state.status}, not in LIMBO")
    if order.case != state.cases:
        raise ResolutionRefused(f"case: the open one is {state.cases}")
    if order.digest != state.digest:
        raise ResolutionRefused("digest: the payout is not what you were shown")
    if order.verdict is Verdict.PAID and not state.is_sent:
        raise ResolutionRefused("verdict: it was never sent")
    if state.said in AGAINST[order.verdict] and not order.contradicts:
        raise ResolutionRefused(f"verdict: the bank said {state.said}; say contradicts if it is wrong")
    first = state.proposed
    return (
        first is not None
        and person_of(first["by"]) != caller.person
        and (first["verdict"], first["digest"]) == (order.verdict, order.digest)
    )


def proposed(order: Decision, caller: Caller, now: datetime) -> dict[str, str]:
    return {
        "verdict": order.verdict,
        "digest": order.digest,
        "reason": order.reason,
        "by": caller.by,
        "at": timestamp(now),
    }


def decided(state: State, caller: Caller, now: datetime) -> dict[str, str]:
    first = dict(state.proposed or {})
    return first | {"case": str(state.cases), "approved_by": caller.by, "approved_at": timestamp(now)}
