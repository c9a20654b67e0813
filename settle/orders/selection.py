"""The LIMBO cases that one command decides, and their digest.

A digest such as `1500-…` has a count, and a hash of the 1,500 oldest cases that the decision fits.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from settle.orders import limbo, proposal
from settle.orders.limbo import Which
from settle.placeholder import REASON
from settle.settlements import aside
from settle.settlements.aside import Line
from settle.stack import Stack
from settlement.core.model import money
from settlement.core.model.case import Case
from settlement.core.model.errors import Refusal
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.policy import compensation
from settlement.orders import approval
from settlement.orders.proposal import Move, Proposal

_COUNT_DIGITS_MAX = 9


class Verb(StrEnum):
    RESOLVE = "resolve"
    PROPOSE = Move.PROPOSE
    APPROVE = Move.APPROVE
    WITHDRAW = Move.WITHDRAW

    @property
    def is_on_proposals(self) -> bool:
        return self in (Verb.APPROVE, Verb.WITHDRAW)


@dataclass(frozen=True)
class Wanted:
    """A decision on many cases. `reason` is empty for a verb on proposals."""

    verb: Verb
    decision: Decision
    which: Which
    reason: str = ""

    def command(self, stack: Stack, verb: Verb, seen: str = "") -> str:
        """Return a command for the same cases. Without `seen`, it is a dry run."""
        reason = None if verb.is_on_proposals else self.reason or REASON
        options = {**self.which.options, "reason": reason, "seen": seen or None}
        return stack.command(f"limbo {verb}", self.decision, **options)


@dataclass(frozen=True)
class Item:
    """A case. `unfit`: why the decision does not fit the case."""

    state: SettlementState
    case: Case
    proposal: Proposal | None
    unfit: str | None

    @property
    def key(self) -> str:
        return self.state.key


@dataclass(frozen=True)
class Selection:
    wanted: Wanted
    fit: Sequence[Item]
    unfit: Sequence[Item]
    unreadable: Sequence[Line] = ()

    def seen(self, count: int | None = None) -> str:
        """Return the digest of the `count` oldest cases in `fit`; by default all."""
        items = self.fit[:count]
        lines = sorted(self._line(item) for item in items)
        text = json.dumps([self.wanted.verb, self.wanted.decision, lines], separators=(",", ":"))
        return f"{len(items)}-{hashlib.sha256(text.encode()).hexdigest()}"

    def shown(self, seen: str) -> Sequence[Item] | None:
        count, _, _ = seen.partition("-")
        is_count = count.isascii() and count.isdigit() and len(count) <= _COUNT_DIGITS_MAX
        is_same = is_count and self.seen(int(count)) == seen
        return self.fit[: int(count)] if is_same else None

    def _line(self, item: Item) -> tuple[Any, ...]:
        found = item.proposal.seen if self.wanted.verb.is_on_proposals and item.proposal else ""
        return (item.key, item.case.number, item.case.amount, item.state.settlement.currency, found)


def select(stack: Stack, wanted: Wanted) -> Selection:
    chosen = limbo.chosen(stack, wanted.which)
    proposals = proposal.open_on_many(stack, chosen.states)
    items = []
    for state in chosen.states:
        found = proposals.open.get(state.key)
        is_moot = wanted.verb is Verb.RESOLVE  # needs no proposal
        unfit = None if is_moot else proposals.unreadable.get(state.key)
        unfit = unfit or _unfit(stack, wanted, state, found)
        items.append(Item(state, compensation.stuck_case(state), found, unfit))
    fit, unfitting = [one for one in items if not one.unfit], [one for one in items if one.unfit]
    return Selection(wanted, fit, unfitting, chosen.unreadable)


def describe(stack: Stack, selection: Selection) -> dict[str, Any]:
    wanted, fit = selection.wanted, selection.fit
    persons = max((approval.needed(item.state, wanted.decision, stack.config) for item in fit), default=1)
    seen = selection.seen()
    return {
        "decision": wanted.decision.value,
        "cases": [_shown(stack, item) for item in fit],
        "left_out": [_shown(stack, item) | {"why": item.unfit} for item in selection.unfit]
        + [_NOT_SHOWN | one | {"why": one[aside.UNREADABLE]} for one in selection.unreadable],
        "count": len(fit),
        "at_risk": _at_risk(stack, fit),
        "errors": dict(Counter((item.state.failure or {}).get("error", "unknown") for item in fit)),
        "persons": max(persons, approval.PERSONS_LEAST) if wanted.verb is Verb.PROPOSE else persons,
        "seen": seen if fit else None,
        "command": wanted.command(stack, wanted.verb, seen) if fit else None,
        "propose": _to_propose(stack, selection),
    }


def _unfit(stack: Stack, wanted: Wanted, state: SettlementState, found: Proposal | None) -> str | None:
    decision, verb = wanted.decision, wanted.verb
    if verb.is_on_proposals:
        return None if found and found.decision == decision else f"it has no open proposal to {decision}"
    try:
        compensation.ensure_can_resolve(state, decision)
    except Refusal as refusal:
        return str(refusal)
    if verb is Verb.PROPOSE and found and found.decision != decision:
        return f"proposal: {found.decision} is open; approve it, or withdraw it first"
    persons = approval.needed(state, decision, stack.config)
    return f"{decision}: needs {persons} persons" if verb is Verb.RESOLVE and persons > 1 else None


_NOT_SHOWN = dict.fromkeys(("proposed", "proposed_by", "reason"))


def _shown(stack: Stack, item: Item) -> dict[str, Any]:
    found = item.proposal
    told = {
        "proposed": found.decision if found else None,
        "proposed_by": found.proposed_by if found else None,
        "reason": found.reason if found else None,
    }
    return limbo.summary(stack, item.state) | told


def _at_risk(stack: Stack, items: Sequence[Item]) -> dict[str, str]:
    sums = Counter[str]()
    for item in items:
        sums[item.state.settlement.currency] += item.case.amount
    return {
        currency: money.render(amount, stack.config.currencies[currency])
        for currency, amount in sorted(sums.items())
    }


def _to_propose(stack: Stack, selection: Selection) -> str | None:
    wanted = selection.wanted
    lacking = any(approval.needed(item.state, wanted.decision, stack.config) > 1 for item in selection.unfit)
    return wanted.command(stack, Verb.PROPOSE) if wanted.verb is Verb.RESOLVE and lacking else None
