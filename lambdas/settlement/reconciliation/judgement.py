"""Judgement of one settlement and of one account: the row, the entries that follow from it, and the evidence.

The settlement's row is the record of its steps: each slot (`hold_at`, `fee_reversed_at`) stands for one entry
with a known account, time and amount, and each entry is explained by one slot, or by a decision on a case of
LIMBO. So the row and its evidence tell every entry that there must be, and no other may be there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.ledger.kyc_review import REVIEW
from settlement.model import accounts
from settlement.model.orders import Decision
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.verdict import KycDecision
from settlement.reconciliation.facts import BalanceFacts, EntryFacts, EvidenceFacts, SettlementFacts, Waiting

NO_ROW = "has entries, but no sound row in their currency"

_STEPS = _HOLD, _VERIFY, _RELEASE, _FEE = tuple(step.value for step in Step)
_REVERSIBLE = tuple(step.value for step in REVERSIBLE)
_VOID, _RECLAIM, _REFUND = Step.HOLD.reversal, Step.RELEASE.reversal, Step.FEE.reversal
_RESOLVE = "resolve:"
_NOTHING = Waiting()
_APPROVED = KycDecision.APPROVED.value


def entries_of(row: SettlementFacts) -> list[EntryFacts]:
    """Return the entries for which the row's slots stand."""
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


def addresses(row: SettlementFacts, evidence: Iterable[EvidenceFacts]) -> list[Row]:
    """Return the keys of all entries that a settlement may have, by its row and its evidence."""
    internal = {Decision.WRITE_OFF: accounts.losses, Decision.COMPLETE: accounts.fees}
    return [address(one) for one in entries_of(row)] + [
        keys.entry(internal[Decision(one.decision)](row.currency), one.posted_at, row.key, one.step)
        for one in evidence
        if one.step.startswith(_RESOLVE) and one.decision in internal
    ]


def address(entry: EntryFacts) -> Row:
    """Return the key of an entry."""
    return keys.entry(entry.account, entry.posted_at, entry.key, entry.step)


def escrow_by(entries: Iterable[EntryFacts], currency: str) -> int:
    """Return the balance of the escrow by its entries in a currency: it gets what an account is debited."""
    return -sum(one.change for one in entries if one.currency == currency)


def differences(
    row: SettlementFacts, entries: Collection[EntryFacts], evidence: Collection[EvidenceFacts]
) -> list[str]:
    """Return how a settlement's row differs from its entries and its evidence."""
    found = list(_sum_differs(row, entries))
    expected = entries_of(row)
    if row.resolutions or len(entries) != len(expected) or set(entries) != set(expected):
        found += _decide(row, expected, entries, evidence)
        found += (f"has no {_told(one)}" for one in expected if one not in entries)
        found += (f"nothing explains its {_told(one)}" for one in _unexplained(entries, expected))
    found += _evidence_differs(row, evidence)
    return found


def faults_of(row: SettlementFacts) -> Iterator[str]:
    """Return the contradictions within a settlement's row, which no second look can dissolve."""
    steps = {step for step, at in zip(_STEPS, _slots(row), strict=True) if at is not None}
    reversed_ = {step for step, at in zip(_REVERSIBLE, _reversal_slots(row), strict=True) if at is not None}
    if row.status == Status.SETTLED and row.escrow == 0 and len(steps) == len(_STEPS) and not reversed_:
        return  # as most of them are
    if row.escrow < 0:
        yield f"is below zero: {row.escrow} {row.currency} (minor units)"
    if row.status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED) and row.escrow != 0:
        yield f"is {row.status}, but holds {row.escrow} {row.currency} (minor units)"
    needed = {_HOLD, _VERIFY, _RELEASE} if row.resolution == Decision.COMPLETE else {*_STEPS}
    if row.status == Status.SETTLED and not (needed <= steps and _RELEASE not in reversed_):
        yield f"is SETTLED, but only {sorted(steps - reversed_)} committed"
    if row.status == Status.COMPENSATED and reversed_ != steps & {*_REVERSIBLE}:
        yield f"is COMPENSATED, but of {sorted(steps)} only {sorted(reversed_)} is reversed"
    if row.status == Status.REJECTED and (steps or reversed_):
        yield f"is REJECTED, but {sorted(steps | reversed_)} committed"


def account_differences(
    row: BalanceFacts | None, sums: Mapping[str, int], waiting: Waiting = _NOTHING
) -> list[str]:
    """Return how a customer's balance differs from the sums of its entries, by currency.

    What of a merchant's releases waits for a sweep is not in the balance.
    """
    if row is None:
        return [NO_ROW]
    posted, found = sums.get(row.currency, 0) - waiting.unswept, []
    if waiting.above:
        found.append(f"more is folded than was received: {waiting.above}")
    if row.available != posted:
        found.append(_sums_differ(row.available, row.currency, posted))
    if sums.keys() - {row.currency}:
        found.append(NO_ROW)
    return found


def _slots(row: SettlementFacts) -> tuple[str | None, ...]:
    return row.hold_at, row.verify_at, row.release_at, row.fee_at


def _reversal_slots(row: SettlementFacts) -> tuple[str | None, ...]:
    return row.fee_reversed_at, row.release_reversed_at, row.hold_reversed_at


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
    """Expect the entries of decisions: a write-off's in the place of the reversal that it covers."""
    for one in evidence:
        if not one.step.startswith(_RESOLVE):
            continue
        if one.decision == Decision.WRITE_OFF:
            uncovered = (
                slot
                for slot in expected
                if slot.step in (_REFUND, _RECLAIM)
                and slot.posted_at == one.posted_at
                and slot not in entries
            )
            if covered := next(uncovered, None):
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


def _unexplained(entries: Iterable[EntryFacts], expected: Iterable[EntryFacts]) -> Iterator[EntryFacts]:
    """Yield the entries that are not expected, or are there more than once."""
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


def _evidence_differs(row: SettlementFacts, evidence: Iterable[EvidenceFacts]) -> Iterator[str]:
    """Compare the verdict and the decisions on cases with their evidence.

    Evidence of a verdict may stand alone: its function may have died, or been fenced off, before it wrote to
    the row.
    """
    decisions = {one.step: one.decision for one in evidence}
    said = decisions.get(REVIEW, decisions.get(_VERIFY))
    if row.verdict is not None and said != row.verdict:
        yield f"its verdict is {row.verdict}, its evidence {said}"
    if (row.verdict == _APPROVED) != (row.verify_at is not None):
        is_committed = "is not" if row.verify_at is None else "is"
        yield f"its verdict is {row.verdict}, but verify {is_committed} committed"
    on_record = {step for step in decisions if step.startswith(_RESOLVE)}
    if row.resolutions or row.resolution or on_record:
        if on_record != {f"{_RESOLVE}{number}" for number in range(1, row.resolutions + 1)}:
            yield f"has {row.resolutions} closed cases, its evidence {sorted(on_record)}"
        if row.resolution != decisions.get(f"{_RESOLVE}{row.resolutions}"):
            yield f"its latest decision is {row.resolution}, its evidence has another"
    for one in evidence:
        if one.request_hash != row.request_hash:
            yield f"its evidence {one.step} is of another request"
