"""Reads the bank's recorded files, their lines, and each line's order."""

from datetime import datetime
from typing import Any

from settle.bank.comparison import shown_line, shown_statement
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.bank.record import File, Match
from settlement.bank.recorded import BankRecord
from settlement.core.ledger import keys
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp


def files(stack: Stack, since: datetime, until: datetime) -> dict[str, Any]:
    own = _record(stack, unreadable := list[str]())
    found = [_file(file, own) for file in own.files(timestamp(since), timestamp(until))]
    return {"files": found, "unreadable": unreadable}


def file(stack: Stack, digest: str) -> dict[str, Any]:
    """Return a file's statements, and its lines with their orders.

    Raises CommandFailed for an unknown file.
    """
    own = _record(stack, unreadable := list[str]())
    row = stack.store.read(keys.bank_file(digest))
    if row is None:
        raise CommandFailed(Exit.NOT_FOUND, f"digest: {digest} is of no file that was read whole")
    try:
        told = record.file_of(row)
    except MalformedRow as malformed:
        raise CommandFailed(Exit.FAILED, f"digest: {malformed}") from malformed
    found = _file(told, own)
    days = [one[name] for one in found["statements"] for name in ("first", "last")]
    lines = own.lines((min(days), max(days))) if days else ()
    told_lines = [_line(*one, stack) for one in lines if one[0].line.file == digest]
    return found | {"lines": told_lines, "unreadable": unreadable}


def _record(stack: Stack, unreadable: list[str]) -> BankRecord:
    return BankRecord(stack.store, stack.config, unreadable.append)


def _file(file: File, record: BankRecord) -> dict[str, Any]:
    statements = [shown_statement(one, record.config) for one in record.statements(file)]
    return {"sha256": file.digest, "name": file.name, "read_at": file.read_at, "statements": statements}


def _line(recorded: Recorded, match: Match | None, stack: Stack) -> dict[str, Any]:
    told = shown_line(recorded.line, stack.config)
    return told | {"order": match and match.order, "customer": match and match.account}
