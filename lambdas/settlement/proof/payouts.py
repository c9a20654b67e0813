"""Judgement of payouts: each has exactly the entries, decisions and lines that its row implies."""

from collections.abc import Collection, Iterator, Sequence

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.proof import values
from settlement.proof.facts import (
    BankLineFacts,
    ConfirmedFacts,
    DestinationFacts,
    FrozenFacts,
    LineMatchFacts,
    PaidToFacts,
    PayoutCaseFacts,
    PayoutEntryFacts,
    PayoutFacts,
    PayoutLineFacts,
    PayoutMatchFacts,
)
from settlement.proof.payout_rows import (
    GIVE_BACK,
    OF_PAYOUT,
    OF_RETURN,
    PAY,
    REFUSE,
    RESERVE,
    RETURN,
    key_of,
    reference_of,
)

NO_ROW = "has entries, decisions, lines or a reference, but no sound row"


def entries_of(row: PayoutFacts) -> list[PayoutEntryFacts]:
    """The entries that a payout's row implies.

    Returned money comes from `external`, and goes to `suspense` if the account did not take it.
    """
    account, of = row.account, (row.amount, row.currency, row.request_hash)
    transit, external, suspense = (
        name(row.currency) for name in (accounts.transit, accounts.external, accounts.suspense)
    )
    refused_at = row.ended_at if row.status == "REFUSED" else None
    returned_at = row.ended_at if row.status == "RETURNED" else None
    returned = (external, suspense if row.in_suspense or row.given_back_at else account)
    reserved = PayoutEntryFacts(row.key, RESERVE, row.reserved_at, account, transit, *of, row.paid_to)
    return [reserved] + [
        PayoutEntryFacts(row.key, step, posted_at, debit, credit, *of, None)
        for step, posted_at, (debit, credit) in (
            (PAY, row.paid_at, (transit, external)),
            (REFUSE, refused_at, (transit, account)),
            (RETURN, returned_at, returned),
            (GIVE_BACK, row.given_back_at, (suspense, row.given_back_to or account)),
        )
        if posted_at is not None
    ]


def address(entry: PayoutEntryFacts) -> Row:
    """An entry's key: under the debited account if it is a customer's, else under the credited account."""
    account = entry.debit if accounts.is_customer(entry.debit) else entry.credit
    return keys.entry(account, entry.posted_at, entry.key, entry.step)


def differences(
    row: PayoutFacts,
    entries: Collection[PayoutEntryFacts],
    cases: Collection[PayoutCaseFacts],
    references: int,
    matches: Collection[PayoutMatchFacts],
) -> list[str]:
    expected = entries_of(row)
    found = [f"has no {_told(one)}" for one in expected if one not in entries]
    found += (f"nothing explains its {_told(one)}" for one in entries if one not in expected)
    found += _undecided(row, cases)
    if references != 1:
        found.append("no row leads from its reference to it")
    found += _lines_differ(row, matches)
    return found


def _told(entry: PayoutEntryFacts) -> str:
    moved = f"{entry.amount} {entry.currency} (minor units) from {entry.debit} to {entry.credit}"
    return f"entry {entry.step} of {moved} at {entry.posted_at}"


def _undecided(row: PayoutFacts, cases: Collection[PayoutCaseFacts]) -> Iterator[str]:
    approved = {one.approval: one for one in cases if one.approval}
    proposed = {one.proposal for one in cases if not one.approval}
    verdicts = {one.verdict for one in approved.values()}
    given_to = {one.account or row.account for one in approved.values() if one.verdict == "give-back"}
    if row.decided and row.decided not in approved:
        yield "its decision has no approval on record"
    if row.given_back_to and row.given_back_to not in given_to:
        yield f"its money is given back to {row.given_back_to}, without an approval on record"
    if row.asked_from and "ask" not in verdicts:
        yield "it is asked for again, without an approval on record"
    for one in cases:
        if one.number > row.cases:
            yield f"a decision is about its case {one.number}, but it has had {row.cases}"
        if one.proposal not in proposed:
            yield f"{one.verdict} is approved for its case {one.number}, but was never proposed so"


