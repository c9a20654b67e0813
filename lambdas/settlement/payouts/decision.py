"""Decisions of two persons about a case: one proposes a verdict, another approves it.

Each is a row, put once. FollowPayouts carries a decision out if the payout is still as both saw it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put
from settlement.core.model.errors import InvalidRequest, ResolutionRefused, SettlementError
from settlement.core.model.orders import CASES_MAX, fields_of, one_line
from settlement.core.model.request import ACCOUNT
from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller, person_of
from settlement.payouts.payout import CLOSE, State, Status, Word
from settlement.payouts.port import Found, NeverSeen, Unknown

_FIELDS = ("key", "case", "digest", "verdict", "reason")
_OPTIONAL = ("contradicts", "account")
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Verdict(StrEnum):
    PAID = "paid"
    NOT_PAID = "not-paid"
    ASK = "ask"
    """Restart the time for the bank's answer, or for a line."""

    GIVE_BACK = "give-back"
    """Transfer the money from suspense to the customer, whose account takes it now."""

    CLOSE = CLOSE
    """End the case without more looks. No money moves."""


AGAINST = {
    Verdict.PAID: frozenset({Word.REFUSED, Word.NEVER_SEEN}),
    Verdict.NOT_PAID: frozenset({Word.ACCEPTED, Word.PAID}),
}
"""Words of the bank that a verdict contradicts."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A proposal or approval of a verdict.

    `digest`: of the payout as shown. `contradicts`: the person knowingly contradicts the bank, or its
    silence. `account`: the customer's other account, to get the money back.
    """

    key: str
    case: int
    digest: str
    verdict: Verdict
    reason: str
    contradicts: bool = False
    account: str | None = None

    @property
    def place(self) -> Row:
        """Key of the decision's proposal."""
        return keys.payout_proposed(
            self.key, self.case, self.digest, self.verdict, self.account, contradicts=self.contradicts
        )

    def is_on(self, row: Mapping[str, Any]) -> bool:
        """Whether a row proposes or approves this decision."""
        told = (row.get("verdict"), row.get("account"), "contradicts" in row)
        return told == (self.verdict, self.account, self.contradicts)


def parse_decision(raw: object) -> Decision:
    """Raises InvalidRequest."""
    content = fields_of(raw, (*_FIELDS, *_OPTIONAL), optional=_OPTIONAL)
    case, verdict, contradicts = content["case"], content["verdict"], content.get("contradicts", False)
    if type(case) is not int or not 1 <= case <= CASES_MAX:
        raise InvalidRequest("case: must be the number of the case")
    if verdict not in list(Verdict):
        raise InvalidRequest(f"verdict: must be one of {', '.join(Verdict)}")
    if type(contradicts) is not bool:
        raise InvalidRequest("contradicts: must be true or false")
    if not (isinstance(content["digest"], str) and _DIGEST.fullmatch(content["digest"])):
        raise InvalidRequest("digest: must be that of the payout, as it was shown")
    if "account" in content and verdict != Verdict.GIVE_BACK:
        raise InvalidRequest(f"account: must be left out, unless the verdict is {Verdict.GIVE_BACK}")
    account = content.get("account")
    if not (account is None or (isinstance(account, str) and ACCOUNT.fullmatch(account))):
        raise InvalidRequest(f"account: must be a string that matches ^{ACCOUNT.pattern}$")
    return Decision(
        key=content["key"],
        case=case,
        digest=content["digest"],
        verdict=Verdict(verdict),
        reason=one_line(content["reason"], "reason"),
        contradicts=contradicts,
        account=account,
    )


CONTRADICTS = "yes"
"""Value of `contradicts` in a row: the persons knowingly contradict the bank, or its silence."""

_KEPT = ("verdict", "digest", "reason", "by", "account", "contradicts")


def verdicts(state: State) -> tuple[Verdict, ...]:
    """The verdicts that can end the open case."""
    match state.status:
        case _ if state.trouble is None:
            return ()
        case Status.LIMBO:
            return (*((Verdict.PAID,) if state.is_sent else ()), Verdict.NOT_PAID, Verdict.ASK)
        case Status.PAID:
            return Verdict.NOT_PAID, Verdict.ASK, Verdict.CLOSE
        case Status.RETURNED:
            return (Verdict.GIVE_BACK,) if state.in_suspense else (Verdict.ASK, Verdict.CLOSE)
        case _:
            return ()


def must_wait(verdict: Verdict, decided: Mapping[str, str], answer: Found | NeverSeen | Unknown) -> bool:
    """Whether NOT_PAID must wait, because the bank is silent and the decision does not contradict it."""
    return verdict is Verdict.NOT_PAID and isinstance(answer, Unknown) and "contradicts" not in decided


