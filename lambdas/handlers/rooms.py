"""The rooms of this app, and where each of them meets the core and other rooms.

A room that goes takes its line with it, and the rest runs on. What a room brings is named as `module:name`,
and imported when it is first asked for: what a function imports is a part of its cold start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.store.dynamodb import Store

Take = Callable[[object, Any], dict[str, Any]]
"""Carries out an order: from the body and the caller, the order as it is on record."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a room brings. Each is a `module:name`; None if the room brings none.

    `adds` returns what adds to a row that is put, by the stage's configuration. `before_refund` makes
    available what a payee has received, before it is taken back, and `before_close` what an account has.
    `orders` maps the last part of an order's route to what takes it, and to the field of its body that
    repeats the route, if it has one.
    """

    name: str
    adds: str | None = None
    before_refund: str | None = None
    before_close: str | None = None
    orders: str | None = None


ROOMS: tuple[Room, ...] = (
    Room(name="retention", adds="settlement.retention.expiry:adds"),
    Room(name="signing", adds="settlement.signing.stage:adds"),
    Room(name="accounts", orders="handlers.accounts._account_orders:ORDERS"),
    Room(name="events", orders="handlers.events._replay:ORDERS"),
    Room(name="kyc", orders="handlers.kyc._probe:ORDERS"),
    Room(
        name="merchants",
        before_refund="settlement.merchants.sweeper:before_refund",
        before_close="handlers.merchants._order:before_close",
        orders="handlers.merchants._order:ORDERS",
    ),
)
"""The rooms that bring something. A row that is put meets them in this order: what is signed is whole."""


def adds(config: StageConfig) -> tuple[Callable[[Row], Row], ...]:
    """Return what the stage adds to a row that is put, in turn."""
    return tuple(add(config) for add in _brought("adds"))


def before_refund(store: Store, state: SettlementState) -> None:
    """Make what a payee has received available. Raises StoreUnavailable and the payee's refusals."""
    for prepare in _brought("before_refund"):
        prepare(store, state)


def credits_later() -> bool:
    """Return whether a room makes available what releases leave out of a balance."""
    return any(room.before_refund for room in ROOMS)


def before_close(account: str, now: datetime) -> None:
    """Make what an account has received available. Raises AccountNotEmpty."""
    for prepare in _brought("before_close"):
        prepare(account, now)


def orders() -> dict[str, tuple[Take, str | None]]:
    """Return the orders of the rooms besides `orders`."""
    return {route: taken for found in _brought("orders") for route, taken in found.items()}


def _brought(seam: str) -> Iterator[Any]:
    for room in ROOMS:
        if named := getattr(room, seam):
            module, _, name = named.partition(":")
            yield getattr(import_module(module), name)
