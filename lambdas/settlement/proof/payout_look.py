"""Second looks at payouts' rows, which move while the proof scans.

Each move of a payout changes its row, in one transaction with the rows that it puts. These never change.
So while a payout's row is unchanged, the scan's copies remain valid.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.proof import Difference, Look, pages, payout_rows, payouts, payouts_judged, rows
from settlement.proof.facts import (
    ConfirmedFacts,
    DestinationFacts,
    FrozenFacts,
    PayoutEntryFacts,
    PayoutFacts,
)
from settlement.proof.payout_spool import Day, Destination, Line, Payout
from settlement.proof.watched_store import WatchedStore

LOOKS_MAX = 10
"""Maximum readings of a moving row. After them, the row is unproven."""

PAUSE_SECONDS = 0.2

_Facts = TypeVar("_Facts")


def look(store: WatchedStore, difference: Difference) -> Look:
    """Look again at a difference. Raises ValueError for an unreadable row, which the scan has reported."""
    (scanned,) = difference.scanned
    return _LOOKS[type(scanned)](store, scanned)


def _payout(store: WatchedStore, scanned: Payout) -> Look:
    for number in range(LOOKS_MAX):
        _pause(number)
        before = store.read(keys.payout(scanned.name))
        if before is None:
            return Look.DISAGREES
        found = _read(store, payout_rows.payout(before), scanned)
        if store.read(keys.payout(scanned.name)) != before:
            continue
        is_kept = {*scanned.entries} <= {*found.entries} and {*scanned.cases} <= {*found.cases}
        return _agrees(is_kept and not payouts_judged.of_payout(found))
    return Look.MOVING


def _read(store: WatchedStore, row: PayoutFacts, scanned: Payout) -> Payout:
    wanted = {*payouts.entries_of(row), *scanned.entries}
    places = {(one["pk"], one["sk"]): one for one in map(payouts.address, sorted(wanted, key=str))}
    lines = {one for one in (row.debit_line, row.return_line) if one} | {one.line for one in scanned.matches}
    matches = rows.sound(rows.match, store.rows([keys.bank_match(one) for one in sorted(lines)]))
    cases = pages.query(store, keys.payout_proposed(scanned.name, 0, "", "")["pk"])
    name = keys.payout_reference(payout_rows.reference_of(row.key))
    return Payout(
        scanned.name,
        row,
        list(rows.sound(_moved, store.rows(list(places.values())))),
        list(rows.sound(payout_rows.case, cases)),
        list(rows.sound(payout_rows.reference, store.rows([name]))),
        [one for found in matches if (one := rows.of_payout(found)) and one.key == scanned.name],
    )


def _moved(row: Row) -> PayoutEntryFacts:
    return payout_rows.entry(row, rows.entry(row))


def _destination(store: WatchedStore, scanned: Destination) -> Look:
    """Look at a destination. Each payout or freeze also changes its row, in one transaction."""
    for number in range(LOOKS_MAX):
        _pause(number)
        before = store.read(keys.destination(scanned.name))
        found = _read_destination(store, before, scanned)
        if store.read(keys.destination(scanned.name)) != before:
            continue
        is_kept = {*scanned.freezes} <= {*found.freezes}
        return _agrees(is_kept and not payouts_judged.of_destination(found))
    return Look.MOVING


def _read_destination(store: WatchedStore, row: Row | None, scanned: Destination) -> Destination:
    name, place = scanned.name, keys.destination_frozen(scanned.name, "")
    freezes = store.entries(place["pk"], place["sk"], f"{place['sk']}~")
    facts = _sound(payout_rows.destination, row)
    confirmed = _sound(payout_rows.destination, store.read(keys.destination_confirmed(name)))
    known = {one.key: one for one in scanned.payouts}
    if isinstance(facts, DestinationFacts) and facts.last_payout and facts.last_payout not in known:
        last = _sound(payout_rows.payout, store.read(keys.payout(facts.last_payout)))
        if last and last.destination == name:
            known[last.key] = payout_rows.paid_to(last)
    return Destination(
        name,
        facts if isinstance(facts, DestinationFacts) else None,
        confirmed if isinstance(confirmed, ConfirmedFacts) else None,
        [one for one in rows.sound(payout_rows.destination, freezes) if isinstance(one, FrozenFacts)],
        sorted(known.values()),
    )


def _line(store: WatchedStore, scanned: Line) -> Look:
    """Look at a line. One transaction puts and lists it. It leaves the list only after it is booked.

    A line from before the stage had payouts is unlisted, and may name one by chance.
    """
    listed = _sound(payout_rows.listed_line, store.read(keys.payout_line(scanned.name)))
    match = _sound(rows.match, store.read(keys.bank_match(scanned.name)))
    line = _sound(payout_rows.bank_line, store.read(keys.bank_line(scanned.name)))
    if line and listed is None and not (match and rows.of_payout(match)):
        named = [keys.payout_reference(one) for one in line.names.split()]
        return _agrees(not list(store.rows(named)))
    found = Line(scanned.name, line, listed, rows.of_line(match) if match else None)
    return _agrees(not payouts_judged.of_line(found))


def _day(store: WatchedStore, scanned: Day) -> Look:
    """Look at a day's count. It only grows, so an unchanged count means that nothing was reserved."""
    key = keys.payout_day(scanned.account, scanned.day)
    for number in range(LOOKS_MAX):
        _pause(number)
        before = store.read(key)
        reserved = sum(one.amount for one in _reserved(store, scanned))
        if store.read(key) == before:
            counted = payout_rows.day(before).amount if before else 0
            return _agrees(reserved + counted == 0)
    return Look.MOVING


def _reserved(store: WatchedStore, day: Day) -> Iterable[PayoutEntryFacts]:
    for partition in keys.entry_partitions(day.account):
        found = store.entries(partition, day.day, f"{day.day}~")
        own = (row for row in found if row.get("step") == payout_rows.RESERVE)
        yield from rows.sound(_moved, own)


def _sound(kind: Callable[[Row], _Facts], row: Row | None) -> _Facts | None:
    return next(rows.sound(kind, [row] if row else []), None)


def _agrees(agrees: bool) -> Look:
    return Look.AGREES if agrees else Look.DISAGREES


def _pause(number: int) -> None:
    time.sleep(PAUSE_SECONDS if number else 0)


_LOOKS: Mapping[type[Any], Callable[[WatchedStore, Any], Look]] = {
    Payout: _payout,
    Destination: _destination,
    Line: _line,
    Day: _day,
}
