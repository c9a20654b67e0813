"""The verdict on statements and books: whether they agree, and what is left."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from settlement.bank import balances
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Statement


class Sums(NamedTuple):
    """A currency's balances at the end of a day, in minor units.

    `bank`: its closing balances. `books`: what the orders have brought in, which is -`external:<CUR>`.
    `only_bank`, `only_books`: what only one side has. `early` and `late`: pairs of which the books, or the
    bank, have their half only after that day. `left`: what nothing explains; right books have 0.
    """

    day: str
    bank: int
    books: int
    only_bank: int
    only_books: int
    early: int
    late: int
    before: int

    @property
    def left(self) -> int:
        own = self.only_bank + self.early - self.late - self.only_books
        return self.bank - self.books - own - self.before


class Verdict(NamedTuple):
    """`open`: orders without a line, around which the statements do not cover enough days."""

    pairs: int
    findings: list[Finding]
    open: list[Order]
    sums: dict[str, Sums]

    @property
    def agrees(self) -> bool:
        return not self.findings


def judge(
    spool: Spool,
    statements: Sequence[Statement],
    days: int,
    before: Mapping[str, int],
    findings: list[Finding],
) -> Verdict:
    """Pair what is in the spool, and explain the rest. `findings` are those of its reading."""
    ordered = balances.in_order(statements)
    covered = balances.covered(ordered)
    pairs = spool.pair(days)
    found, waiting = [*findings, *balances.faults(ordered.values())], list[Order]()
    named = dict[str, Order]()

    def is_due(order: Order) -> bool:
        return balances.is_within(order.day, days, covered.get(order.currency, ()))

    def is_here(order: Order) -> bool:
        return any(first <= order.day for first, _ in covered.get(order.currency, ()))

    for one in spool.lines_left(days):
        found.append(one)
        if one.order and one.kind in (Kind.AMOUNT, Kind.CURRENCY, Kind.APART):
            named[one.order.key] = one.order
    for order, one in spool.orders_left():
        if order.key in named:
            continue
        if is_due(order):
            found.append(one)
        elif is_here(order):
            waiting.append(order)
    sums = dict(_sums(spool, ordered, before, named.values()))
    found += [
        Finding(Kind.LEFT, currency, one.left, text=f"at the end of {one.day}")
        for currency, one in sums.items()
        if one.left
    ]
    return Verdict(pairs, found, waiting, sums)


def _sums(
    spool: Spool,
    ordered: Mapping[tuple[str, str], Sequence[Statement]],
    before: Mapping[str, int],
    named: Collection[Order],
) -> Iterator[tuple[str, Sums]]:
    """Yield each currency's sums at the last day on which all its accounts have a balance.

    Orders from before the first statement are in its opening balance, but for those that a finding names.
    """
    for currency in sorted({currency for _, currency in ordered}):
        accounts = [statements for (_, own), statements in ordered.items() if own == currency]
        day = min(statements[-1].last for statements in accounts)
        found = [balances.closing(statements, day) for statements in accounts]
        closing = [one for one in found if one is not None]
        if len(closing) == len(accounts):
            first = min(statements[0].first for statements in accounts)
            older = [one for one in named if one.currency == currency and one.day < first]
            yield (
                currency,
                Sums(
                    day=day,
                    bank=sum(closing),
                    books=spool.books(currency, day),
                    only_bank=spool.only_bank(currency, day),
                    only_books=spool.only_books(currency, first, day) + sum(one.signed for one in older),
                    early=spool.early(currency, day),
                    late=spool.late(currency, day),
                    before=before.get(currency, 0),
                ),
            )
