"""The rooms of a stack, in build order. A room may need earlier rooms."""

from collections.abc import Mapping, Sequence

from . import (
    acceptance,
    backup,
    bank,
    books,
    core,
    doors,
    events,
    journal,
    kyc,
    merchants,
    migration,
    orders,
    paging,
    payouts,
    payruns,
    people,
    proof,
    reading,
    retention,
    signing,
)
from .core import Room
from .grants import Handler

ROOMS: Sequence[Room] = tuple(
    room.ROOM
    for room in (
        *(kyc, doors, orders, reading, merchants, events, paging, journal, proof, books, bank, signing),
        *(payouts, payruns, retention, backup, migration, people, acceptance),
    )
)


def handlers_of(rooms: Sequence[Room]) -> dict[str, Handler]:
    found = dict(core.HANDLERS)
    for room in rooms:
        found |= room.handlers
    for room in rooms:
        for name in room.widens.keys() & found.keys():
            found[name] = found[name].widened(room.widens[name])
    return found


def orders_of(rooms: Sequence[Room]) -> dict[str, str]:
    return {order: people for room in rooms for order, people in room.orders.items()}


HANDLERS: Mapping[str, Handler] = handlers_of(ROOMS)
ORDERS: Mapping[str, str] = orders_of(ROOMS)
