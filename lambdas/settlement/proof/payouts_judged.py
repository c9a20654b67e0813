"""Differences among payouts' rows, each with the facts for a second look."""

from collections.abc import Iterator, Sequence

from settlement.core.ledger import keys
from settlement.proof import payout_spool, payouts
from settlement.proof.findings import Difference
from settlement.proof.payout_spool import Day, Destination, Line, Payout
from settlement.proof.spool import Source


def differing(sources: Sequence[Source]) -> Iterator[tuple[list[str], Difference]]:
    """Yield the faults of each differing row. Raises CutOff."""
    for payout in payout_spool.payouts(sources):
        if told := of_payout(payout):
            yield told, Difference(keys.payout(payout.name), scanned=(payout,))
    for destination in payout_spool.destinations(sources):
        if told := of_destination(destination):
            yield told, Difference(keys.destination(destination.name), scanned=(destination,))
    for line in payout_spool.lines(sources):
        if told := of_line(line):
            yield told, Difference(keys.payout_line(line.name), scanned=(line,))
    for day in payout_spool.days(sources):
        if told := of_day(day):
            yield told, Difference(keys.payout_day(day.account, day.day), scanned=(day,))


def of_payout(one: Payout) -> list[str]:
    if one.row is None:
        return [payouts.NO_ROW]
    return payouts.differences(one.row, one.entries, one.cases, len(one.references), one.matches)


def of_destination(one: Destination) -> list[str]:
    return payouts.destination_differences(one.row, one.confirmed, one.freezes, one.payouts)


def of_line(one: Line) -> list[str]:
    return payouts.line_differences(one.row, one.listed, one.match)


def of_day(one: Day) -> list[str]:
    return payouts.day_differs(one.day, one.change)
