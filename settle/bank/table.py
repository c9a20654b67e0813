"""Reads statements in CSV. A file in TOML maps the bank's columns."""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from datetime import datetime
from typing import Any, BinaryIO, Self

from settlement.bank import fields
from settlement.bank.fields import refuse, shown
from settlement.bank.statement import Line, Side, Statement

_FIELD_MAX = 10_000
_LINE_MAX = 100 * _FIELD_MAX
_ACCOUNTS_MAX = 1_000
_UNDECODED = re.compile("[\udc80-\udcff]")
"""Undecodable bytes: `surrogateescape` keeps them, so the error can name their line."""

_ENCODINGS = {"utf-8", "utf-16", "iso-8859-1", "iso-8859-15", "windows-1252", "windows-1250", "ascii"}
_DATE_PARTS = {"%d", "%m", "%Y", "%y"}
_TEXTS = {"delimiter", "encoding", "decimal", "date", "booked", "valued", "amount", "side", "currency_column"}
_TEXTS |= {"currency", "bank_reference", "account", "account_column"}
_LISTS = {"references", "credit", "debit"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The format of a bank's CSV file.

    - `booked`, `amount` and other columns: names in the header.
    - `date`: a strptime format, such as %d.%m.%Y.
    - `account` and `currency`: fixed texts. `account_column` and `currency_column` are columns instead.
    - `side`: a column. `credit` and `debit` list its values, and amounts have no sign. Without `side`, a
      negative amount is a debit.
    - `preamble`: the number of lines before the header.
    """

    booked: str
    amount: str
    date: str
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    valued: str = ""
    side: str = ""
    credit: tuple[str, ...] = ()
    debit: tuple[str, ...] = ()
    currency: str = ""
    currency_column: str = ""
    account: str = ""
    account_column: str = ""
    references: tuple[str, ...] = ()
    bank_reference: str = ""
    preamble: int = 0

    @classmethod
    def from_toml(cls, mapping: Mapping[str, Any]) -> Self:
        """Parse a mapping. Raises ValueError with the wrong key and its rule."""
        known = {one.name for one in fields_of(cls)}
        for key, value in mapping.items():
            if key not in known:
                raise ValueError(f"{shown(key)} must be one of {', '.join(sorted(known))}")
            _check_type(key, value)
        for key in ("booked", "amount", "date"):
            if not mapping.get(key):
                raise ValueError(f"{key} is missing, and must be a text")
        values: dict[str, Any] = {
            key: tuple(value) if key in _LISTS else value for key, value in mapping.items()
        }
        columns = cls(**values)
        columns._check()
        return columns

    @property
    def needed(self) -> tuple[str, ...]:
        single = (self.booked, self.amount, self.valued, self.side, self.currency_column, self.account_column)
        return tuple(dict.fromkeys(filter(None, (*single, self.bank_reference, *self.references))))

    def _check(self) -> None:
        parts = re.findall(r"%.", self.date)
        year = {"%Y", "%y"} & set(parts)
        rules = {
            "delimiter": (
                len(self.delimiter) == 1 and self.delimiter not in '"\r\n',
                "one character, no quote",
            ),
            "encoding": (self.encoding.lower() in _ENCODINGS, f"one of {', '.join(sorted(_ENCODINGS))}"),
            "decimal": (self.decimal in {",", "."}, '"," or "."'),
            "date": (len(parts) == 3 and set(parts) <= _DATE_PARTS and bool(year), "as %d.%m.%Y or %Y-%m-%d"),
            "currency": (bool(self.currency) != bool(self.currency_column), "given, or else currency_column"),
            "account": (bool(self.account) != bool(self.account_column), "given, or else account_column"),
            "side": (bool(self.side) == bool(self.credit and self.debit), "given with credit and debit"),
            "debit": (not set(self.credit) & set(self.debit), "other values than credit"),
            "preamble": (0 <= self.preamble <= 100, "a number of lines from 0 to 100"),
        }
        for key, (right, rule) in rules.items():
            if not right:
                raise ValueError(f"{key} is {shown(str(getattr(self, key)))}; must be {rule}")


def _check_type(key: str, value: object) -> None:
    if key in _TEXTS and not isinstance(value, str):
        raise ValueError(f"{key} is {shown(str(value))}; must be a text")
    if key in _LISTS and not (isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)):
        raise ValueError(f"{key} is {shown(str(value))}; must be a list of texts")
    if key == "preamble" and type(value) is not int:
        raise ValueError(f"{key} is {shown(str(value))}; must be a number of lines from 0 to 100")


def read(file: BinaryIO, currencies: Mapping[str, int], columns: Columns) -> Iterator[Line | Statement]:
    """Yield each row's line, in order. Then yield a statement per account and currency.

    A line without the bank's reference is named by its content and its count among equal rows, so it has one
    name in overlapping exports. Raises UnreadableStatement with the line and the column.
    """
    return _Reading(currencies, columns).read(file)


@dataclass(slots=True)
class _Sums:
    sums: Counter[Side] = field(default_factory=Counter)
    lines: int = 0
    first: str = "9999"
    last: str = ""


class _Reading:
    def __init__(self, currencies: Mapping[str, int], columns: Columns) -> None:
        self._currencies, self._columns = currencies, columns
        self._sums: dict[tuple[str, str], _Sums] = {}
        self._same: Counter[bytes] = Counter()
        thousands = re.escape("." if columns.decimal == "," else ",")
        grouped = rf"[0-9]{{1,3}}(?:{thousands}[0-9]{{3}})+|[0-9]+"
        self._amount = re.compile(rf"([+-]?)({grouped})(?:{re.escape(columns.decimal)}([0-9]+))?", re.ASCII)

    def read(self, file: BinaryIO) -> Iterator[Line | Statement]:
        head = file.read(4)
        kind = fields.kind(head)
        if not head or not kind.startswith("another"):
            what = f"it is {kind}" if head else "it is empty"
            refuse(1, "start of the file", f"{what}; must be CSV")
        rows = _rows(_Joined(head, file), self._columns)
        names = self._header(rows)
        for at, row in rows:
            if not any(one.strip() for one in row):
                continue
            if len(row) != len(names):
                refuse(at, "row", f"has {len(row)} fields; must have {len(names)}, as the header has")
            yield self._line(at, dict(zip(names, row, strict=True)))
        for (account, currency), sums in self._sums.items():
            yield Statement(
                account=account,
                currency=currency,
                name=f"{sums.first} {sums.last}",
                created=sums.last,
                number=None,
                page=None,
                first=sums.first,
                last=sums.last,
                opening=None,
                closing=None,
                lines=sums.lines,
                credits=sums.sums[Side.IN],
                debits=sums.sums[Side.OUT],
            )

    def _header(self, rows: Iterator[tuple[int, list[str]]]) -> list[str]:
        at, row = next(rows, (self._columns.preamble + 1, []))
        names = [one.strip() for one in row]
        for name in self._columns.needed:
            if name not in names:
                refuse(at, f"column {shown(name)}", f"is missing; the header has {shown(', '.join(names))}")
            if names.count(name) > 1:
                refuse(at, f"column {shown(name)}", "must appear once in the header")
        return [
            name if name in self._columns.needed else f"{name} {place}" for place, name in enumerate(names)
        ]

    def _line(self, at: int, row: Mapping[str, str]) -> Line:
        columns = self._columns
        account = fields.account(columns.account or row[columns.account_column])
        if not account:
            refuse(at, f"column {shown(columns.account_column)}", "is empty; must be the account")
        currency = columns.currency or row[columns.currency_column].strip()
        try:
            fields.decimals(currency, self._currencies)
        except ValueError as error:
            refuse(at, f"column {shown(columns.currency_column)}", str(error))
        amount, side = self._money(at, row, currency)
        booked = self._day(at, row, columns.booked)
        valued = columns.valued and row[columns.valued].strip()
        references = fields.references((), [row[name] for name in columns.references])
        own = fields.name(row[columns.bank_reference]) if columns.bank_reference else ""
        content = "\n".join(
            (account, currency, booked, str(amount), side, *(row[name] for name in columns.references))
        )
        digest = hashlib.sha256(content.encode()).digest()[:16]
        self._same[digest] += 1
        self._count(at, (account, currency), booked, amount, side)
        return Line(
            account=account,
            currency=currency,
            amount=amount,
            side=side,
            booked=booked,
            valued=self._day(at, row, columns.valued) if valued else booked,
            bank_reference=own,
            references=references,
            returns="",
            statement=digest.hex(),
            position=self._same[digest],
            part=0,
            at=at,
        )

    def _count(self, at: int, key: tuple[str, str], booked: str, amount: int, side: Side) -> None:
        if key not in self._sums and len(self._sums) >= _ACCOUNTS_MAX:
            refuse(at, "row", f"the file must have at most {_ACCOUNTS_MAX:,} accounts")
        sums = self._sums.setdefault(key, _Sums())
        sums.lines += 1
        sums.sums[side] += amount
        sums.first, sums.last = min(sums.first, booked), max(sums.last, booked)

    def _money(self, at: int, row: Mapping[str, str], currency: str) -> tuple[int, Side]:
        columns = self._columns
        where, text = f"column {shown(columns.amount)}", row[columns.amount].strip()
        match = self._amount.fullmatch(text)
        if match is None:
            form = "1.234,56" if columns.decimal == "," else "1,234.56"
            refuse(at, where, f"is {shown(text)}; must be an amount such as {form}")
        if columns.side and match[1]:
            refuse(
                at,
                where,
                f"is {shown(text)}; must have no sign, as column {shown(columns.side)} has the side",
            )
        try:
            units = re.sub("[.,]", "", match[2])
            amount = fields.amount(f"{units}.{match[3] or ''}", currency, self._currencies)
        except ValueError as error:
            refuse(at, where, str(error))
        if not columns.side:
            return amount, Side.OUT if match[1] == "-" else Side.IN
        value = row[columns.side].strip()
        if value not in (*columns.credit, *columns.debit):
            known = ", ".join((*columns.credit, *columns.debit))
            refuse(at, f"column {shown(columns.side)}", f"is {shown(value)}; must be one of {known}")
        return amount, Side.IN if value in columns.credit else Side.OUT

    def _day(self, at: int, row: Mapping[str, str], column: str) -> str:
        text = row[column].strip()
        try:
            return fields.day(datetime.strptime(text, self._columns.date).date().isoformat())
        except ValueError:
            what = f"is {shown(text)}; must be a day of the years 2000 to 2099 as {self._columns.date}"
            refuse(at, f"column {shown(column)}", what)


class _Joined(io.RawIOBase):
    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._head[: len(buffer)] or self._file.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)


def _rows(file: io.RawIOBase, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of the row's first line. Memory holds one line of bounded length."""
    encoding = "utf-8-sig" if columns.encoding.lower() == "utf-8" else columns.encoding
    text = io.TextIOWrapper(io.BufferedReader(file), encoding, "surrogateescape", newline="")
    lines = _Lines(text)
    reader = csv.reader(lines, delimiter=columns.delimiter, strict=True)
    try:
        for _ in range(columns.preamble):
            next(lines, None)
        while True:
            at = lines.number + 1
            row = next(reader, None)
            if row is None:
                return
            if any(len(one) > _FIELD_MAX for one in row):
                refuse(at, "row", f"a field has over {_FIELD_MAX:,} characters")
            yield at, row
    except UnicodeError:
        refuse(lines.number + 1, "row", f"must be text in {columns.encoding}")
    except csv.Error as error:
        refuse(lines.number, "row", f"must be CSV: {error}")


class _Lines:
    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.number = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._text.readline(_LINE_MAX)
        if not line:
            raise StopIteration
        self.number += 1
        if "\x00" in line:
            refuse(self.number, "a NUL byte", "must be text without one")
        if _UNDECODED.search(line):
            refuse(self.number, "row", f"must be text in {self._text.encoding}")
        if len(line) >= _LINE_MAX:
            refuse(self.number, "row", f"must have at most {_LINE_MAX:,} characters")
        return line
