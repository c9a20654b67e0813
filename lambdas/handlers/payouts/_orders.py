"""Orders on payees' bank accounts and payouts' cases.

A verdict needs the orders of two persons.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from handlers import _dependencies
from handlers.payouts import _payouts
from settlement.aws import functions
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import DestinationRefused, InvalidRequest, StartUnavailable
from settlement.core.model.orders import fields_of
from settlement.core.model.stored import MalformedRow
from settlement.http.caller import Caller
from settlement.payouts import decision, destination, hints, told
from settlement.payouts.decision import Decision
from settlement.payouts.destination import Destination
from settlement.payouts.payout import DESTINATION, State
from settlement.signing.stage import row_keys

Take = Callable[[object, Caller], dict[str, Any]]


def add_payee(body: object, caller: Caller) -> dict[str, Any]:
    """Add a bank account, and return it. It cannot be paid yet.

    Raises InvalidRequest, and IdempotencyConflict for an id with another bank account.
    """
    given = destination.parse_destination(body)
    row = _dependencies.store.put(destination.add(given, caller, _dependencies.now()))
    answered = (*destination.SHOWN, "added_by", "added_at")
    return {"id": given["id"], **{name: row[name] for name in answered}}


def confirm_payee(body: object, caller: Caller) -> dict[str, Any]:
    """Confirm a payee's bank account that another person added, and its payer.

    Raises InvalidRequest, DestinationRefused, MalformedRow.
    """
    content = fields_of(body, ("id", *destination.SHOWN))
    found, now = _found(content["id"]), _dependencies.now()
    rest = _payouts.limits().rest
    row = _dependencies.store.put(destination.confirm(found, content, caller, rest, now))
    return {"id": found.id, "confirmed_by": row["confirmed_by"], "payable_from": row["payable_from"]}


def freeze_payee(body: object, caller: Caller) -> dict[str, Any]:
    """Stop payouts to a bank account. Payouts that are not sent yet become cases.

    Raises InvalidRequest, DestinationRefused, and MalformedRow if the row is not frozen after all.
    """
    name = _name(fields_of(body, ("id",))["id"])
    store = _dependencies.store
    with suppress(AlreadyApplied):
        store.transact(destination.freeze(name, caller, _dependencies.now()))
    found = store.read(keys.destination(name)) or {}  # of a damaged row too: it is frozen now
    if not isinstance(found.get("frozen_at"), str):
        raise MalformedRow(f"{keys.destination(name)['pk']}: it is not frozen")
    return {"id": name, "frozen_at": found["frozen_at"]}


def propose_payout(body: object, caller: Caller) -> dict[str, Any]:
    """Propose a verdict about a case. Raises InvalidRequest, PayoutNotFound, ResolutionRefused."""
    order = decision.parse_decision(body)
    store = _dependencies.store
    state = hints.state_of(store, order.key)
    row = store.put(decision.propose(state, order, caller, _dependencies.now()))
    return {"key": state.key, "case": state.cases, "verdict": row["verdict"], "proposed_by": row["by"]}


def approve_payout(body: object, caller: Caller) -> dict[str, Any]:
    """Approve another person's verdict, and let FollowPayouts carry it out now, or within a minute.

    Raises InvalidRequest, PayoutNotFound, ResolutionRefused, MalformedRow.
    """
    order = decision.parse_decision(body)
    state = hints.state_of(_dependencies.store, order.key)
    row = _approved_before(order) or _approve(state, order, caller)
    approved = {
        "key": order.key,
        "case": order.case,
        "verdict": row["verdict"],
        "approved_by": row["approved_by"],
    }
    try:
        return approved | {"payout": _look(state.key)}
    except StartUnavailable as later:
        return approved | {"not_yet": str(later)}


def _approved_before(order: Decision) -> Row | None:
    """Return an equal approval on record. A repeated order must find it even after the case is closed."""
    row = _dependencies.store.read(keys.payout_approved(order.key, order.case, order.digest))
    return row if row and order.is_on(row) else None


def _approve(state: State, order: Decision, caller: Caller) -> Row:
    """Approve a verdict. Raises MalformedRow for a forged proposal, as it lets one person decide alone."""
    store = _dependencies.store
    first = store.read(order.place)
    if first is not None and not row_keys.is_proven(first):
        raise MalformedRow(f"{first['pk']}: a proposal has no valid signature")
    return store.put(decision.approve(state, order, first, caller, _dependencies.now()))


def ask_payout(body: object, caller: Caller) -> dict[str, Any]:
    """Look at a payout now, and return it. If the look is not over in time, return the earlier state.

    Raises InvalidRequest, PayoutNotFound.
    """
    key = fields_of(body, ("key",))["key"]
    state = hints.state_of(_dependencies.store, key)
    try:
        return _look(key)
    except StartUnavailable as later:
        return told.of_state(state, _dependencies.config) | {"not_yet": str(later)}


def _look(key: str) -> dict[str, Any]:
    if "FOLLOW_PAYOUTS" not in os.environ:
        raise StartUnavailable("FollowPayouts: this function may not call it")
    return functions.call("FOLLOW_PAYOUTS", {"key": key})


def _found(name: object) -> Destination:
    store, name = _dependencies.store, _name(name)
    row = store.read(keys.destination(name))
    if row is None:
        raise DestinationRefused("destination: there is none with this id")
    return Destination.from_rows(row, store.read(keys.destination_confirmed(name)))


def _name(name: object) -> str:
    if not (isinstance(name, str) and DESTINATION.fullmatch(name)):
        raise InvalidRequest(f"id: must be a string that matches ^{DESTINATION.pattern}$")
    return name


def _where_on(take: Take) -> Take:
    """Make an order raise PayoutRefused if the room is off, because TakeOrder has the route even then."""

    @wraps(take)
    def taken(body: object, caller: Caller) -> dict[str, Any]:
        _payouts.config()
        return take(body, caller)

    return taken


_TAKES: dict[str, Take] = {
    "add-payee": add_payee,
    "confirm-payee": confirm_payee,
    "freeze-payee": freeze_payee,
    "propose-payout": propose_payout,
    "approve-payout": approve_payout,
    "ask-payout": ask_payout,
}
ORDERS = {route: (_where_on(take), None) for route, take in _TAKES.items()}