def _lines_differ(row: PayoutFacts, matches: Collection[PayoutMatchFacts]) -> Iterator[str]:
    of = (row.account, row.currency, row.amount)
    expected = {
        PayoutMatchFacts(row.key, f"{keys.payout(row.key)['pk']}{ending}", line, *of, side)
        for line, side, ending in ((row.debit_line, "out", ""), (row.return_line, "in", OF_RETURN))
        if line
    }
    for one in sorted(expected - {*matches}):
        yield f"its bank's line {one.line} is not matched with it"
    for one in sorted({*matches} - expected):
        yield f"a bank's line {one.line} is matched with it, which it does not have so"


def destination_differences(
    row: DestinationFacts | None,
    confirmed: ConfirmedFacts | None,
    freezes: Sequence[FrozenFacts],
    payouts: Sequence[PaidToFacts],
) -> list[str]:
    if row is None:
        return ["is confirmed or frozen, or payouts go there, but it has no sound row"]
    found = []
    if confirmed and (confirmed.account, confirmed.paid_to) != (row.account, row.paid_to):
        found.append("another bank account was confirmed")
    if confirmed and confirmed.confirmed_by == row.added_by:
        found.append("one person added and confirmed it")
    orders = {(one.posted_at, one.by) for one in freezes}
    if orders and not row.frozen_at:
        found.append("is not frozen, but a person has frozen it")
    elif row.frozen_at and (row.frozen_at, row.frozen_by) not in orders:
        found.append(f"is frozen since {row.frozen_at}, without an order of this time and person")
    for one in payouts:
        found += (f"{fault}: {one.key}" for fault in _wrongly_paid(row, confirmed, one))
    if row.last_payout not in {None, *(one.key for one in payouts)}:  # None: no payout was sent yet
        found.append(f"its last payout is {row.last_payout}, which does not go there")
    return found


def _wrongly_paid(
    row: DestinationFacts, confirmed: ConfirmedFacts | None, payout: PaidToFacts
) -> Iterator[str]:
    """Yield each rule that this payout broke.

    Only the freeze's time has a tolerance, because it can come from another clock.
    """
    if payout.account != row.account:
        yield "another account pays it"
    if payout.paid_to != row.paid_to:
        yield "a payout goes to another bank account"
    if confirmed is None:
        yield "a payout goes there, but no other person has confirmed it"
    elif payout.reserved_at < confirmed.payable_from:
        yield f"a payout goes there, which was reserved before {confirmed.payable_from}"
    if row.frozen_at and values.is_long_before(row.frozen_at, payout.reserved_at):
        yield "a payout goes there, which was reserved after it was frozen"


def day_differs(day: str, change: int) -> list[str]:
    if change == 0:
        return []
    return [f"the count of {day} differs from the money reserved by {change} (minor units)"]


def line_differences(
    line: BankLineFacts | None, listed: PayoutLineFacts | None, match: LineMatchFacts | None
) -> list[str]:
    """Compare the rows of one bank's line. `line` is None unless the line names a payout."""
    found = []
    if listed and (line is None or line.booked != listed.booked):
        found.append("is listed for the payouts, but no such line names one")
    if line and listed is None:
        found.append("names a payout, but is not listed for the payouts")
    if listed and not listed.is_listed and match is None:
        found.append("is off the payouts' list, but was never booked")
    if match and match.matched_to.startswith(OF_PAYOUT):
        found += _wrongly_matched(line, match)
    return found


def _wrongly_matched(line: BankLineFacts | None, match: LineMatchFacts) -> Iterator[str]:
    if line is None or line[:4] != (match.line, match.currency, match.amount, match.side):
        yield f"is matched with {match.matched_to}, but is no such line"
    elif reference_of(key_of(match.matched_to)) not in line.names.split():
        yield f"is matched with {match.matched_to}, which it does not name"
