"""A person's order on an account: carry it out, once, and keep it on record."""

from typing import Any

from handlers import _dependencies
from settlement.model.account_order import AccountOrder, parse_account_order
from settlement.model.caller import Caller
from settlement.model.errors import AccountNotFound
from settlement.model.stored import sound
from settlement.policy import administration


def carry_out(body: object, caller: Caller) -> dict[str, Any]:
    """Return the order as it is on record, by this call or an earlier one, and the account's state now.

    Raises InvalidRequest, IdempotencyConflict and the account's refusals, none of which leaves a trace in the
    table.
    """
    store, config = _dependencies.store, _dependencies.config
    order = parse_account_order(body, caller, config)
    recorded = store.record(administration.carry_out(order, _dependencies.now(), config))
    state = store.account(order.account)
    if state is None:  # no function deletes an account
        raise AccountNotFound("account")
    order_on_record = AccountOrder.from_row(recorded).to_wire(config)
    return {
        "order": order_on_record | {"posted_at": sound(recorded)["posted_at"]},
        "account": state.to_wire(config),
    }
