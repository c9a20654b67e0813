"""Compares the stage's orders with two bank statements: one right, one with six faults."""

import secrets
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from settle.accounts.accounts import give, open_account
from settle.bank import comparison
from settle.bank.comparison import Wanted
from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.bank import booked
from settlement.bank.matching import Order
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.model import money
from settlement.payouts import booked as payouts

CURRENCY = "EUR"
FAULTS = 6

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>
<GrpHdr><MsgId>DEMO</MsgId><CreDtTm>{last}T23:00:00Z</CreDtTm></GrpHdr>
<Stmt><Id>DEMO</Id><CreDtTm>{last}T23:00:00Z</CreDtTm>
<FrToDt><FrDtTm>{first}T00:00:00Z</FrDtTm><ToDtTm>{last}T23:59:59Z</ToDtTm></FrToDt>
<Acct><Id><IBAN>DE89370400440532013000</IBAN></Id><Ccy>EUR</Ccy></Acct>
"""
_BALANCE = (
    '<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">{amount}</Amt>'
    "<CdtDbtInd>{side}</CdtDbtInd><Dt><Dt>{day}</Dt></Dt></Bal>\n"
)
_ENTRY = (
    '<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{side}</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>'
    "<BookgDt><Dt>{day}</Dt></BookgDt><AcctSvcrRef>{number}</AcctSvcrRef>"
    "<NtryDtls><TxDtls><RmtInf><Ustrd>{reference}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>\n"
)
_FOOT = "</Stmt></BkToCstmrStmt></Document>\n"
_CODES = {Side.IN: "CRDT", Side.OUT: "DBIT"}


def walk(stack: Stack, report: Callable[[str], None]) -> dict[str, Any]:
    run = secrets.token_hex(3)
    report("statement: deposits that the bank has, too")
    account = f"iris.{run}"
    open_account(stack, account, CURRENCY, "0")
    for number, reference in enumerate(("missing", "twice", "amount", "returned", "again", "again"), 1):
        moved = {"amount": f"{number * 10}.00" if reference != "again" else "50.00", "currency": CURRENCY}
        given = {"key": f"demo-{run}-{number:04}", "account": account, "reason": "demo"}
        give(stack, OrderKind.DEPOSIT, reference=f"{reference}-{run}", **given, **moved)
    lines, opening = _orders(stack, report)
    report("statement: a right one, and one with six faults")
    return {
        "right": _compared(stack, "right.xml", lines, opening),
        "wrong": _compared(stack, "wrong.xml", list(_spoilt(lines, run)), opening),
    }


def _orders(stack: Stack, report: Callable[[str], None]) -> tuple[list[Order], int]:
    now, store = datetime.now(UTC), stack.store
    given = booked.orders(store, stack.config, report, *comparison.ever(now))
    found: list[tuple[Order, object]] = [(order, store.read(keys.banked(order.key))) for order in given]
    found += payouts.orders(store, stack.config, report)
    own = [(order, line) for order, line in found if order.currency == CURRENCY]
    lines = sorted((order for order, line in own if not line), key=lambda order: (order.day, order.key))
    return lines, sum(order.signed for order, line in own if line)


def _spoilt(lines: Sequence[Order], run: str) -> Sequence[Order]:
    """Return the lines with six faults, such as one line for the two equal deposits `again`."""
    found = [one for one in lines if one.reference != f"missing-{run}" and one.key != f"demo-{run}-0006"]
    own = {one.reference.removesuffix(f"-{run}"): one for one in lines if one.reference.endswith(f"-{run}")}
    found[found.index(own["amount"])] = own["amount"]._replace(amount=own["amount"].amount + 1)
    unknown = own["twice"]._replace(reference=f"nobody-{run}", amount=100)
    return [*found, own["twice"], own["returned"]._replace(side=Side.OUT), unknown]


def _compared(stack: Stack, name: str, lines: Sequence[Order], opening: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(_statement(stack, lines, opening), "utf-8")
        return comparison.compare(stack, [str(file)], Wanted(days=0, currency=CURRENCY))


def _statement(stack: Stack, lines: Sequence[Order], opening: int) -> str:
    exponent, days = stack.config.currencies[CURRENCY], sorted(line.day for line in lines)
    closing = opening + sum(line.signed for line in lines)
    entries = (
        _ENTRY.format(
            amount=money.render(line.amount, exponent),
            side=_CODES[line.side],
            day=line.day,
            number=number,
            reference=escape(line.reference),
        )
        for number, line in enumerate(lines, 1)
    )
    return "".join(
        (
            _HEAD.format(first=days[0], last=days[-1]),
            _balance("OPBD", opening, exponent, days[0]),
            _balance("CLBD", closing, exponent, days[-1]),
            *entries,
            _FOOT,
        )
    )


def _balance(code: str, amount: int, exponent: int, day: str) -> str:
    side = _CODES[Side.IN if amount >= 0 else Side.OUT]
    return _BALANCE.format(code=code, amount=money.render(abs(amount), exponent), side=side, day=day)
