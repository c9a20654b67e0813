"""Orders on the bank's lines. One person proposes deposits; another person books them."""

from typing import Any

from handlers import _dependencies
from settlement.accounts import administration
from settlement.bank import booking, record
from settlement.bank.booking import Proposed
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model import money
from settlement.core.model.errors import ProposalRefused, RowDamaged, SettlementError, StoreUnavailable
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller


def propose(body: object, caller: Caller) -> dict[str, Any]:
    """Propose deposits for bank lines. Return the proposal. Raises InvalidRequest and IdempotencyConflict."""
    one = booking.parse_proposal(body, caller)
    _dependencies.store.put(booking.propose(one, caller, _dependencies.now()))
    return {"key": one.key, "digest": one.digest, "lines": dict(one.lines), "by": one.by}


def book(body: object, caller: Caller) -> dict[str, Any]:
    """Approve a proposal, and book its lines that have no order. Return the bookings and refusals.

    Any approver can safely repeat the call. Raises InvalidRequest, ProposalRefused, RowDamaged and
    StoreUnavailable.
    """
    key, digest = booking.parse_booking(body)
    store = _dependencies.store
    row = store.read(keys.bank_proposed(key))
    if row is None:
        raise ProposalRefused(f"key: nobody has proposed {key}")
    try:
        one = booking.proposed_of(row)
    except MalformedRow as malformed:
        raise RowDamaged.of(malformed) from malformed
    approved = store.put(booking.approve(one, digest, caller, _dependencies.now()))
    booked, refused = list[dict[str, Any]](), list[dict[str, Any]]()
    for identity in sorted(one.lines):
        try:
            booked.append(_book(one, identity, str(approved["by"])))
        except StoreUnavailable:
            raise
        except (SettlementError, MalformedRow) as refusal:
            told = {"error": type(refusal).__name__, "message": str(refusal)}
            refused.append({"line": identity, "account": one.lines[identity], **told})
    return {"key": key, "digest": digest, "booked": booked, "refused": refused}


def _book(one: Proposed, identity: str, approved_by: str) -> dict[str, Any]:
    store, config, now = _dependencies.store, _dependencies.config, _dependencies.now()
    row = store.read(keys.bank_line(identity))
    if row is None:
        raise ProposalRefused("line: is not on record")
    line = record.line_of(row).line
    if line.side is not Side.IN:
        raise ProposalRefused("line: takes money from the bank, and is no deposit")
    exponent = exponent_of(row["pk"], line.currency, config)
    order = one.deposit(line, approved_by)
    if not (order.reference and order.reference.isprintable()):
        raise ProposalRefused("line: has no reference that can be printed")
    matched = record.Match(
        identity, order.key, order.account, line.currency, line.amount, line.side, timestamp(now)
    )
    try:
        store.transact((*administration.carry_out(order, now, config), *record.match(matched)))
    except AlreadyApplied as earlier:
        if earlier.found["pk"] != keys.order(order.key)["pk"]:
            raise ProposalRefused(f"line: belongs to the order {earlier.found['order']}") from None
    amount = {"amount": money.render(line.amount, exponent), "currency": line.currency}
    return {"line": identity, "order": order.key, "account": order.account, **amount}


ORDERS = {booking.PROPOSE: (propose, None), booking.BOOK: (book, None)}
