"""The attributes of a row that the reconciliation judges, checked one by one.

A row that lacks one, or whose key is not that of its content, is malformed: it proves nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts
from settlement.model.state import MalformedRow
from settlement.model.status import Status, Step

_Facts = TypeVar("_Facts")

LARGEST = 2**63 - 1
"""The largest amount that SQLite keeps exactly; the model accepts no more than 15 digits."""


EXTERNAL = {"deposit": "credit", "withdraw": "debit"}
"""The steps that move money from and to the outside, and the side of the customer's account."""


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


class EntryFacts(NamedTuple):
    """A journal entry: between `account` and a settlement's escrow, or the outside.

    `key` is the one under which it was posted: the settlement's, or the order's own.
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
    """A fact on record that moves nothing."""

    key: str
    step: str
    posted_at: str
    request_hash: str
    decision: str | None


class SweepFacts(NamedTuple):
    """What a merchant cannot spend yet: a release adds to it, and what a sweep has folded takes from it.

    `second` is a partition of the merchant's entries, and a second in it.
    """

    account: str
    second: str
    change: int


class Waiting(NamedTuple):
    """What of a merchant's releases no sweep has folded, and the first second of which too much is folded."""

    unswept: int = 0
    above: str | None = None


class BalanceFacts(NamedTuple):
    """A customer's balance, in minor units."""

    account: str
    currency: str
    available: int


def settlement(row: Row) -> SettlementFacts:
    """Return the facts of a settlement's row. Raises MalformedRow."""
    key = keys.subject(row)[1]
    if row["pk"] != keys.settlement(key)["pk"]:
        raise MalformedRow("has the sort key of a settlement")
    status, payer, payee, currency, request_hash = _SETTLEMENT(row)
    if status not in _STATUSES:
        raise MalformedRow(f"status is {status!r}")
    hold, verify, release, fee, fee_back, release_back, hold_back, verdict = map(
        _optional, repeat(row), _SLOTS
    )
    resolution = _optional(row, "resolution", dict) or {}
    return SettlementFacts(
        *(key, status, payer, payee, currency, request_hash),
        *(_amount(row, "amount"), _amount(row, "fee"), _amount(row, "escrow")),
        *(hold, verify, release, fee, fee_back, release_back, hold_back, verdict),
        *(_optional(row, "resolutions", int) or 0, _optional(resolution, "decision")),
    )


def entry(row: Row) -> EntryFacts:
    """Return the facts of an entry. Raises MalformedRow."""
    step, posted_at, side, debit, credit, currency = _ENTRY(row)
    amount = _amount(row, "amount")
    if amount < 0:
        raise MalformedRow("moves less than nothing")
    key = row["sk"][len(posted_at) + 1 : -len(step) - 1]
    if side == "debit":
        account, other = debit, credit
    elif side == "credit":
        account, other = credit, debit
    else:
        raise MalformedRow(f"side is {side!r}")
    address = keys.entry(account, posted_at, key, step)
    if row["sk"] != address["sk"] or row["pk"] != address["pk"]:
        raise MalformedRow("its key is not that of its account, time, settlement and step")
    if step in EXTERNAL:
        if (
            side != EXTERNAL[step]
            or other != accounts.external(currency)
            or not accounts.is_customer(account)
        ):
            raise MalformedRow(f"a {step} moves money from {debit} to {credit}")
        return EntryFacts(key, step, posted_at, account, side, amount, currency, None)
    if other != accounts.escrow(key):
        raise MalformedRow(f"moves money from {debit} to {credit}")
    return EntryFacts(key, step, posted_at, account, side, amount, currency, _text(row, "request_hash"))


def evidence(row: Row) -> EvidenceFacts:
    """Return the facts of evidence. Raises MalformedRow."""
    key = keys.subject(row)[1]
    step, posted_at, request_hash = _EVIDENCE(row)
    if row["sk"] != keys.evidence(key, step)["sk"]:
        raise MalformedRow("its key is not that of its settlement and step")
    return EvidenceFacts(key, step, posted_at, request_hash, _optional(row, "decision"))


