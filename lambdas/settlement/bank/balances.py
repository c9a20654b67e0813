"""Statements in their order: whether one is missing, and what they cover."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise

from settlement.bank.matching import Finding, Kind
from settlement.bank.statement import Statement

Days = tuple[str, str]
"""First and last day."""


def in_order(statements: Iterable[Statement]) -> dict[tuple[str, str], list[Statement]]:
    """Return each account's statements, oldest first, each once: by (account, currency)."""
    found: dict[tuple[str, str], list[Statement]] = defaultdict(list)
    for one in sorted(set(statements), key=_place):
        found[one.account, one.currency].append(one)
    return dict(found)


def faults(ordered: Iterable[Sequence[Statement]]) -> Iterator[Finding]:
    """Yield each statement that does not add up, and each hole between two of an account.

    Statements without balances, as a camt.054 and a CSV file, cannot show a hole.
    """
    for statements in ordered:
        told = [
            (one, one.opening, one.closing)
            for one in statements
            if one.opening is not None and one.closing is not None
        ]
        for one, opening, closes in told:
            if wrong := closes - opening - one.credits + one.debits:
                yield Finding(Kind.SUM, one.currency, wrong, text=_name(one))
        for (one, _, closes), (following, opens, _) in pairwise(told):
            if closes != opens and not _overlap(one, following):
                where = f"between {_name(one)} and {_name(following)}"
                yield Finding(Kind.GAP, one.currency, opens - closes, text=where)
        last = statements[-1]
        if last.page and not last.page[1]:
            yield Finding(Kind.GAP, last.currency, 0, text=f"after page {last.page[0]} of {_name(last)}")


def covered(ordered: Mapping[tuple[str, str], Sequence[Statement]]) -> dict[str, list[Days]]:
    """Return, by currency, the days that the statements of all its accounts cover.

    Days without a statement are covered if one balance leads over them, as over a weekend.
    """
    found: dict[str, list[Days]] = {}
    for (_, currency), statements in ordered.items():
        told = [one for one in statements if one.opening is not None]
        quiet = [(a.last, b.first) for a, b in pairwise(told) if a.closing == b.opening and a.last < b.first]
        own = _merged([*((one.first, one.last) for one in statements), *quiet])
        found[currency] = _common(found[currency], own) if currency in found else own
    return found


def is_within(day: str, days: int, covered: Iterable[Days]) -> bool:
    """Return whether the statements cover a day, and as many days around it."""
    around = timedelta(days=days)
    first, last = (
        (date.fromisoformat(day) - around).isoformat(),
        (date.fromisoformat(day) + around).isoformat(),
    )
    return any(start <= first and last <= end for start, end in covered)


def closing(statements: Sequence[Statement], day: str) -> int | None:
    """Return an account's balance at the end of a day; None without a statement that ends then."""
    return next((one.closing for one in reversed(statements) if one.last == day), None)


def _place(one: Statement) -> tuple[object, ...]:
    page = one.page[0] if one.page else 0
    return (one.account, one.currency, one.first, one.last, one.number or 0, page, one.created, one.name)


def _overlap(one: Statement, following: Statement) -> bool:
    """Return whether two statements tell the same days, as a week and one of its days, or an issue anew."""
    if one.page and following.page:
        return False
    is_anew = one.number is not None and one.number == following.number and one.first == following.first
    return is_anew or (following.first <= one.last and one.first != one.last)


def _name(one: Statement) -> str:
    number = f" (number {one.number})" if one.number is not None else ""
    return f"{one.name}{number} of {one.account}, {one.first} to {one.last}"


def _merged(periods: Iterable[Days]) -> list[Days]:
    """Join periods that overlap or follow each other."""
    found: list[Days] = []
    for first, last in sorted(periods):
        if found and first <= _next(found[-1][1]):
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def _common(one: Sequence[Days], other: Sequence[Days]) -> list[Days]:
    pairs = ((max(a[0], b[0]), min(a[1], b[1])) for a in one for b in other)
    return [(first, last) for first, last in pairs if first <= last]


def _next(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
