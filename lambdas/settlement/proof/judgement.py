"""Judgement of one settlement or account.

A settlement's row and evidence determine all its entries. Each slot on the row implies one entry with a
known account and amount. Partial reversals and LIMBO decisions have entries of their own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.orders import Decision
from settlement.core.model.status import Step
from settlement.orders.requests import REVERSE_PART, refund_name
from settlement.proof import on_record
from settlement.proof.facts import BalanceFacts, EntryFacts, EvidenceFacts, SettlementFacts, Waiting
from settlement.proof.retention import Retention

NAMED_MAX = 10
"""Maximum LIMBO cases that a finding names, because an account may have thousands."""

NO_ROW = "has entries, but no sound row in their currency"

_HOLD, _RELEASE, _FEE = Step.HOLD.value, Step.RELEASE.value, Step.FEE.value
_VOID, _RECLAIM, _REFUND = Step.HOLD.reversal, Step.RELEASE.reversal, Step.FEE.reversal
_RESOLVE = "resolve:"
_NOTHING = Waiting()


def entries_of(row: SettlementFacts) -> list[EntryFacts]:
    key, currency, request_hash = row.key, row.currency, row.request_hash
    fees, net = accounts.fees(currency), row.amount - row.fee
    return [
        EntryFacts(key, step, posted_at, account, side, amount, currency, request_hash)
        for posted_at, step, account, side, amount in (
            (row.hold_at, _HOLD, row.payer, "debit", row.amount),
            (row.release_at, _RELEASE, row.payee, "credit", net),
            (row.fee_at, _FEE, fees, "credit", row.fee),
            (row.fee_reversed_at, _REFUND, fees, "debit", row.fee),
            (row.release_reversed_at, _RECLAIM, row.payee, "debit", net),
            (row.hold_reversed_at, _VOID, row.payer, "credit", row.amount),
        )
        if posted_at is not None
    ]


def expired(
    row: SettlementFacts,
    entries: Collection[EntryFacts],
    evidence: Iterable[EvidenceFacts],
    retention: Retention,
) -> list[EntryFacts]:
    expected = entries_of(row)
    if not any(map(retention.may_lack, expected)):
        return []
    if row.resolutions:
        list(_decide(row, expected, entries, evidence))
    return [one for one in expected if retention.may_lack(one) and one not in entries]


def row_of(entry: EntryFacts) -> Row:
    escrow = accounts.escrow(entry.key)
    debit, credit = (entry.account, escrow) if entry.side == "debit" else (escrow, entry.account)
    facts = {name: getattr(entry, name) for name in ("step", "posted_at", "side", "amount", "currency")}
    return {
        **address(entry),
        **facts,
        "debit": debit,
        "credit": credit,
        "request_hash": entry.request_hash,
    }


def addresses(row: SettlementFacts, evidence: Iterable[EvidenceFacts]) -> list[Row]:
    internal, known = {Decision.WRITE_OFF: accounts.losses, Decision.COMPLETE: accounts.fees}, [*evidence]
    return [address(one) for one in (*entries_of(row), *_of_parts(row, known))] + [
        keys.entry(internal[Decision(one.decision)](row.currency), one.posted_at, row.key, one.step)
        for one in known
        if one.step.startswith(_RESOLVE) and one.decision in internal
    ]


def address(entry: EntryFacts) -> Row:
    return keys.entry(entry.account, entry.posted_at, entry.key, entry.step)


def escrow_by(entries: Iterable[EntryFacts], currency: str) -> int:
    """The escrow's balance after these entries, because escrow is the other side of each."""
    return -sum(one.change for one in entries if one.currency == currency)


def differences(
    row: SettlementFacts, entries: Collection[EntryFacts], evidence: Collection[EvidenceFacts]
) -> list[str]:
    found = list(_sum_differs(row, entries))
    expected = entries_of(row)
    if row.parts:
        expected += _of_parts(row, evidence)
    if row.resolutions or len(entries) != len(expected) or set(entries) != set(expected):
        found += _decide(row, expected, entries, evidence)
        found += (f"has no {_told(one)}" for one in expected if one not in entries)
        found += (f"nothing explains its {_told(one)}" for one in _unexplained(entries, expected))
    found += on_record.differences(row, evidence)
    return found


