"""What is kept of each row: enough to hold it against the other rows, and no personal data."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple


class SettlementFacts(NamedTuple):
    """A settlement's row: amounts in minor units, and the time in each slot."""

    key: str
    status: str
    payer: str
    payee: str
    currency: str
    request_hash: str
    amount: int
    fee: int
    escrow: int
    hold_at: str | None
    verify_at: str | None
    release_at: str | None
    fee_at: str | None
    fee_reversed_at: str | None
    release_reversed_at: str | None
    hold_reversed_at: str | None
    verdict: str | None
    resolutions: int
    resolution: str | None
    """The latest decision on a case of LIMBO."""

    resolved: str | None = None
    """The digest of the latest decision, of which there is evidence."""

    ordered: str | None = None
    """The digest of the order to reverse the settlement, of which there is evidence."""

    stuck: str | None = None
    """The digest of the open case of LIMBO, of which there is evidence."""

    since: str | None = None
    """The time in flight, if it is that of evidence: of the order, or else of a webhook's verdict."""

    parts: int = 0
    """The number of reversals in part, of each of which there is evidence."""

    reversed_in_part: int = 0

    covered: str | None = None
    """The steps that the losses have covered, with blanks between; None on a row that does not say so."""


class EntryFacts(NamedTuple):
    """A journal entry: a settlement's between `account` and its escrow, or a deposit of `account`.

    `key` is the one under which it was posted: the settlement's, or the deposit's own.
    """

    key: str
    step: str
    posted_at: str
    account: str
    side: str
    amount: int
    currency: str
    request_hash: str | None

    @property
    def change(self) -> int:
        """The change of the account's balance; that of the escrow is the opposite."""
        return self.amount if self.side == "credit" else -self.amount


class EvidenceFacts(NamedTuple):
    """A fact on record that moves nothing. `content` is the digest of what the settlement's row repeats."""

    key: str
    step: str
    posted_at: str
    request_hash: str
    decision: str | None
    account: str | None = None
    content: str | None = None
    amount: int | None = None
    """That of a reversal in part."""

    persons: str = ""
    """Of a proposal or an approval: the digest of what it is for, and by whom. Of a decision that was
    approved: those that must be on record, with blanks between."""


class WaitingFacts(NamedTuple):
    """The execution that waits for the decision on a case of LIMBO."""

    key: str
    number: int


class ProposalFacts(NamedTuple):
    """The latest proposal about a settlement, of which `number` counts all."""

    key: str
    number: int
    approvals: int
    """Those with evidence of their own: the last one is on the decision's."""

    is_withdrawn: bool
    is_done: bool


class EventFacts(NamedTuple):
    """The marker of a webhook's event, which has brought a verdict."""

    key: str
    received_at: str
    event: str


class OrderFacts(NamedTuple):
    """A person's order on an account. `amount` is that of a deposit or a withdrawal."""

    account: str
    key: str
    kind: str
    posted_at: str
    currency: str | None
    amount: int | None
    request_hash: str


class ExternalFacts(NamedTuple):
    """An entry of a deposit or a withdrawal of `owner`: the facts of the entry, listed by the account."""

    owner: str
    key: str
    step: str
    posted_at: str
    account: str
    side: str
    amount: int
    currency: str
    request_hash: str | None


class CaseFacts(NamedTuple):
    """An open case of LIMBO of the settlement `key`, which blocks a customer's account."""

    account: str
    key: str


class SweepFacts(NamedTuple):
    """What a merchant cannot spend yet: a release adds to it, and what a sweep has folded takes from it.

    `second` is a partition of the merchant's entries, and a second in it.
    """

    account: str
    second: str
    change: int


class Waiting(NamedTuple):
    """What of a merchant's releases no sweep has folded, and the first second of which too much is folded.

    The same of the seconds whose entries may be gone is `old`, which is part of it, and `old_above`.
    """

    unswept: int = 0
    above: str | None = None
    old: int = 0
    old_above: str | None = None


class BalanceFacts(NamedTuple):
    """A customer's balance, in minor units, and how many open cases of LIMBO it counts."""

    account: str
    currency: str
    available: int
    limbo_cases: int = 0
    opened_at: str | None = None
    frozen_at: str | None = None
    closed_at: str | None = None
    last_order: str = ""
    """The key of the latest order that opened, froze, unfroze or closed it."""


def waiting(sweeps: Iterable[SweepFacts], kept_from: str = "") -> Waiting:
    """Return what waits for a sweep by the facts of one merchant, given second by second.

    Entries from before `kept_from`, which is a full minute, may be gone.
    """
    unswept, above, old, old_above = 0, None, 0, None
    for second, of_second in groupby(sweeps, key=attrgetter("second")):
        left = sum(one.change for one in of_second)
        unswept += left
        if left < 0 and above is None:
            above = second
        if is_before(second, kept_from):
            old += left
            if left < 0 and old_above is None:
                old_above = second
    return Waiting(unswept, above, old, old_above)


def is_before(second: str, kept_from: str) -> bool:
    """Return whether a second of a partition is before a full minute; none is before an empty one."""
    return second[second.rfind(" ") + 1 :] < kept_from[:_SECOND]


_SECOND = len("2026-11-22T06:04:57")
