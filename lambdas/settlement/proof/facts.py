"""Defines the facts of rows that the proof compares, without personal data."""

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple


class SettlementFacts(NamedTuple):
    """Facts of a settlement's row. Amounts are in minor units; slots are the steps' times.

    Digests must equal those of the evidence.
    """

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
    resolved: str | None = None

    ordered: str | None = None
    """Digest of the order to reverse the settlement."""

    stuck: str | None = None

    since: str | None = None
    """The row's `in_flight_since`, if its evidence must have the same time."""

    parts: int = 0

    reversed_in_part: int = 0

    covered: str | None = None
    """Steps that the losses covered, separated by blanks."""

    waits: int = 0
    """Number of ended waits for checks."""

    answered: str = ""
    """Checks that a callback has answered, separated by blanks."""

    checks: str = ""
    """Demanded checks, separated by blanks."""


class EntryFacts(NamedTuple):
    """A journal entry's effect on `account`. `key` is the settlement's or the order's.

    The entry's other side is a settlement's escrow, or the bank in a deposit or withdrawal.
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
        """Change of the account's balance. The other side changes by the opposite."""
        return self.amount if self.side == "credit" else -self.amount


class EvidenceFacts(NamedTuple):
    """A fact that moves no money. `content` is the digest of the part that the settlement's row repeats."""

    key: str
    step: str
    posted_at: str
    request_hash: str
    decision: str | None
    account: str | None = None
    content: str | None = None
    amount: int | None = None
    """Amount of a reversal in part."""

    persons: str = ""
    """Digests that connect a decision with its proposal and approvals.

    - Of a proposal or approval: one digest, of its subject and person.
    - Of an approved decision: all digests that must be recorded, separated by blanks.
    """


class WaitingFacts(NamedTuple):
    key: str
    number: int


class ProposalFacts(NamedTuple):
    """The latest proposal. `number` counts all proposals of the settlement."""

    key: str
    number: int
    approvals: int
    """Number of approvals with their own evidence. The decision's evidence has the last approval."""

    is_withdrawn: bool
    is_done: bool


class EventFacts(NamedTuple):
    key: str
    received_at: str
    event: str


class OrderFacts(NamedTuple):
    account: str
    key: str
    kind: str
    posted_at: str
    currency: str | None
    amount: int | None
    request_hash: str


class MatchFacts(NamedTuple):
    """A match of a bank's line and an order.

    `key` is the order's. `teller` is the row that gave this fact: "line" or "order".
    """

    account: str
    key: str
    line: str
    currency: str
    amount: int
    side: str
    posted_at: str
    teller: str


class ExternalFacts(NamedTuple):
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
    """A case of settlement `key` that blocks `account`."""

    account: str
    key: str


class SweepFacts(NamedTuple):
    """A change of a merchant's unswept amount. Releases add; sweeps subtract.

    `second` names a partition of the merchant's entries, and a second in it.
    """

    account: str
    second: str
    change: int


class Waiting(NamedTuple):
    """A merchant's unswept amount.

    - `above`: the first second for which sweeps folded more than releases brought.
    - `old` and `old_above`: `unswept` and `above`, only of entries that may have expired.
    """

    unswept: int = 0
    above: str | None = None
    old: int = 0
    old_above: str | None = None


class BalanceFacts(NamedTuple):
    """An account's balance row, in minor units."""

    account: str
    currency: str
    available: int
    limbo_cases: int = 0
    opened_at: str | None = None
    frozen_at: str | None = None
    closed_at: str | None = None
    last_order: str = ""


class PayoutFacts(NamedTuple):
    """A payout's row. `paid_to` is a digest of destination and bank account; `decided` is a decision's."""

    key: str
    status: str
    account: str
    amount: int
    currency: str
    destination: str
    request_hash: str
    paid_to: str
    reserved_at: str
    paid_at: str | None
    ended_at: str | None
    given_back_at: str | None
    given_back_to: str | None
    asked_from: str | None
    in_suspense: int
    debit_line: str | None
    return_line: str | None
    cases: int
    decided: str | None


class PayoutEntryFacts(NamedTuple):
    """An entry of a payout. Only a reservation has `paid_to`."""

    key: str
    step: str
    posted_at: str
    debit: str
    credit: str
    amount: int
    currency: str
    request_hash: str
    paid_to: str | None


class PayoutCaseFacts(NamedTuple):
    """A proposed or approved verdict about a payout's case.

    `number` is the case's. `proposal` is the digest of case, payout as shown, verdict, reason and proposer;
    `approval` adds approver and time. A proposed verdict has no approval.
    """

    key: str
    number: int
    verdict: str
    account: str | None
    """The customer's other account, which gets the money back."""

    proposal: str
    approval: str | None


class PayoutReferenceFacts(NamedTuple):
    key: str


class PayoutMatchFacts(NamedTuple):
    """The match of a bank's line and a payout, from the line's row. `name` names the debit or the return."""

    key: str
    name: str
    line: str
    account: str
    currency: str
    amount: int
    side: str


class ReservedFacts(NamedTuple):
    """Money that an account reserved on a day: positive in entries, negative in the day's row."""

    account: str
    day: str
    amount: int


class DestinationFacts(NamedTuple):
    """A destination. `added_by`, `frozen_by` (persons) and `paid_to` (a bank account) are digests."""

    name: str
    account: str
    paid_to: str
    added_by: str
    frozen_at: str | None
    frozen_by: str | None
    last_payout: str | None


class ConfirmedFacts(NamedTuple):
    name: str
    account: str
    paid_to: str
    confirmed_by: str
    payable_from: str


class FrozenFacts(NamedTuple):
    """An order to freeze destination `name`. `by` is a person's digest."""

    name: str
    posted_at: str
    by: str


class PaidToFacts(NamedTuple):
    """A payout to destination `name`."""

    name: str
    key: str
    account: str
    paid_to: str
    reserved_at: str


class BankLineFacts(NamedTuple):
    """A bank's line that names payouts. `names`: their references, separated by blanks."""

    line: str
    currency: str
    amount: int
    side: str
    booked: str
    names: str


class PayoutLineFacts(NamedTuple):
    """A bank's line on the list for payouts. `is_listed` is 0 after it was taken off."""

    line: str
    booked: str
    is_listed: int


class LineMatchFacts(NamedTuple):
    """The match of a bank's line with an order or a payout."""

    line: str
    matched_to: str
    currency: str
    amount: int
    side: str


def waiting(sweeps: Iterable[SweepFacts], kept_from: str = "") -> Waiting:
    """Sum one merchant's changes, sorted by second.

    `kept_from` is a full minute. Entries before it may have expired.
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
    """Whether a partition's `second` is before the minute `kept_from`.

    No second is before an empty `kept_from`.
    """
    return second[second.rfind(" ") + 1 :] < kept_from[:_SECOND]


_SECOND = len("2026-11-22T06:04:57")
