"""A payout, read from the table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.payouts import case
from settle.payouts.case import OnRecord
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.stored import MalformedRow, exponent_of, sound
from settlement.core.store import batch
from settlement.payouts import told
from settlement.payouts.payout import UNDER_WAY, State, Status

_PAID = (Status.PAID, Status.CONFIRMED)
_APART = (
    *("key", "status", "account", "amount", "currency", "next"),
    *("case", "decided", "entries", "unreadable"),
)
"""Fields that a page does not list among the plain facts."""

_IBAN_SHOWN = 4


def masked(iban: str) -> str:
    return f"…{iban[-_IBAN_SHOWN:]}"


def state_of(stack: Stack, key: str) -> State:
    """Read a payout. Raises CommandFailed for an unknown key, MalformedRow."""
    row = stack.store.read(keys.payout(key))
    if row is None:
        raise unknown(stack, key)
    return State.from_row(row)


def unknown(stack: Stack, key: str) -> CommandFailed:
    return CommandFailed(Exit.NOT_FOUND, f"key: {key} has no payout in {stack.name}")


def is_told(answer: Mapping[str, Any], key: str) -> bool:
    """Return whether an answer of the stack describes this payout."""
    return answer.get("key") == key and answer.get("status") in list(Status)


def code_of(answer: Mapping[str, Any]) -> Exit:
    """Return a described payout's exit code: LIMBO if it has an open case."""
    if answer.get("case"):
        return Exit.LIMBO
    status = Status(answer["status"])
    if status in _PAID:
        return Exit.FINE
    return Exit.IN_FLIGHT if status in UNDER_WAY else Exit.REFUSED


def shown(stack: Stack, state: State) -> dict[str, Any]:
    """Return a payout's fields for display, without its case."""
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
    rows, unreadable = entries(stack, state)
    found = case.on_record(stack, [state])[key] if state.trouble is not None else OnRecord()
    return of_rows(stack, state, rows, found, unreadable)


def of_rows(
    stack: Stack, state: State, rows: Sequence[Row], found: OnRecord, unreadable: Sequence[str]
) -> dict[str, Any]:
    """Describe a payout from its entries and the decisions about its open case. Raises MalformedRow."""
    lines, malformed = _lines(stack, state, rows)
    opened = {"case": case.describe(stack, state, found)} if state.trouble is not None else {}
    unreadable = [*unreadable, *malformed, *found.unreadable]
    return {**shown(stack, state), **opened, "entries": lines, "unreadable": unreadable}


def entries(stack: Stack, state: State) -> tuple[list[Row], list[str]]:
    """Return the entries whose times are in the payout's row, and the names of unreadable ones."""
    unreadable = list[str]()
    rows = batch.read(stack.store, list(_places(state)), lambda _, reason: unreadable.append(reason))
    return rows, unreadable


def _lines(stack: Stack, state: State, rows: Sequence[Row]) -> tuple[list[dict[str, Any]], list[str]]:
    lines, malformed = list[dict[str, Any]](), list[str]()
    for row in rows:
        try:
            lines.append(_line(stack, state, sound(row)))
        except MalformedRow as error:
            malformed.append(str(error))
    return sorted(lines, key=lambda line: (line["posted_at"], line["step"])), malformed


def page_of(described: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a described payout's template and values."""
    facts = {name: value for name, value in described.items() if name not in _APART}
    return "payout.html", {"payout": described, "facts": facts}


def _places(state: State) -> Iterator[Row]:
    """Yield the keys of possible entries: a return goes to the customer or to suspense."""
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
