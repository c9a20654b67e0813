from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from settlement.bank import balances
from settlement.bank.balances import Ordered, Span
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Statement

_NAMING = (Kind.AMOUNT, Kind.CURRENCY, Kind.APART)

_EDGES_MAX = 16
"""Maximum orders whose combinations are tried."""


class Sums(NamedTuple):
    """A currency's balances at the end of a day, in minor units.

    `bank`: the closing balances. `books`: the orders' sum, -`external:<CUR>`. `only_bank`, `only_books`: sums
    of lines without an order, and of orders without a line. `early`: sum of lines whose order comes after
    that day. `late`: sum of orders whose line comes later. `left`: the unexplained rest, 0 for right books.
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
    """A comparison's result.

    `open`: orders whose line may come later, or be in an earlier statement. `unsummed`: currencies whose
    statements have no balances.
    """

    pairs: int
    findings: list[Finding]
    open: list[Order]
    sums: dict[str, Sums]
    unsummed: list[str]

    @property
    def agrees(self) -> bool:
        return not self.findings


class _Left(NamedTuple):
    """A currency's orders without a line.

    `edges`: orders of the first days. `twins`: later orders, each equal to one of the first days. `named`:
    orders named by a line.
    """

    edges: list[tuple[Order, Finding]]
    twins: list[Order]
    named: dict[str, Order]


def judge(  # noqa: PLR0912
    spool: Spool,
    statements: Sequence[Statement],
    days: int,
    before: Mapping[str, int],
    findings: list[Finding],
    only: str | None = None,
) -> Verdict:
    """Pair lines with orders, and explain those that are left.

    `findings`: found while the spool was filled. `only`: the only currency to compare.
    """
    ordered = balances.in_order(one for one in statements if only in (None, one.currency))
    spans = balances.spans(ordered)
    spool.settle(balances.covered(ordered))
    pairs = spool.pair(days)
    _exchange(spool, spans, days)
    for currency, days_of in spans.items():
        spool.cancel(currency, days_of.first)
    known = (one for one in findings if only in (None, one.currency))
    found, waiting = [*known, *balances.faults(ordered)], list[Order]()
    left = {currency: _Left([], [], {}) for currency in spans}
    for one in spool.lines_left(days):
        if only in (None, one.currency):
            found.append(one)
            if one.order and one.kind in _NAMING and one.order.currency in left:
                left[one.order.currency].named[one.order.key] = one.order
    named = {key for own in left.values() for key in own.named}
    for order, one in spool.orders_left():
        span = spans.get(order.currency)
        if span is None or order.key in named or order.day < span.first:
            continue
        if order.day < span.start:
            text = f"{span.late} has no statement before {span.start}"
            found.append(one._replace(kind=Kind.GAP, text=text))
        elif _may_come(order, span, days):
            # An equal order of the first days may have its line, and own one in the opening balance.
            has_twin = spool.has_equal(order, order.side, balances.days_later(span.start, days))
            (left[order.currency].twins if has_twin else waiting).append(order)
        elif _is_first(order, span, days) or spool.has_equal(order, order.side.other, span.first):
            left[order.currency].edges.append((order, one))
        else:
            found.append(one)
    missing = [one for one in spool.currencies() if one not in spans and only in (None, one)]
    found += [Finding(Kind.NO_STATEMENT, one, 0) for one in sorted(missing)]
    sums = dict(_sums(spool, ordered, spans, before, left))
    for currency, (edges, twins, of_lines) in sorted(left.items()):
        old = [one for one in of_lines.values() if one.day < spans[currency].first]
        orders = [*(order for order, _ in edges), *twins, *old]
        earlier = _earlier(sums[currency], orders) if currency in sums else None
        waiting += twins
        waiting += [order for order, _ in edges if earlier is None or order.key in earlier]
        if earlier is not None:
            found = [_alone(one) if one.order in old and one.order.key in earlier else one for one in found]
            found += [one for order, one in edges if order.key not in earlier]
        elif currency in sums:
            where = f"at the end of {sums[currency].day}"
            found.append(Finding(Kind.LEFT, currency, sums[currency].left, text=where))
    return Verdict(pairs, found, waiting, sums, sorted(spans.keys() - sums.keys()))


def _alone(one: Finding) -> Finding:
    """Leave the finding's line without its order, which belongs to an earlier line."""
    return one._replace(kind=Kind.ONLY_BANK, order=None, text="")


def _exchange(spool: Spool, spans: Mapping[str, Span], days: int) -> None:
    """Move lines to orders that must have one, from equal orders that need none."""

    def is_due(order: Order) -> bool:
        span = spans.get(order.currency)
        return span is not None and not (_may_come(order, span, days) or _is_first(order, span, days))

    for order in [order for order, _ in spool.orders_left() if is_due(order)]:
        spool.exchange(order.key, days, is_due)


def _is_first(order: Order, span: Span, days: int) -> bool:
    return order.day < balances.days_later(span.start, days)


def _may_come(order: Order, span: Span, days: int) -> bool:
    first, last = (balances.days_later(order.day, around) for around in (-days, days))
    return last > span.end or any(first <= end and start <= last for start, end in span.holes)


def _earlier(sums: Sums, orders: Sequence[Order]) -> set[str] | None:
    """Return the largest set of orders whose sum is the unexplained rest, or None.

    The opening balance can already include an order of the first days, whose line came a day before, or an
    earlier order, which a line names again. An order can also undo an earlier order.
    """
    found: dict[int, frozenset[str]] = {0: frozenset()}
    for order in orders[:_EDGES_MAX]:
        more = {sum_ + order.signed: keys | {order.key} for sum_, keys in found.items()}
        found |= {sum_: keys for sum_, keys in more.items() if len(keys) > len(found.get(sum_, ()))}
    chosen = found.get(sums.left)
    return None if chosen is None else set(chosen)


def _sums(
    spool: Spool,
    ordered: Ordered,
    spans: Mapping[str, Span],
    before: Mapping[str, int],
    left: Mapping[str, _Left],
) -> Iterator[tuple[str, Sums]]:
    """Yield each currency's sums at the last day on which all the currency's accounts have a balance.

    Orders before the first statement are in the opening balance, except the orders of findings.
    """
    for currency, span in sorted(spans.items()):
        found = balances.closing(ordered, currency)
        if found is None:
            continue
        day, bank = found
        older = sum(one.signed for one in left[currency].named.values() if one.day < span.first)
        yield (
            currency,
            Sums(
                day=day,
                bank=bank,
                books=spool.books(currency, day),
                only_bank=spool.only_bank(currency, day),
                only_books=spool.only_books(currency, span.first, day) + older,
                early=spool.early(currency, day),
                late=spool.late(currency, day),
                before=before.get(currency, 0),
            ),
        )
