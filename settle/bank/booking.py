"""Deposits for bank lines without an order. One person proposes, another books."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from settle.bank.comparison import ever, shown_line, tomorrow
from settle.exit_codes import CommandFailed, Exit
from settle.order import give
from settle.stack import Stack
from settlement.bank import booking, record
from settlement.bank.booking import LINES_MAX, Proposed
from settlement.bank.matching import DAYS, Kind, Recorded
from settlement.bank.recorded import BankRecord
from settlement.bank.spool import Spool
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.model.request import ACCOUNT
from settlement.core.model.stored import MalformedRow

GROUP = "account"


def pattern_of(stack: Stack, text: str | None) -> re.Pattern[str]:
    """Return the pattern that finds accounts, by default the stage's.

    Raises CommandFailed without an account group.
    """
    if text is None:
        text = stack.outputs.get("StatementAccounts")
    if text is None:
        raise CommandFailed(Exit.USAGE, "accounts: is needed, as the stage has no statement_accounts")
    try:
        found = re.compile(text)
    except re.error as wrong:
        raise CommandFailed(Exit.USAGE, f"accounts: must be a pattern: {wrong}") from wrong
    if GROUP not in found.groupindex:
        raise CommandFailed(Exit.USAGE, f"accounts: must have a group (?P<{GROUP}>…)")
    return found


def propose(stack: Stack, since: str, accounts: re.Pattern[str], reason: str) -> dict[str, Any]:
    """Propose a deposit for each bank line without an order. Return the proposals, and unreadable rows.

    The line's references must name exactly one account. A proposal's key derives from its lines, so a repeat
    finds the same proposal.
    """
    unreadable = list[str]()
    left = iter(sorted(_named(stack, since, accounts, unreadable).items()))
    found = list[dict[str, Any]]()
    while some := dict(islice(left, LINES_MAX)):
        digest = Proposed("", some, reason, "").digest
        order = {"key": booking.key_of(digest), "lines": some, "reason": reason}
        found.append(show(stack, give(stack, booking.PROPOSE, order)["key"]))
    return {"proposals": found, "unreadable": unreadable}


def show(stack: Stack, key: str) -> dict[str, Any]:
    """Return a proposal with its lines, for the second person. Raises CommandFailed."""
    row = stack.store.read(keys.bank_proposed(key))
    if row is None:
        raise CommandFailed(Exit.NOT_FOUND, f"key: nobody has proposed {key}")
    try:
        one = booking.proposed_of(row)
        lines = [_line(stack, identity, account) for identity, account in sorted(one.lines.items())]
    except MalformedRow as malformed:
        raise CommandFailed(Exit.FAILED, f"key: {malformed}") from malformed
    return {"key": key, "digest": one.digest, "by": one.by, "reason": one.reason, "lines": lines}


def book(stack: Stack, key: str, digest: str) -> dict[str, Any]:
    return give(stack, booking.BOOK, {"key": key, "digest": digest})


def _named(stack: Stack, since: str, accounts: re.Pattern[str], unreadable: list[str]) -> dict[str, str]:
    own = BankRecord(stack.store, stack.config, unreadable.append)
    now = datetime.now(UTC)
    with Spool() as spool:
        own.add_orders(spool, ever(now))
        alone = dict[str, Recorded]()
        for one, match in own.lines((since, tomorrow(now))):
            spool.add_recorded(one)
            if match:
                spool.add_match(match.line, match.order)
            elif one.line.side is Side.IN:
                alone[one.line.identity] = one
        spool.pair(DAYS)
        left = [
            one.line.identity for one in spool.lines_left(DAYS) if one.line and one.kind is Kind.ONLY_BANK
        ]
    named = {one: {*_accounts(alone[one], accounts)} for one in left if one in alone}
    return {one: account for one, found in named.items() if len(found) == 1 for account in found}


def _accounts(one: Recorded, accounts: re.Pattern[str]) -> Iterator[str]:
    for reference in one.references:
        for found in accounts.finditer(reference):
            if ACCOUNT.fullmatch(found[GROUP] or ""):
                yield found[GROUP]


def _line(stack: Stack, identity: str, account: str) -> dict[str, Any]:
    row = stack.store.read(keys.bank_line(identity))
    if row is None or row.get("currency") not in stack.config.currencies:
        raise MalformedRow(f"{identity}: is no line on record in a currency of the stage")
    return shown_line(record.line_of(row).line, stack.config) | {"customer": account}