def is_changed(verdict: Verdict, shown: Word | None, word: Word | None) -> bool:
    """Whether the bank's word differs from the word `shown` to persons, and does not confirm the verdict."""
    return word is not shown and (verdict, word) != (Verdict.NOT_PAID, Word.NEVER_SEEN)


def propose(state: State, order: Decision, caller: Caller, now: datetime) -> Write:
    """Put a proposal. Raises ResolutionRefused."""
    _ensure_fits(state, order)
    row = {
        **order.place,
        **({} if order.account is None else {"account": order.account}),
        **({"contradicts": CONTRADICTS} if order.contradicts else {}),
        "verdict": order.verdict.value,
        "digest": order.digest,
        "reason": order.reason,
        "by": caller.by,
        "posted_at": timestamp(now),
        **keys.payout_orders_index(timestamp(now)),
        **caller.proof,
    }
    return put(row, on_failure=AlreadyApplied)


def approve(state: State, order: Decision, first: Row | None, caller: Caller, now: datetime) -> Write:
    """Approve the verdict of the proposal's row `first`. Raises ResolutionRefused, MalformedRow."""
    _ensure_fits(state, order)
    if first is None:
        named = _named(order.verdict, against=order.contradicts)
        raise ResolutionRefused(f"verdict: nobody has proposed {named} of what you were shown")
    proposal = texts_of(first)
    if not order.is_on(proposal) or proposal["digest"] != order.digest:
        raise MalformedRow(f"{subject_of(first)}: is no proposal of this verdict")
    if person_of(proposal["by"]) == caller.person:
        raise ResolutionRefused("by: who proposed a verdict does not approve it")

    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        if order.is_on(found):
            return AlreadyApplied(found)
        return ResolutionRefused(
            f"verdict: {_named(found.get('verdict'), against='contradicts' in found)} is approved already"
        )

    row = {
        **keys.payout_approved(state.key, order.case, order.digest),
        **{name: proposal[name] for name in _KEPT if name in proposal},
        "approved_by": caller.by,
        "approved_reason": order.reason,
        "posted_at": timestamp(now),
        **keys.payout_orders_index(timestamp(now)),
        **caller.proof,
    }
    return put(row, on_failure=meaning)


def _named(verdict: object, *, against: bool) -> str:
    return f"{verdict}, which contradicts the bank," if against else f"{verdict}"


def approved(state: State, row: Row) -> tuple[Verdict, dict[str, str]]:
    """Return the approved verdict, and the texts that the payout's row keeps. Raises MalformedRow."""
    told = texts_of(row)
    by = row.get("approved_by")
    if not isinstance(by, str) or person_of(by) == person_of(told["by"]):
        raise MalformedRow(f"{subject_of(row)}: approved_by must be another person")
    if told["digest"] != state.digest or told["verdict"] not in verdicts(state):
        raise MalformedRow(f"{subject_of(row)}: is no decision about this case")
    kept = {name: told[name] for name in _KEPT if name in told}
    return Verdict(told["verdict"]), kept | {
        "case": str(state.cases),
        "approved_by": by,
        "approved_at": told["posted_at"],
    }


def texts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a proposal or an approval. Raises MalformedRow."""
    row = sound(row)
    found = {name: row[name] for name in ("verdict", "digest", "reason", "by", "posted_at")}
    found |= {name: row[name] for name in ("account", "contradicts") if name in row}
    if not all(isinstance(text, str) for text in found.values()):
        raise MalformedRow(f"{subject_of(row)}: {', '.join(sorted(found))} must be texts")
    if found.get("contradicts", CONTRADICTS) != CONTRADICTS:
        raise MalformedRow(f"{subject_of(row)}: contradicts must be {CONTRADICTS} or absent")
    return found


def _ensure_fits(state: State, order: Decision) -> None:
    if state.trouble is None:
        raise ResolutionRefused(f"key: {state.key} has no open case")
    if order.case != state.cases:
        raise ResolutionRefused(f"case: the open one is {state.cases}")
    if order.digest != state.digest:
        raise ResolutionRefused("digest: the payout is not what you were shown")
    if order.verdict not in verdicts(state):
        raise ResolutionRefused(f"verdict: must be one of {', '.join(verdicts(state))} for this case")
    if state.said in AGAINST.get(order.verdict, ()) and not order.contradicts:
        raise ResolutionRefused(f"verdict: the bank said {state.said}; say contradicts if it is wrong")
