from typing import Any

from handlers import _dependencies, rooms
from settlement.accounts import administration
from settlement.accounts.order import AccountOrder, OrderKind, parse_account_order
from settlement.core.model.errors import AccountNotFound
from settlement.core.model.stored import sound
from settlement.http.caller import Caller


def carry_out(body: object, caller: Caller) -> dict[str, Any]:
    """Carry out an order on an account. Return the order and the account's state.

    Raises InvalidRequest, IdempotencyConflict and the account's refusals. A refused order changes nothing,
    but a close sweeps a merchant before it can be refused.
    """
    store, config = _dependencies.store, _dependencies.config
    order, now = parse_account_order(body, caller, config), _dependencies.now()
    if order.order is OrderKind.CLOSE:
        rooms.before_close(order.account, now)
    recorded = store.record(administration.carry_out(order, now, config))
    state = store.account(order.account)
    if state is None:  # no function deletes an account
        raise AccountNotFound("account")
    order_on_record = AccountOrder.from_row(recorded).to_wire(config)
    return {
        "order": order_on_record | {"posted_at": sound(recorded)["posted_at"]},
        "account": state.to_wire(config),
    }


ORDERS = dict.fromkeys(map(str, OrderKind), (carry_out, "order"))
"""Orders by route. Each body repeats its route as `order`."""
