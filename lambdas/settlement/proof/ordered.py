"""Comparison of an account's orders with its row and its movements.

One transaction writes a deposit or withdrawal with its order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.proof.facts import BalanceFacts, EntryFacts, MatchFacts, OrderFacts
from settlement.proof.rows import BANK_SIDES, MOVES


def entry_of(order: OrderFacts) -> EntryFacts | None:
    if order.amount is None or order.currency is None:
        return None
    side = MOVES[order.kind]
    posted = (order.key, order.kind, order.posted_at, order.account, side)
    return EntryFacts(*posted, order.amount, order.currency, order.request_hash)


def address_of(order: OrderFacts) -> Row:
    return keys.entry(order.account, order.posted_at, order.key, order.kind)


def differences(
    row: BalanceFacts, orders: Sequence[OrderFacts], entries: Iterable[EntryFacts]
) -> Iterator[str]:
    yield from money_differences(orders, entries)
    yield from state_differences(row, orders)


def money_differences(orders: Iterable[OrderFacts], entries: Iterable[EntryFacts]) -> Iterator[str]:
    left = {entry: None for one in orders if (entry := entry_of(one))}
    for entry in entries:
        if entry in left:
            del left[entry]
        else:
            yield f"no order explains its {entry.step} {entry.key}"
    for entry in left:
        yield f"its order {entry.key} has no entry of the {entry.step}"


def match_differences(orders: Iterable[OrderFacts], matches: Iterable[MatchFacts]) -> Iterator[str]:
    """Check that each match has both rows, and an order that agrees with the bank's line."""
    known = {one.key: one for one in orders}
    rows_of: dict[MatchFacts, list[str]] = {}
    for one in matches:
        rows_of.setdefault(one._replace(teller=""), []).append(one.teller)
    for one, own in rows_of.items():
        order = known.get(one.key)
        if sorted(own) != ["line", "order"]:
            yield f"the match of its order {one.key} has only the row of the {', '.join(own)}"
        if order is None or (order.currency, order.amount, BANK_SIDES.get(order.kind)) != one[3:6]:
            yield f"a bank's line is matched with its order {one.key}, which does not agree with it"


def state_differences(row: BalanceFacts, orders: Collection[OrderFacts]) -> Iterator[str]:
    """Compare an account's state with its orders.

    Freezes and unfreezes are only counted, because clocks differ.
    """
    times: dict[str, list[str]] = {}
    for one in orders:
        times.setdefault(one.kind, []).append(one.posted_at)
        if one.currency not in (None, row.currency):
            yield f"its order {one.key} is in {one.currency}"
    for name, at, needed in (("open", row.opened_at, 1), ("close", row.closed_at, int(bool(row.closed_at)))):
        if times.get(name, []) != [at] * needed:
            yield f"its {name} is of {at}, its orders are of {', '.join(times.get(name, [])) or 'no time'}"
    freezes, ends = times.get("freeze", []), times.get("unfreeze", [])
    is_explained = row.frozen_at in freezes if row.frozen_at else True
    if not is_explained or len(freezes) - len(ends) != bool(row.frozen_at):
        yield f"is frozen since {row.frozen_at}, but has {len(freezes)} freezes, of which {len(ends)} ended"
    if not any(one.key == row.last_order and _left_so(row, one) for one in orders):
        yield f"its last order is {row.last_order}, which did not leave it so"


def _left_so(row: BalanceFacts, last: OrderFacts) -> bool:
    if last.kind == "close":
        return row.closed_at == last.posted_at
    is_frozen = row.frozen_at is not None
    return last.kind in _STATES and row.closed_at is None and is_frozen == (last.kind == "freeze")


_STATES = ("open", "freeze", "unfreeze")