def account_differences(
    row: BalanceFacts | None,
    sums: Mapping[str, int],
    waiting: Waiting = _NOTHING,
    cases: Collection[str] = (),
) -> list[str]:
    """Compare an account with its entries. A merchant's balance lacks the unswept amount."""
    if row is None:
        return [NO_ROW]
    posted, found = sums.get(row.currency, 0) - waiting.unswept, []
    if waiting.above:
        found.append(f"more is folded than was received: {waiting.above}")
    if row.available != posted:
        found.append(_sums_differ(row.available, row.currency, posted))
    if sums.keys() - {row.currency}:
        found.append(NO_ROW)
    if row.limbo_cases != len(cases):
        found.append(_cases_differ(row.limbo_cases, cases))
    return found


def _cases_differ(counted: int, cases: Collection[str]) -> str:
    named = sorted(cases)[:NAMED_MAX]
    of = f": {', '.join(named)}{', …' if len(cases) > len(named) else ''}" if named else ""
    return f"counts {counted} open cases of LIMBO, but {len(cases)} block it{of}"


def _sums_differ(balance: int, currency: str, posted: int) -> str:
    return f"the row says {balance} {currency}, its entries {posted} (minor units)"


def _sum_differs(row: SettlementFacts, entries: Iterable[EntryFacts]) -> Iterator[str]:
    posted = escrow_by(entries, row.currency)
    if row.escrow != posted:
        yield _sums_differ(row.escrow, row.currency, posted)


def _decide(
    row: SettlementFacts,
    expected: list[EntryFacts],
    entries: Collection[EntryFacts],
    evidence: Iterable[EvidenceFacts],
) -> Iterator[str]:
    """Add the decisions' entries to `expected`.

    A write-off's entry replaces a reversal's entry. Yields each write-off without a reversal.
    """
    for one in evidence:
        if not one.step.startswith(_RESOLVE):
            continue
        if one.decision == Decision.WRITE_OFF:
            uncovered = [
                slot
                for slot in expected
                if slot.step in (_REFUND, _RECLAIM)
                and slot.posted_at == one.posted_at
                and slot not in entries
            ]
            # Two remain if the other step was reversed in the same millisecond and its entry has expired.
            if covered := min(uncovered, key=lambda slot: slot.account != one.account, default=None):
                losses = accounts.losses(row.currency)
                expected[expected.index(covered)] = covered._replace(step=one.step, account=losses)
            else:
                yield f"its write-off {one.step} covers no reversal"
        elif one.decision == Decision.COMPLETE:
            left = 0 if row.fee_at is not None and row.fee_reversed_at is None else row.fee
            fees = accounts.fees(row.currency)
            expected.append(
                EntryFacts(
                    *(row.key, one.step, one.posted_at, fees, "credit", left),
                    row.currency,
                    row.request_hash,
                )
            )


def _of_parts(row: SettlementFacts, evidence: Iterable[EvidenceFacts]) -> Iterator[EntryFacts]:
    for one in evidence:
        kind, _, number = one.step.partition(":")
        if kind == REVERSE_PART and one.amount is not None:
            of = (one.amount, row.currency, row.request_hash)
            yield EntryFacts(row.key, one.step, one.posted_at, row.payee, "debit", *of)
            yield EntryFacts(row.key, refund_name(number), one.posted_at, row.payer, "credit", *of)


def _unexplained(entries: Iterable[EntryFacts], expected: Iterable[EntryFacts]) -> Iterator[EntryFacts]:
    left = list(expected)
    for one in entries:
        if one in left:
            left.remove(one)
        else:
            yield one


def _told(entry: EntryFacts) -> str:
    to = "from" if entry.side == "debit" else "to"
    return (
        f"entry {entry.step} of {entry.amount} {entry.currency} (minor units) {to} {entry.account}"
        f" at {entry.posted_at}"
    )
