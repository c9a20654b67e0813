"""Sorts statements, and finds their gaps, days and sums."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from settlement.bank.matching import Finding, Kind
from settlement.bank.statement import Statement

Days = tuple[str, str]
"""First and last day."""

Ordered = Mapping[tuple[str, str], Sequence[Statement]]
"""Statements by account and currency, oldest first."""


_DAY, _NOON, _FRIDAY = timedelta(days=1), timedelta(hours=12), 4


class Span(NamedTuple):
    """The days of a currency's statements.

    `first`: the first day of the earliest account. `start` and `end`: the latest first day, and the earliest
    last day, of all accounts. `late`: the account that starts last. `holes`: days on which some
    account has no statement, but may have lines.
    """

    first: str
    start: str
    end: str
    late: str
    holes: Sequence[Days]


def in_order(statements: Iterable[Statement]) -> dict[tuple[str, str], list[Statement]]:
    found: dict[tuple[str, str], list[Statement]] = defaultdict(list)
    for one in sorted(set(statements), key=_place):
        found[one.account, one.currency].append(one)
    return dict(found)


def faults(ordered: Ordered) -> Iterator[Finding]:
    """Yield each statement that does not add up, and each gap between an account's statements.

    In statements without balances, such as a camt.054 or a CSV file, only missing pages are found.
    """
    for statements in ordered.values():
        told = [(one, *both) for one in _apart(statements) if (both := _balances(one))]
        for one, opening, closing in told:
            if wrong := closing - opening - one.credits + one.debits:
                yield Finding(Kind.SUM, one.currency, wrong, text=_name(one))
        for (one, _, closing), (following, opening, _) in pairwise(told):
            if closing != opening:
                where = f"between {_name(one)} and {_name(following)}"
                yield Finding(Kind.GAP, one.currency, opening - closing, text=where)
        yield from _pages(statements)


def late(ordered: Ordered, now: datetime) -> list[tuple[str, str]]:
    """Each account and currency whose latest due statement is missing.

    A day's statement is due at noon (UTC) of the next business day. Bank holidays are not known.
    """
    due = _business_day(_business_day((now - _NOON).date()) - _DAY).isoformat()
    return [place for place, own in ordered.items() if max(one.last for one in own) < due]


def _business_day(day: date) -> date:
    return day - _DAY * max(0, day.weekday() - _FRIDAY)


def spans(ordered: Ordered) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for currency in {currency for _, currency in ordered}:
        accounts = {account: own for (account, of), own in ordered.items() if of == currency}
        firsts = {account: min(one.first for one in own) for account, own in accounts.items()}
        lasts = [max(one.last for one in own) for own in accounts.values()]
        late = max(firsts, key=lambda account: firsts[account])
        holes = [hole for own in accounts.values() for hole in _holes(own)]
        found[currency] = Span(min(firsts.values()), firsts[late], min(lasts), late, holes)
    return found


def covered(ordered: Ordered) -> Iterator[tuple[str, str, str, str]]:
    """Yield account, currency, first and last day of each period with known balances."""
    for (account, currency), statements in ordered.items():
        for first, last in _merged(_told(statements)):
            yield account, currency, first, last


def closing(ordered: Ordered, currency: str) -> tuple[str, int] | None:
    """Last day on which all accounts of a currency have a balance, and the balances' sum."""
    accounts = [_apart(own) for (_, of), own in ordered.items() if of == currency]
    known = [[(one.first, one.last, one.closing) for one in own if _balances(one)] for own in accounts]
    if not all(known):
        return None
    for day in sorted({last for own in known for _, last, _ in own}, reverse=True):
        found = [_at_end(own, day) for own in known]
        if None not in found:
            return day, sum(filter(None, found))
    return None


def days_later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


def _at_end(known: Sequence[tuple[str, str, int | None]], day: str) -> int | None:
    """An account's balance at the end of `day`; None if no statement has it."""
    before = [closing for _, last, closing in known if last <= day]
    is_known = day <= max(last for _, last, _ in known) and not any(f <= day < last for f, last, _ in known)
    return before[-1] if before and is_known else None


def _balances(one: Statement) -> tuple[int, int] | None:
    return None if one.opening is None or one.closing is None else (one.opening, one.closing)


def _place(one: Statement) -> tuple[object, ...]:
    page = one.page[0] if one.page else 0
    return (one.account, one.currency, one.first, one.last, one.number or 0, page, one.created, one.name)


def _apart(statements: Sequence[Statement]) -> list[Statement]:
    """Leave out a statement within a longer one, and a second statement with the same number."""
    longest = ""
    longer = set[Days]()
    periods = {(one.first, one.last) for one in statements if _balances(one)}
    for first, last in sorted(periods, key=lambda days: (days[0], -date.fromisoformat(days[1]).toordinal())):
        if last <= longest:
            longer.add((first, last))
        longest = max(longest, last)
    found = dict[object, Statement]()
    for one in statements:
        if (one.first, one.last) not in longer:
            number = one.number or (one.last, one.opening, one.closing)
            found.setdefault((number, one.page, one.first), one)
    return list(found.values())


def _pages(statements: Sequence[Statement]) -> Iterator[Finding]:
    pages: dict[tuple[object, ...], list[Statement]] = defaultdict(list)
    for one in statements:
        if one.page:
            pages[one.number, one.first, one.last, one.created].append(one)
    for own in pages.values():
        numbers = sorted({one.page[0] for one in own if one.page})
        is_whole = any(one.page[1] for one in own if one.page)
        if numbers != list(range(1, len(numbers) + 1)) or not is_whole:
            told = ", ".join(map(str, numbers))
            yield Finding(Kind.GAP, own[0].currency, 0, text=f"only page {told} of {_name(own[0])}")


def _told(statements: Sequence[Statement]) -> list[Days]:
    """Return periods with known balances: statements, and gaps between equal balances."""
    told = [(one, *both) for one in _apart(statements) if (both := _balances(one))]
    quiet = [
        (one.last, following.first)
        for (one, _, closing), (following, opening, _) in pairwise(told)
        if closing == opening and one.last < following.first
    ]
    return [*((one.first, one.last) for one, *_ in told), *quiet]


def _holes(statements: Sequence[Statement]) -> Iterator[Days]:
    for (_, last), (first, _) in pairwise(_merged(_told(statements))):
        yield days_later(last, 1), days_later(first, -1)


def _name(one: Statement) -> str:
    number = f" (number {one.number})" if one.number is not None else ""
    return f"{one.name}{number} of {one.account}, {one.first} to {one.last}"


def _merged(periods: Iterable[Days]) -> list[Days]:
    found: list[Days] = []
    for first, last in sorted(periods):
        if found and first <= days_later(found[-1][1], 1):
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
