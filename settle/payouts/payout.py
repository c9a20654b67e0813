"""A payout, read from the table."""

from collections.abc import Iterator, Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.payouts import case
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.stored import MalformedRow, exponent_of, sound
from settlement.core.store import batch
from settlement.payouts import told
from settlement.payouts.payout import UNDER_WAY, State, Status

_PAID = (Status.PAID, Status.CONFIRMED)
_IBAN_SHOWN = 4


def masked(iban: str) -> str:
    return f"…{iban[-_IBAN_SHOWN:]}"


def state_of(stack: Stack, key: str) -> State:
    """Raises CommandFailed for an unknown key, MalformedRow."""
    row = stack.store.read(keys.payout(key))
    if row is None:
        raise CommandFailed(Exit.NOT_FOUND, f"key: {key} has no payout in {stack.name}")
    return State.from_row(row)


def is_told(answer: Mapping[str, Any], key: str) -> bool:
    """Return whether an answer of the stack describes this payout."""
    return answer.get("key") == key and answer.get("status") in list(Status)


def code_of(answer: Mapping[str, Any]) -> Exit:
    """The exit code of a described payout: LIMBO for any open case."""
    if answer.get("case"):
        return Exit.LIMBO
    status = Status(answer["status"])
    if status in _PAID:
        return Exit.FINE
    return Exit.IN_FLIGHT if status in UNDER_WAY else Exit.REFUSED


def shown(stack: Stack, state: State) -> dict[str, Any]:
    """What persons are shown of a payout, without its case."""
    found = told.of_state(state, stack.config) | ({"decided": dict(state.decided)} if state.decided else {})
    listed = {"next_look": state.listed_at} if state.listed_at and state.trouble is None else {}
    return {
        **{name: value for name, value in found.items() if name != "case"},
        "iban": masked(state.iban),
        "holder": state.holder,
        **listed,
    }


def describe(stack: Stack, key: str) -> dict[str, Any]:
    """Return a payout with its entries and its open case. Raises CommandFailed, MalformedRow."""
    state = state_of(stack, key)
    entries, unreadable = _entries(stack, state)
    opened = {"case": case.describe(stack, state)} if state.trouble is not None else {}
    if opened:
        unreadable += opened["case"].pop("unreadable")
    return {**shown(stack, state), **opened, "entries": entries, "unreadable": unreadable}


def _entries(stack: Stack, state: State) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries whose time the row has, oldest first, and unreadable ones."""
    unreadable, lines = list[str](), list[dict[str, Any]]()
    places = list(_places(state))
    for row in batch.read(stack.store, places, lambda _, reason: unreadable.append(reason)):
        try:
            lines.append(_line(stack, state, sound(row)))
        except MalformedRow as malformed:
            unreadable.append(str(malformed))
    return sorted(lines, key=lambda line: (line["posted_at"], line["step"])), unreadable


def _places(state: State) -> Iterator[Row]:
    """Keys of the entries that may exist: a return goes to the customer, or to suspense."""
    payout = state.payout
    customer, suspense = payout.account, accounts.suspense(payout.currency)
    times = (
        ("reserve", state.reserved_at, (customer,)),
        ("pay", state.paid_at, (accounts.external(payout.currency),)),
        ("refuse", state.ended_at, (customer,)),
        ("return", state.ended_at, (customer, suspense)),
        ("give-back", state.given_back_at, (state.given_back_to or customer,)),
    )
    for step, posted_at, holders in times:
        if posted_at is not None:
            yield from (keys.entry(one, posted_at, state.key, f"payout-{step}") for one in holders)


def _line(stack: Stack, state: State, entry: Row) -> dict[str, Any]:
    exponent = exponent_of(f"PAYOUT#{state.key}", state.payout.currency, stack.config)
    return {
        "posted_at": entry["posted_at"],
        "step": entry["step"],
        "moved": f"{entry['debit']} → {entry['credit']}",
        "amount": money.render(entry["amount"], exponent),
    }
