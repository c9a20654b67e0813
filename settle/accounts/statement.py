from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import accumulate, islice
from typing import Any

from settle.accounts import references
from settle.exit_codes import CommandFailed, Exit
from settle.retention import archive as archived
from settle.settlements import aside
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.proof import Retention, pages, rows
from settlement.reading import statement_line
from settlement.reading.statement_line import Line

FIELDS = ("posted_at", "key", "step", "change", "sum", "currency", "reference")

NUMBERS = ("change", "sum")


def show(
    stack: Stack, account: str, archive: str | None = None, *, with_references: bool = True
) -> dict[str, Any]:
    """Return an account's balance and statement, oldest entry first.

    - An internal account (`fees:EUR`) is the sum of its entries.
    - `sum` is the running total by entry time. Clocks differ, so the account may never have had this balance.
    - `unswept` is received money that a merchant cannot spend yet.
    - `unreadable` has the unreadable rows. No sum includes them.

    If entries expire, a statement without `archive` starts at `complete_since`, with `brought_forward`. An
    internal account's balance is then None. `with_references` reads each payment's row, which costs more than
    the statement.
    """
    now = datetime.now(UTC)
    kept_from = Retention.at(now, stack.config.shortest_retention_days).kept_from
    is_complete = not kept_from or archive is not None
    state = stack.store.account(account) if accounts.is_customer(account) else None
    found = entries(stack, account)
    if archive is not None:
        found = _merged(found, archived.expired(stack, archive, account, now))
    if state is None and (accounts.is_customer(account) or not found):
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {account} in {stack.name}")
    currency = state.currency if state else account.partition(":")[2]
    exponent = exponent_of("ACCOUNT", currency, stack.config)
    told, unreadable = _read(found, currency)
    folded = None
    if accounts.is_merchant(account):
        folded, of_sweeps = _folded(stack, account, kept_from)
        unreadable += of_sweeps
    released = sum(one.change for one in told if one.step == Step.RELEASE and one.posted_at >= kept_from)
    unswept = None if folded is None else released - folded
    changes = [one.change for one in told]
    is_whole = is_complete and not unreadable
    balance = state.available if state else sum(changes) if is_whole else None
    before = 0 if is_complete else (balance or 0) + (unswept or 0) - sum(changes)
    lines: list[dict[str, Any]] = [
        {
            "posted_at": one.posted_at,
            "key": one.key,
            "step": one.step,
            "change": money.render(one.change, exponent),
            "sum": money.render(so_far, exponent),
        }
        for one, so_far in zip(told, islice(accumulate(changes, initial=before), 1, None), strict=True)
    ]
    if with_references:
        for line, reference in zip(lines, references.read(stack, lines), strict=True):
            line["reference"] = reference
    waiting = None if unswept is None or unreadable else money.render(unswept, exponent)
    return {
        "account": account,
        "currency": currency,
        "available": None if balance is None else money.render(balance, exponent),
        **({} if unswept is None else {"unswept": waiting}),
        "limbo_cases": state.limbo_cases if state else 0,
        **({} if is_complete else {"complete_since": kept_from}),
        **({"brought_forward": money.render(before, exponent)} if state and not is_complete else {}),
        "entries": lines,
        **({"unreadable": unreadable} if unreadable else {}),
    }


def _folded(stack: Stack, merchant: str, since: str) -> tuple[int, list[aside.Line]]:
    """Return the total swept from minute `since` (minor units), and the unreadable rows."""
    partitions = (keys.swept(partition, "")["pk"] for partition in keys.entry_partitions(merchant))
    total, unreadable = 0, list[aside.Line]()
    for row in pages.query(stack.store, *partitions):
        if row["sk"] < since[: keys.MINUTE]:
            continue
        try:
            total -= sum(one.change for one in rows.swept(row))
        except MalformedRow as malformed:
            unreadable.append({aside.UNREADABLE: f"{row['pk']} / {row['sk']}: {malformed}"})
    return total, unreadable


def _read(found: list[Row], currency: str) -> tuple[list[Line], list[aside.Line]]:
    told, unreadable = list[Line](), list[aside.Line]()
    for entry in found:
        try:
            told.append(statement_line.read(entry, currency))
        except MalformedRow as malformed:
            unreadable.append({aside.UNREADABLE: f"{entry['pk']} / {entry['sk']}: {malformed}"})
    return told, unreadable


def _merged(found: list[Row], expired: Mapping[tuple[str, str], Row]) -> list[Row]:
    every = {**expired, **{(entry["pk"], entry["sk"]): entry for entry in found}}
    return sorted(every.values(), key=lambda entry: str(entry["sk"]))


def entries(stack: Stack, account: str) -> list[Row]:
    return sorted(
        pages.query(stack.store, *keys.entry_partitions(account)), key=lambda entry: str(entry["sk"])
    )
