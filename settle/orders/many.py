import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.exit_codes import CommandFailed, Exit
from settle.order import PAUSES_SECONDS, DoorShut, give
from settle.orders import proposal
from settle.orders.selection import Item, Verb, Wanted
from settle.settlements import follow
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model.errors import SettlementError
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.store import batch
from settlement.orders import approval

PATIENCE_SECONDS = (*PAUSES_SECONDS, *(8,) * 10)
"""Pauses between tries of one order. They are long, because many orders exhaust the API's limits."""

FAILURES_IN_A_ROW_MAX = 3
"""After this number of unknown outcomes in a row, no more orders are given."""

_POLL_SECONDS = 2.0
_STOPS = (DoorShut, KeyboardInterrupt, BotoCoreError, ClientError, SettlementError, MalformedRow)


@dataclass(frozen=True)
class Result:
    item: Item
    code: Exit
    told: str

    def describe(self) -> dict[str, Any]:
        return {
            "key": self.item.key,
            "case": self.item.case.number,
            "result": self.told,
            "exit_code": self.code.value,
        }


Tell = Callable[[Result], None]
Count = Callable[[str, int], None]


def carry_out(stack: Stack, wanted: Wanted, items: Sequence[Item], tell: Tell, count: Count) -> None:
    """Give the orders, then wait for their ends. A refusal stops no other order.

    Raises CommandFailed, with the progress, if the API takes no orders, if orders fail in a row, or on
    Ctrl-C. Orders given before stay recorded.
    """
    waiting: dict[str, Item] = {}
    given, current = 0, None
    try:
        failures = 0
        for current in items:
            count("ordered", given)
            failures = failures + 1 if _order(stack, wanted, current, waiting, tell) is Exit.FAILED else 0
            given += 1
            if failures == FAILURES_IN_A_ROW_MAX:
                raise DoorShut(Exit.FAILED, f"{failures} orders in a row have failed")
        current = None
        _follow(stack, waiting, tell, count)
    except _STOPS as stop:
        for item in waiting.values():
            tell(Result(item, Exit.IN_FLIGHT, "on record; its end was not waited for"))
        why = "Ctrl-C" if isinstance(stop, KeyboardInterrupt) else str(stop)
        unknown = f"; the order on {current.key} may be on record" if current and given < len(items) else ""
        raise CommandFailed(
            Exit.FAILED,
            f"stopped: {why}: {given} of {len(items)} orders were given{unknown}; see what is left with"
            f" `{wanted.command(stack, wanted.verb)}`",
        ) from stop


def _order(stack: Stack, wanted: Wanted, item: Item, waiting: dict[str, Item], tell: Tell) -> Exit:
    """Give one order. Raises DoorShut. If the order has an end to wait for, its item goes to `waiting`."""
    verb, decision = wanted.verb, wanted.decision
    if verb is Verb.APPROVE and item.proposal:
        amount = approval.amount_of(item.state, item.proposal, stack.config)
        body: dict[str, Any] = {"key": item.key, **proposal.shown(item.proposal, amount)}
    elif verb is Verb.WITHDRAW and item.proposal:
        body = {"key": item.key, "decision": decision, "digest": item.proposal.seen}
    else:
        body = {"key": item.key, "case": item.case.number, "decision": decision, "reason": wanted.reason}
    route = decision.value if verb is Verb.RESOLVE else f"{decision}/{verb}"
    try:
        answer = give(stack, route, body, PATIENCE_SECONDS)
    except DoorShut:
        raise
    except CommandFailed as refused:
        tell(Result(item, refused.code, str(refused)))
        return refused.code
    if "order" in answer:
        waiting[item.key] = item
    else:
        found = answer["proposal"]
        approvals = f"{found['approvals']} of {found['needed'] - 1} approvals"
        tell(Result(item, Exit.FINE, "withdrawn" if verb is Verb.WITHDRAW else f"proposed, {approvals}"))
    return Exit.FINE


def _follow(stack: Stack, waiting: dict[str, Item], tell: Tell, count: Count) -> None:
    """Report each waiting item once no execution works on it. After the time limit, report the others."""
    give_up_at, all_of_them = time.monotonic() + follow.FOLLOW_SECONDS_MAX, len(waiting)
    while waiting:
        for row in batch.read(stack.store, [keys.settlement(key) for key in waiting]):
            state = SettlementState.from_row(row)
            if follow.is_at_rest(state) and state.resolutions >= waiting[state.key].case.number:
                tell(_ended(waiting.pop(state.key), state))
        count("at rest", all_of_them - len(waiting))
        if waiting and time.monotonic() > give_up_at:
            break
        if waiting:
            time.sleep(_POLL_SECONDS)
    while waiting:
        _, item = waiting.popitem()
        told = f"on record, and still in flight; see `{stack.command('status', item.key)}`"
        tell(Result(item, Exit.IN_FLIGHT, told))


def _ended(item: Item, state: SettlementState) -> Result:
    if state.status is Status.LIMBO:
        return Result(item, Exit.LIMBO, f"LIMBO: stuck again, as case {state.case_number}")
    return Result(item, Exit.FINE, state.status.value)
