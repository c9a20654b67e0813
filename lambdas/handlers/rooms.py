"""The rooms (packages beside the core), and the calls to them.

To remove a room, remove its line. For a short cold start, a room's parts are imported on first use.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.store.dynamodb import Store

Take = Callable[[object, Any], dict[str, Any]]
"""Takes a body and a caller. Returns the recorded order."""

MakeEvent = Callable[[Row | None, Row | None, StageConfig], Any]
"""Takes a row before and after a write. Returns the event, or None. Raises MalformedRow."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A room's parts. Each is `module:name` or None.

    - `adds`: takes the stage's configuration, and returns a function that completes each row to put.
    - `before_refund`: makes a payee's releases available before a refund takes them back.
    - `before_close`: makes these releases available before a close.
    - `before_verdict`: raises if the settlement's checks forbid asking the KYC provider.
    - `before_approval`: raises if the settlement's checks forbid an approval by the provider's webhook.
    - `orders`: maps a route's last part to the order's function, and to the body's field that repeats it.
    - `tells`: maps a prefix of row keys to the function that makes their events.
    """

    name: str
    adds: str | None = None
    before_refund: str | None = None
    before_close: str | None = None
    before_verdict: str | None = None
    before_approval: str | None = None
    orders: str | None = None
    lists: str | None = None
    tells: Mapping[str, str] = field(default_factory=dict)


ROOMS: tuple[Room, ...] = (
    Room(name="retention", adds="settlement.retention.expiry:adds"),
    Room(
        name="checks",
        adds="settlement.checks.demanded:adds",
        before_verdict="handlers.checks._checks:ensure_approved",
        before_approval="handlers.checks._approved:ensure",
    ),
    Room(name="signing", adds="settlement.signing.stage:adds"),
    Room(name="accounts", orders="handlers.accounts._account_orders:ORDERS"),
    Room(name="events", orders="handlers.events._replay:ORDERS"),
    Room(name="bank", orders="handlers.bank._booking:ORDERS"),
    Room(
        name="payouts",
        lists="settlement.payouts.lines:listed",
        orders="handlers.payouts._orders:ORDERS",
        tells={"PAYOUT#": "settlement.payouts.changes:event"},
    ),
    Room(
        name="payruns",
        orders="handlers.payruns._orders:ORDERS",
        tells={"PAYRUN#": "settlement.payruns.changes:event"},
    ),
    Room(name="kyc", orders="handlers.kyc._probe:ORDERS"),
    Room(
        name="merchants",
        before_refund="settlement.merchants.sweeper:before_refund",
        before_close="handlers.merchants._order:before_close",
        orders="handlers.merchants._order:ORDERS",
    ),
)
"""The rooms, in the order in which their `adds` complete a row.

Signing comes last, and signs all additions.
"""


def adds(config: StageConfig) -> tuple[Callable[[Row], Row], ...]:
    return tuple(add(config) for add in _brought("adds"))


def before_refund(store: Store, state: SettlementState) -> None:
    for prepare in _brought("before_refund"):
        prepare(store, state)


def credits_later() -> bool:
    return any(room.before_refund for room in ROOMS)


def before_close(account: str, now: datetime) -> None:
    for prepare in _brought("before_close"):
        prepare(account, now)


def load(seam: str) -> None:
    """Import each room's part `seam` now, not on first use."""
    for _ in _brought(seam):
        pass


def before_verdict(settlement: Settlement, state: SettlementState, context: Any) -> None:
    """Ensure that all checks approve. Raises InReview, CheckRefused and CheckUnavailable."""
    for ensure in _brought("before_verdict"):
        ensure(settlement, state, context)


def before_approval(state: SettlementState) -> None:
    for ensure in _brought("before_approval"):
        ensure(state)


def orders() -> dict[str, tuple[Take, str | None]]:
    return {route: taken for found in _brought("orders") for route, taken in found.items()}


def listing() -> tuple[Callable[[Any], Write | None], ...]:
    """The functions by which rooms in LINES_FOR list a bank's line for booking."""
    return tuple(_brought("lists", os.environ.get("LINES_FOR", "").split()))


def event_of(pk: str) -> MakeEvent | None:
    """The function that makes the events of a row, if the row belongs to a room."""
    for room in ROOMS:
        for prefix, named in room.tells.items():
            if pk.startswith(prefix):
                found: MakeEvent = _part(named)
                return found
    return None


def _brought(seam: str, rooms: Collection[str] | None = None) -> Iterator[Any]:
    for room in ROOMS:
        if rooms is not None and room.name not in rooms:
            continue
        if named := getattr(room, seam):
            yield _part(named)


def _part(named: str) -> Any:
    module, _, name = named.partition(":")
    return getattr(import_module(module), name)
