"""Compares the bank's files with the stage's orders. It only reads."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from settle.bank import files, remedy
from settle.bank.table import Columns
from settle.exit_codes import CommandFailed, Exit
from settle.proof.books import Counting, uncounted
from settle.stack import Stack
from settlement.bank.balances import Days
from settlement.bank.comparison import Verdict, judge
from settlement.bank.matching import TODO, BankLine, Finding, Order
from settlement.bank.recorded import BankRecord
from settlement.bank.spool import Spool
from settlement.bank.statement import Line, Statement
from settlement.core.model import money
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from settlement.payouts import booked as payouts
from settlement.proof.watch import Watch, watched

_FIRST_DAY = "2000-01-01"
ORDERS, LINES = "reading orders", "reading the bank's lines"


@dataclass(frozen=True)
class Wanted:
    """Options of a comparison.

    `before`: the money at the bank before the books began, by currency, in minor units.
    """

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
    mapping = None if columns is None else files.columns(columns)
    if currency is not None and currency not in stack.config.currencies:
        known = ", ".join(sorted(stack.config.currencies))
        raise CommandFailed(Exit.USAGE, f"currency: must be one of {known}")
    return Wanted(days, mapping, _amounts(stack, before or ()), currency, with_pairs)


def compare(
    stack: Stack, paths: Sequence[str], wanted: Wanted, counting: Counting = uncounted
) -> dict[str, Any]:
    """Return the differences between statements and all deposits, withdrawals and payouts.

    Amounts are texts. Raises CommandFailed for a file that cannot be read whole.
    """
    digests = {files.digest(path): path for path in reversed(paths)}
    given = list[dict[str, Any]]()

    def added(spool: Spool, watch: Watch, findings: list[Finding]) -> Iterator[Statement]:
        for path in dict.fromkeys(digests[files.digest(path)] for path in paths):
            lines = files.read(path, stack.config.currencies, wanted.columns)
            own = list(_added(spool, path, watched(lines, LINES, watch), findings))
            yield from own
            told = {"lines": sum(one.lines for one in own), "statements": len(own)}
            given.append({"file": path, "sha256": _key(digests, path), **told})

    return _compared(stack, wanted, counting, added, list[str]()) | {"files": given}


def on_record(stack: Stack, since: str, wanted: Wanted, counting: Counting = uncounted) -> dict[str, Any]:
    """Compare the lines recorded since a day with all deposits and withdrawals.

    A statement that ends on day `since` or later counts whole, because its balances cover all its lines.
    """
    now, unreadable = datetime.now(UTC), list[str]()
    record = BankRecord(stack.store, stack.config, unreadable.append)

    def added(spool: Spool, watch: Watch, findings: list[Finding]) -> Iterator[Statement]:
        files = list(record.files(since, timestamp(now)))
        statements = [one for file in files for one in record.statements(file) if one.last >= since]
        first = min([since, *(one.first for one in statements)])
        record.add_lines(spool, (first, tomorrow(now)), partial(watched, phase=LINES, watch=watch))
        yield from statements

    return _compared(stack, wanted, counting, added, unreadable)


def _compared(
    stack: Stack,
    wanted: Wanted,
    counting: Counting,
    added: Callable[[Spool, Watch, list[Finding]], Iterator[Statement]],
    unreadable: list[str],
) -> dict[str, Any]:
    now, findings = datetime.now(UTC), list[Finding]()
    with _on_disk(), Spool() as spool, counting({}) as watch:
        record = BankRecord(stack.store, stack.config, unreadable.append)
        record.add_orders(spool, ever(now), partial(watched, phase=ORDERS, watch=watch))
        for moved, line in payouts.orders(stack.store, stack.config, unreadable.append):
            spool.add_order(moved)
            if line:
                spool.add_match(line, moved.key)
        statements = list(added(spool, watch, findings))
        verdict = judge(spool, statements, wanted.days, wanted.before, findings, wanted.currency)
        pairs = (
            [_pair(line, order, stack.config) for line, order in spool.pairs()] if wanted.with_pairs else None
        )
    return {
        "read_at": timestamp(now),
        "statements": [shown_statement(one, stack.config) for one in statements],
        **_told(verdict, stack),
        **({} if pairs is None else {"pairs": pairs}),
        "unreadable": unreadable,
        "agrees": verdict.agrees and not unreadable,
    }


def ever(now: datetime) -> Days:
    return (_FIRST_DAY, tomorrow(now))


def tomorrow(now: datetime) -> str:
    """Return the last day to search: the day after `now`, as a function's clock may be ahead."""
    return (now.date() + timedelta(days=1)).isoformat()


@contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as failed:
        raise CommandFailed(Exit.FAILED, f"statement: the comparison's space in TMPDIR: {failed}") from failed


def _amounts(stack: Stack, given: Sequence[str]) -> dict[str, int]:
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
        "open": [_order(one, stack.config) for one in verdict.open],
        "unsummed": verdict.unsummed,
        "currencies": {
            currency: {
                name: value if name == "day" else _shown(value, currency, stack.config)
                for name, value in [*sums._asdict().items(), ("left", sums.left)]
            }
            for currency, sums in verdict.sums.items()
        },
    }


def _finding(one: Finding, stack: Stack) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "currency": one.currency,
        "amount": _shown(one.amount, one.currency, stack.config),
        "line": None if one.line is None else shown_line(one.line, stack.config),
        "order": None if one.order is None else _order(one.order, stack.config),
        "text": one.text,
        "do": TODO[one.kind],
        "commands": remedy.commands(stack, one),
    }


def shown_line(line: BankLine, config: StageConfig) -> dict[str, Any]:
    return line._asdict() | {"amount": _shown(line.amount, line.currency, config)}


def _order(order: Order, config: StageConfig) -> dict[str, Any]:
    return order._asdict() | {"amount": _shown(order.amount, order.currency, config)}


def _pair(line: BankLine, order: Order, config: StageConfig) -> dict[str, Any]:
    return {"line": shown_line(line, config), "order": _order(order, config)}


def shown_statement(one: Statement, config: StageConfig) -> dict[str, Any]:
    known = ("account", "currency", "name", "number", "first", "last", "lines")
    balances = {
        name: None if value is None else _shown(value, one.currency, config)
        for name, value in (("opening", one.opening), ("closing", one.closing))
    }
    return {name: getattr(one, name) for name in known} | balances


def _shown(amount: int, currency: str, config: StageConfig) -> str:
    return money.render(amount, config.currencies[currency])


def _key(digests: Mapping[str, str], path: str) -> str:
    return next(digest for digest, own in digests.items() if own == path)
