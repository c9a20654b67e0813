"""The bank's files beside the stage's orders. Reads only."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from settle.bank import booked, files, remedy
from settle.bank.table import Columns
from settle.exit_codes import CommandFailed, Exit
from settle.proof.books import Counting, uncounted
from settle.stack import Stack
from settlement.bank.comparison import Verdict, judge
from settlement.bank.matching import TODO, BankLine, Finding, Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Line, Statement
from settlement.core.model import money
from settlement.core.model.timestamps import timestamp
from settlement.proof.watch import watched

ORDERS, LINES = "reading orders", "reading the bank's lines"


@dataclass(frozen=True)
class Wanted:
    """How to compare. `before`: money on the accounts from before the books began, in minor units."""

    days: int
    columns: Columns | None = None
    before: Mapping[str, int] = field(default_factory=dict)
    currency: str | None = None
    with_pairs: bool = False


def wanted(
    stack: Stack,
    days: int,
    columns: str | None,
    before: Sequence[str] | None,
    currency: str | None,
    *,
    with_pairs: bool = False,
) -> Wanted:
    """Read the options of a command. Raises CommandFailed."""
    mapping = None if columns is None else files.columns(columns)
    if currency is not None and currency not in stack.config.currencies:
        known = ", ".join(sorted(stack.config.currencies))
        raise CommandFailed(Exit.USAGE, f"currency: must be one of {known}")
    return Wanted(days, mapping, _amounts(stack, before or ()), currency, with_pairs)


def compare(
    stack: Stack, paths: Sequence[str], wanted: Wanted, counting: Counting = uncounted
) -> dict[str, Any]:
    """Compare statements with all deposits and withdrawals, and return what differs.

    Amounts are texts in the answer. Raises CommandFailed for a file that cannot be read whole.
    """
    digests = {files.digest(path): path for path in reversed(paths)}
    unreadable = list[str]()
    with _on_disk(), Spool() as spool, counting({}) as watch:
        orders = booked.orders(stack.store, stack.config, datetime.now(UTC), unreadable.append)
        for order in watched(orders, ORDERS, watch):
            spool.add_order(order)
        statements, findings, given = list[Statement](), list[Finding](), list[dict[str, Any]]()
        for path in dict.fromkeys(digests[files.digest(path)] for path in paths):
            lines = files.read(path, stack.config.currencies, wanted.columns)
            own = list(_added(spool, path, watched(lines, LINES, watch), findings))
            statements += own
            told = {"lines": sum(one.lines for one in own), "statements": len(own)}
            given.append({"file": path, "sha256": _key(digests, path), **told})
        verdict = judge(spool, statements, wanted.days, wanted.before, findings, wanted.currency)
        pairs = [_pair(line, order, stack) for line, order in spool.pairs()] if wanted.with_pairs else None
    return {
        "read_at": timestamp(datetime.now(UTC)),
        "files": given,
        "statements": [_statement(one, stack) for one in statements],
        **_told(verdict, stack),
        **({} if pairs is None else {"pairs": pairs}),
        "unreadable": unreadable,
        "agrees": verdict.agrees and not unreadable,
    }


@contextmanager
def _on_disk() -> Iterator[None]:
    """Raise CommandFailed if the disk, at TMPDIR, has no room for the comparison."""
    try:
        yield
    except sqlite3.Error as failed:
        raise CommandFailed(Exit.FAILED, f"statement: the comparison's space in TMPDIR: {failed}") from failed


def _amounts(stack: Stack, given: Sequence[str]) -> dict[str, int]:
    """Read amounts such as EUR=1000.00. Raises CommandFailed."""
    found = dict[str, int]()
    for one in given:
        currency, _, amount = one.partition("=")
        exponent = stack.config.currencies.get(currency)
        if exponent is None:
            known = ", ".join(sorted(stack.config.currencies))
            raise CommandFailed(Exit.USAGE, f"before: must be CURRENCY=AMOUNT, with one of {known}")
        try:
            sign, digits = (-1, amount[1:]) if amount.startswith("-") else (1, amount)
            found[currency] = sign * money.parse(digits, exponent)
        except ValueError as expected:
            raise CommandFailed(Exit.USAGE, f"before: {currency}: {expected}") from expected
    return found


def _added(
    spool: Spool, path: str, lines: Iterator[Line | Statement], findings: list[Finding]
) -> Iterator[Statement]:
    for one in lines:
        if isinstance(one, Statement):
            spool.add_statement(one)
            yield one
        elif fault := spool.add_line(one, path):
            findings.append(fault)


def _told(verdict: Verdict, stack: Stack) -> dict[str, Any]:
    return {
        "matched": verdict.pairs,
        "findings": [_finding(one, stack) for one in verdict.findings],
        "open": [_order(one, stack) for one in verdict.open],
        "unsummed": verdict.unsummed,
        "currencies": {
            currency: {
                name: value if name == "day" else _shown(value, currency, stack)
                for name, value in [*sums._asdict().items(), ("left", sums.left)]
            }
            for currency, sums in verdict.sums.items()
        },
    }


def _finding(one: Finding, stack: Stack) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "currency": one.currency,
        "amount": _shown(one.amount, one.currency, stack),
        "line": None if one.line is None else _line(one.line, stack),
        "order": None if one.order is None else _order(one.order, stack),
        "text": one.text,
        "do": TODO[one.kind],
        "commands": remedy.commands(stack, one),
    }


def _line(line: BankLine, stack: Stack) -> dict[str, Any]:
    return line._asdict() | {"amount": _shown(line.amount, line.currency, stack)}


def _order(order: Order, stack: Stack) -> dict[str, Any]:
    return order._asdict() | {"amount": _shown(order.amount, order.currency, stack)}


def _pair(line: BankLine, order: Order, stack: Stack) -> dict[str, Any]:
    return {"line": _line(line, stack), "order": _order(order, stack)}


def _statement(one: Statement, stack: Stack) -> dict[str, Any]:
    known = ("account", "currency", "name", "number", "first", "last", "lines")
    balances = {
        name: None if value is None else _shown(value, one.currency, stack)
        for name, value in (("opening", one.opening), ("closing", one.closing))
    }
    return {name: getattr(one, name) for name in known} | balances


def _shown(amount: int, currency: str, stack: Stack) -> str:
    return money.render(amount, stack.config.currencies[currency])


def _key(digests: Mapping[str, str], path: str) -> str:
    return next(digest for digest, own in digests.items() if own == path)
