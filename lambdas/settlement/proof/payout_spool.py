"""Facts of payouts, merged from several spools. Each function raises CutOff."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

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
    PayoutReferenceFacts,
    ReservedFacts,
)
from settlement.proof.spool import Source, demand_once, merged

_Of = TypeVar("_Of", bound="Payout | Destination | Line")


@dataclass
class Payout:
    name: str
    row: PayoutFacts | None = None
    entries: list[PayoutEntryFacts] = field(default_factory=list)
    cases: list[PayoutCaseFacts] = field(default_factory=list)
    references: list[PayoutReferenceFacts] = field(default_factory=list)
    matches: list[PayoutMatchFacts] = field(default_factory=list)


@dataclass
class Destination:
    name: str
    row: DestinationFacts | None = None
    confirmed: ConfirmedFacts | None = None
    freezes: list[FrozenFacts] = field(default_factory=list)
    payouts: list[PaidToFacts] = field(default_factory=list)


@dataclass
class Line:
    name: str
    row: BankLineFacts | None = None
    listed: PayoutLineFacts | None = None
    match: LineMatchFacts | None = None


class Day(NamedTuple):
    """An account's reservations on a day. `change`: their sum minus the day's row, in minor units."""

    account: str
    day: str
    change: int


_PLACES: dict[type[Any], str] = {
    PayoutFacts: "row",
    PayoutEntryFacts: "entries",
    PayoutCaseFacts: "cases",
    PayoutReferenceFacts: "references",
    PayoutMatchFacts: "matches",
    DestinationFacts: "row",
    ConfirmedFacts: "confirmed",
    FrozenFacts: "freezes",
    PaidToFacts: "payouts",
    BankLineFacts: "row",
    PayoutLineFacts: "listed",
    LineMatchFacts: "match",
}


def payouts(sources: Sequence[Source]) -> Iterator[Payout]:
    kinds = (PayoutFacts, PayoutEntryFacts, PayoutCaseFacts, PayoutReferenceFacts, PayoutMatchFacts)
    return _grouped(sources, Payout, *kinds)


def destinations(sources: Sequence[Source]) -> Iterator[Destination]:
    return _grouped(sources, Destination, DestinationFacts, ConfirmedFacts, FrozenFacts, PaidToFacts)


def lines(sources: Sequence[Source]) -> Iterator[Line]:
    return _grouped(sources, Line, BankLineFacts, PayoutLineFacts, LineMatchFacts)


def days(sources: Sequence[Source]) -> Iterator[Day]:
    for account, of_account in merged(sources, ReservedFacts):
        for day, of_day in groupby(of_account, attrgetter("day")):
            yield Day(account, day, sum(one.amount for one in of_day))


def _grouped(sources: Sequence[Source], kind: Callable[[str], _Of], *facts: type[Any]) -> Iterator[_Of]:
    for name, found in merged(sources, *facts):
        group = kind(name)
        for one in found:
            place = _PLACES[type(one)]
            held = getattr(group, place)
            if isinstance(held, list):
                demand_once(one not in held, one)
                held.append(one)
            else:
                demand_once(held is None, one)
                setattr(group, place, one)
        yield group