def balance(row: Row) -> BalanceFacts:
    """Return the facts of a customer's balance. Raises MalformedRow."""
    account = keys.subject(row)[1]
    if row["pk"] != keys.account(account)["pk"]:
        raise MalformedRow("has the sort key of an account")
    return BalanceFacts(account, _text(row, "currency"), _amount(row, "available"))


def received(entry: EntryFacts) -> SweepFacts | None:
    """Return what an entry adds to what waits for a sweep; None if it is in a balance by its own commit."""
    if entry.step != Step.RELEASE or not accounts.is_merchant(entry.account):
        return None
    partition = keys.entry(entry.account, entry.posted_at, entry.key, entry.step)["pk"]
    return SweepFacts(entry.account, f"{partition} {entry.posted_at[:_SECOND]}", entry.amount)


def swept(row: Row) -> list[SweepFacts]:
    """Return what the row of a sweep takes from what waits, by second. Raises MalformedRow."""
    partition, minute, folded = keys.subject(row)[1], row["sk"], _optional(row, "folded", dict)
    account = partition.partition("#")[2].rpartition("#")[0]
    if not (accounts.is_merchant(account) and partition in keys.entry_partitions(account)):
        raise MalformedRow("is of no partition of a merchant's entries")
    if not folded:
        raise MalformedRow("folded is missing")
    return [
        SweepFacts(account, f"{partition} {minute}:{second}", -_amount(folded, second)) for second in folded
    ]


def waiting(sweeps: Iterable[SweepFacts]) -> Waiting:
    """Return what waits for a sweep by the facts of one merchant, given second by second."""
    unswept, above = 0, None
    for second, of_second in groupby(sweeps, key=attrgetter("second")):
        left = sum(one.change for one in of_second)
        unswept += left
        if left < 0 and above is None:
            above = second
    return Waiting(unswept, above)


def sound(kind: Callable[[Row], _Facts], rows: Iterable[Row]) -> Iterator[_Facts]:
    """Yield the facts of the rows that are not malformed."""
    for row in rows:
        with suppress(MalformedRow):
            yield kind(row)


def _texts(*names: str) -> Callable[[Row], tuple[str, ...]]:
    """Return a reader of attributes that are all there, and texts; else it names the one at fault."""
    get = itemgetter(*names)

    def read(row: Row) -> tuple[str, ...]:
        try:
            values: tuple[str, ...] = get(row)
        except KeyError:
            values = ()
        if _TYPES.issuperset(map(type, values)) and values:
            return values
        return tuple(_text(row, name) for name in names)

    return read


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no text'}")
    return value


def _amount(row: Row, name: str) -> int:
    value = row.get(name)
    if type(value) is not int:
        raise MalformedRow(f"{name} is {'missing' if value is None else 'no whole number'}")
    if not -LARGEST <= value <= LARGEST:
        raise MalformedRow(f"{name} is out of range")
    return value


def _optional(row: Row, name: str, kind: type = str) -> Any:
    value = row.get(name)
    if value is not None and type(value) is not kind:
        raise MalformedRow(f"{name} is no {kind.__name__}")
    return value


_SECOND = len("2026-11-22T06:04:57")
_TYPES = frozenset({str})
_STATUSES = frozenset(Status)
_SLOTS = (
    *("hold_at", "verify_at", "release_at", "fee_at"),
    *("fee_reversed_at", "release_reversed_at", "hold_reversed_at", "verdict"),
)
_SETTLEMENT = _texts("status", "payer", "payee", "currency", "request_hash")
_ENTRY = _texts("step", "posted_at", "side", "debit", "credit", "currency")
_EVIDENCE = _texts("step", "posted_at", "request_hash")
