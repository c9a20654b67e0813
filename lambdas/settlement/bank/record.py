"""Rows of the bank's files, statements, lines and matches. Each is put once.

    BANK_FILE#<sha256>     FILE, and a STATEMENT for each of its statements
    BANK_LINE#<identity>   LINE, and the MATCH of its order
    BANKED#<order>         the line of an order

A match puts its two rows in one transaction: a line has at most one order, an order at most one line.
"""

from typing import Any, NamedTuple

from settlement.bank.matching import BankLine, Order, Recorded
from settlement.bank.statement import Side, Statement
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Write, put
from settlement.core.model.stored import MalformedRow, subject_of

_TEXTS = ("bank_account", "currency", "booked", "valued", "bank_reference", "reference", "returns")
_BALANCES = ("opening", "closing")


class File(NamedTuple):
    """A file of statements. `digest`: the SHA-256 of the bytes."""

    digest: str
    name: str
    read_at: str


class Match(NamedTuple):
    line: str
    order: str
    account: str
    currency: str
    amount: int
    side: Side
    posted_at: str


def line(recorded: Recorded, file: File) -> Write:
    one = recorded.line
    row = {
        **keys.bank_line(one.identity),
        **keys.bank_lines_index(one.booked),
        "bank_account": one.account,
        **{name: getattr(one, name) for name in _TEXTS[1:]},
        "amount": one.amount,
        "side": one.side.value,
        "statement": one.statement,
        "part": recorded.part,
        "at": one.at,
        "file": file.digest,
        "posted_at": file.read_at,
        **({"references": set(recorded.references)} if recorded.references else {}),
    }
    return put(row, on_failure=AlreadyApplied)


def match(one: Match) -> tuple[Write, Write]:
    return (
        match_line(one, on_failure=AlreadyApplied),
        put({**keys.banked(one.order), **_content(one)}, on_failure=AlreadyApplied),
    )


def match_line(one: Match, on_failure: OnFailure) -> Write:
    """Put only the line's row of a match. For a payout, the payout's row replaces the order's."""
    return put({**keys.bank_match(one.line), **_content(one)}, on_failure=on_failure)


def _content(one: Match) -> Row:
    return one._asdict() | {"side": one.side.value}


def matched(line: BankLine, order: Order, now: str) -> Match:
    return Match(line.identity, order.key, order.account, line.currency, line.amount, line.side, now)


def statement(one: Statement, number: int, file: File) -> Write:
    """Put a statement, without the attributes that the bank leaves out."""
    told = {
        "bank_account": one.account,
        **{name: getattr(one, name) for name in _STATEMENT},
        **{name: value for name in _BALANCES if (value := getattr(one, name)) is not None},
        **({} if one.number is None else {"number": one.number}),
        **({} if one.page is None else {"page": one.page[0], "is_last": int(one.page[1])}),
        "posted_at": file.read_at,
    }
    return put({**keys.bank_statement(file.digest, number), **told}, on_failure=AlreadyApplied)


def file(one: File, statements: int, lines: int) -> Write:
    """Put the file's own row last, because it means that the file is read whole."""
    told = {"name": one.name, "statements": statements, "lines": lines, "posted_at": one.read_at}
    row = {**keys.bank_file(one.digest), **keys.bank_files_index(one.read_at), **told}
    return put(row, on_failure=AlreadyApplied)


def line_of(row: Row) -> Recorded:
    """Raises MalformedRow."""
    kind, identity = keys.subject(row)
    if (kind, row["sk"]) != ("BANK_LINE", "LINE"):
        raise MalformedRow(f"{subject_of(row)}: is no line of a bank")
    account, *told = (_typed(row, name, str) for name in _TEXTS)
    currency, booked, valued, bank_reference, reference, returns = told
    names = row.get("references", set())
    if not (isinstance(names, set) and all(isinstance(one, str) for one in names)):
        raise MalformedRow(f"{subject_of(row)}: references is no set of texts")
    one = BankLine(
        identity=identity,
        account=account,
        currency=currency,
        amount=_amount(row),
        side=_side(row),
        booked=booked,
        valued=valued,
        bank_reference=bank_reference,
        reference=reference,
        returns=returns,
        statement=_typed(row, "statement", str),
        file=_typed(row, "file", str),
        at=_typed(row, "at", int),
    )
    return Recorded(one, _typed(row, "part", int), frozenset(names))


def match_of(row: Row) -> Match:
    """Read a match from either of its two rows. Raises MalformedRow."""
    texts = {name: _typed(row, name, str) for name in ("line", "order", "account", "currency", "posted_at")}
    found = Match(amount=_amount(row), side=_side(row), **texts)
    places = (keys.bank_match(found.line), keys.banked(found.order))
    if {"pk": row["pk"], "sk": row["sk"]} not in places:
        raise MalformedRow(f"{subject_of(row)}: its key is not that of its line or order")
    return found


def statement_of(row: Row) -> Statement:
    """Raises MalformedRow."""
    page = row.get("page")
    optional: dict[str, Any] = {
        name: None if name not in row else _typed(row, name, int) for name in (*_BALANCES, "number")
    }
    return Statement(
        account=_typed(row, "bank_account", str),
        **{name: _typed(row, name, kind) for name, kind in _STATEMENT.items()},
        **optional,
        page=None if page is None else (_typed(row, "page", int), _typed(row, "is_last", int) == 1),
    )


def file_of(row: Row) -> File:
    """Raises MalformedRow."""
    return File(keys.subject(row)[1], _typed(row, "name", str), _typed(row, "posted_at", str))


def _amount(row: Row) -> int:
    amount: int = _typed(row, "amount", int)
    if amount < 1:
        raise MalformedRow(f"{subject_of(row)}: amount must be at least 1")
    return amount


def _side(row: Row) -> Side:
    try:
        return Side(str(row.get("side")))
    except ValueError:
        raise MalformedRow(f"{subject_of(row)}: side must be in or out") from None


def _typed(row: Row, name: str, kind: type) -> Any:
    value = row.get(name)
    if type(value) is not kind:
        raise MalformedRow(f"{subject_of(row)}: {name} must be {kind.__name__}")
    return value


_STATEMENT: dict[str, type] = {
    **dict.fromkeys(("currency", "name", "created", "first", "last"), str),
    **dict.fromkeys(("lines", "credits", "debits"), int),
}
