"""Reads a pay run's lines from a spreadsheet's export: CSV or JSON lines.

The reader streams the file. It reports each fault by line and column, and never guesses a value.
"""

import codecs
import csv
import io
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from settle.exit_codes import CommandFailed, Exit
from settlement.bank.fields import shown
from settlement.core.model import money, strict_json
from settlement.core.model.request import ACCOUNT, NAME_LENGTH_MAX, REFERENCE_LENGTH_MAX
from settlement.core.model.stage_config import StageConfig
from settlement.payouts.payout import DESTINATION
from settlement.payruns.file import LINES_MAX, NUMBER_MAX, Kind, Line

PROBLEMS_MAX = 100
LINE_BYTES_MAX = 16_384
"""Maximum bytes of a record in UTF-8. It bounds the memory that a damaged file takes."""

_CHUNK_BYTES = 65_536
_OTHER_FILES = {
    b"PK\x03\x04": "a workbook or a zip file",
    b"\xd0\xcf\x11\xe0": "an old workbook",
    b"%PDF": "a PDF",
}
_TEXTS = {"payee_name": NAME_LENGTH_MAX, "reference": REFERENCE_LENGTH_MAX}

_AROUND = (
    " \t\n\r\v\f\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f"
)
_AROUND += "\u3000\u2028\u2029\u200b\u200c\u200d\u2060\ufeff"
"""Blanks and zero-width characters. Around a value they mean nothing."""

_JOINERS = dict.fromkeys((0x200C, 0x200D))
"""Zero-width joiners. Names in Persian and Indic scripts need them."""

_UNDECODED = re.compile("[\ud800-\udfff]")
_NOT_UTF_8 = "must be text in UTF-8: save the file as CSV UTF-8"
_TOO_LONG = (
    f"must be at most {LINE_BYTES_MAX:,} bytes, line breaks in quotes included: close or remove its quotes"
)
_QUOTES = "must have a quote at each end of a quoted value, and each inner quote twice: correct the quotes"
_OBJECT = 'must be a JSON object with each field once: write it as {"payee": "bob", "amount": "48.20"}'
_TOO_MANY = f"the file must have at most {LINES_MAX:,} payees, up to line {NUMBER_MAX:,}: split it"
_TOTAL = "must be a payee: remove the line or leave it out if it is a total"
_NO_LINE = "must have a line with a payee that is not left out: add one"

_ARTEFACTS = {
    r"#(?:[^\W\d_a-z][^\Wa-z]*[!?]|DIV/0!|N/A|NV|#*)|Err:[0-9]+": ("be a value", "correct the cell"),
    r"[0-9](?:[.,][0-9]+)?E[+-][0-9]+": (
        "be written in full",
        "format the column as text and enter it again",
    ),
    r"[=+\-@\uff1d\uff0b\uff0d\uff20].*": ("not begin as a formula", "replace the cell by its plain value"),
    r"'[=+\-@#0-9].*": ("have no apostrophe at its start", "remove it"),
}
"""Traces of a spreadsheet: the pattern, the broken rule, and the remedy."""

_ANY_ARTEFACT = re.compile("|".join(_ARTEFACTS), re.DOTALL)

_POSITIVE = ("be more than 0", "correct the line, remove it or leave it out")
_NO_DATE = ("be an amount and no date", "format the column as a number, and enter it again")
_UNGROUPED = ("have no blanks or thousands separators", "format the column as a number such as 1234.50")
_AMOUNTS = {
    r"[-\u2212(]\s*[0-9][0-9.,\s]*\)?|[0-9][0-9.,\s]*-": _POSITIVE,
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}\b.*": _NO_DATE,
    r"[0-9]{1,2}([./-])[0-9]{1,2}\1(?:[0-9]{2}){1,2}\b.*": _NO_DATE,
    **_ARTEFACTS,
    r".*[^0-9.,'\u2019\s].*": ("be the number alone, such as 48.20", "move the currency to its own column"),
    r".*[\s'\u2019].*|.*[.,].*[.,].*": _UNGROUPED,
    r".*,.*": ("have a decimal point", "export the amounts with a point, such as 48.20"),
}


class Problem(NamedTuple):
    """A fault of a file. `line` 0 means the whole file, and an empty `column` the whole line."""

    line: int
    column: str
    text: str

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "file"
        return f"{place}, {self.column}: {self.text}" if self.column else f"{place}: {self.text}"


class Sheet(NamedTuple):
    """A file's lines, the first PROBLEMS_MAX problems, and the number of `more` problems.

    With problems, `lines` lacks the faulty lines and may lack the lines after them.
    """

    lines: list[Line]
    problems: list[Problem]
    more: int
    left_out: list[int]


@dataclass(frozen=True)
class _Rules:
    kind: Kind
    config: StageConfig
    currency: str | None

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The field that each allowed column fills."""
        others = {"destination": "payee"} if self.kind is Kind.PAYOUTS else {name: name for name in _TEXTS}
        return {"payee": "payee", "amount": "amount", "currency": "currency", **others}

    @cached_property
    def needed(self) -> tuple[str, ...]:
        return ("payee", "amount") if self.currency else ("payee", "amount", "currency")

    @cached_property
    def columns(self) -> str:
        other = {"destination": "destination (for payee)"}
        optional = (other.get(name, f"{name} (optional)") for name in self.fields if name not in self.needed)
        return ", ".join((*self.needed, *optional))

    @cached_property
    def currencies(self) -> str:
        return f"be one of {', '.join(sorted(self.config.currencies)[:10])}"


class _Stopped(Exception):
    """Ends the reading: the rest of the file cannot be understood."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems


_Texts = Iterator[tuple[int, str]]
"""Numbered physical lines, without line ends."""

_Row = Mapping[str, str] | list[Problem]
"""A line's texts by column, or its faults."""


def read(
    file: str,
    kind: Kind,
    config: StageConfig,
    *,
    currency: str | None = None,
    leave_out: frozenset[int] = frozenset(),
) -> Sheet:
    """Read a file, or standard input for `-`.

    `currency` applies to lines without one. `leave_out` has the numbers of lines to skip unchecked. Raises
    CommandFailed if the file cannot be read, is empty or is not text, or if the stage lacks the currency.
    """
    rules = _Rules(kind, config, currency)
    if currency is not None and currency not in config.currencies:
        raise CommandFailed(Exit.USAGE, f"currency: must {rules.currencies}, not {shown(currency)}")
    sheet, more = Sheet([], [], 0, []), 0
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            for found in _findings(_rows(file, stream, rules), rules, leave_out):
                if isinstance(found, Line):
                    sheet.lines.append(found)
                elif isinstance(found, int):
                    sheet.left_out.append(found)
                elif len(sheet.problems) < PROBLEMS_MAX:
                    sheet.problems.append(found)
                else:
                    more += 1
    except OSError as error:
        reason = error.strerror or error
        raise CommandFailed(Exit.USAGE, f"file: {file} cannot be read: {reason}") from error
    return sheet._replace(more=more)


def _findings(
    rows: Iterator[tuple[int, _Row]], rules: _Rules, leave_out: frozenset[int]
) -> Iterator[Line | Problem | int]:
    """Yield each line or its problems, and the number of each line left out."""
    count, absent = 0, set(leave_out)
    try:
        for number, row in rows:
            if number in leave_out:
                absent.discard(number)
                yield number
                continue
            count += 1
            if count > LINES_MAX or number > NUMBER_MAX:
                raise _Stopped(Problem(number, "", _TOO_MANY))
            yield from row if isinstance(row, list) else _line(number, row, rules)
    except _Stopped as stopped:
        yield from stopped.problems
        return
    for number in sorted(absent):
        yield Problem(0, "", f"--leave-out {number} must be the number of a line with a payee: correct it")
    if not count:
        yield Problem(0, "", _NO_LINE)


def _rows(file: str, stream: BinaryIO, rules: _Rules) -> Iterator[tuple[int, _Row]]:
    head = stream.read(4)
    for magic, what in _OTHER_FILES.items():
        if head.startswith(magic):
            raise CommandFailed(Exit.USAGE, f"file: {file} is {what}; export the sheet as CSV in UTF-8")
    lines = _texts(head, stream)
    for number, text in lines:
        if start := text.strip(_AROUND):
            rows = _json_rows if start.startswith("{") else _csv_rows
            yield from rows(number, text, lines, rules)
            return
    raise CommandFailed(Exit.USAGE, f"file: {file} is empty; export the sheet with its columns' names")


def _texts(head: bytes, stream: BinaryIO) -> _Texts:
    """Decode UTF-8, or UTF-16 with a byte order mark; yield numbered lines. Holds one chunk and one line."""
    encoding = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    ended = io.IncrementalNewlineDecoder(decoder, translate=True)
    number, rest = 1, ""
    for chunk in chain([head], iter(partial(stream.read, _CHUNK_BYTES), b""), [b""]):
        try:
            *whole, rest = (rest + ended.decode(chunk, final=not chunk)).split("\n")
        except UnicodeError:
            raise _Stopped(Problem(number, "", _NOT_UTF_8)) from None
        for text in whole:
            yield number, _sound(number, text)
            number += 1
        _sound(number, rest)
    yield number, rest


def _sound(number: int, text: str) -> str:
    if _UNDECODED.search(text):
        raise _Stopped(Problem(number, "", _NOT_UTF_8))
    if "\0" in text:
        raise _Stopped(Problem(number, "", "must be text, and has a NUL byte: export the sheet again"))
    if len(text.encode()) > LINE_BYTES_MAX:
        raise _Stopped(Problem(number, "", _TOO_LONG))
    return text


def _json_rows(at: int, first: str, lines: _Texts, rules: _Rules) -> Iterator[tuple[int, _Row]]:
    for number, text in chain([(at, first)], lines):
        if given := text.strip(_AROUND):
            yield number, _members(number, given, rules)


def _members(number: int, text: str, rules: _Rules) -> _Row:
    try:
        found = strict_json.parse(text)
    except strict_json.Malformed:
        found = None
    if not isinstance(found, dict):
        return [Problem(number, "", _OBJECT)]
    row = {_name(name): "" if value is None else value for name, value in found.items()}
    wrong = [name for name, value in row.items() if not isinstance(value, str)]
    told = 'must be a text: put it in quotes, such as "48.20"'
    return (
        _column_problems(number, [*map(_name, found)], rules)
        or [Problem(number, name, told) for name in wrong]
        or {name: value.strip(_AROUND) for name, value in row.items()}
    )


def _csv_rows(at: int, first: str, lines: _Texts, rules: _Rules) -> Iterator[tuple[int, _Row]]:
    def known(delimiter: str) -> int:
        cells = next(csv.reader([first], delimiter=delimiter, skipinitialspace=True))
        return len(rules.fields.keys() & {*map(_name, cells)})

    records = _records(chain([(at, first)], lines), max(",", ";", "\t", key=known))
    names = [_name(cell) for cell in next(records)[1]]
    if not rules.fields.keys() & {*names}:
        told = f"must be the columns' names, with a comma, semicolon or tab between: add {rules.columns}"
        raise _Stopped(Problem(at, "", told))
    if problems := _column_problems(at, names, rules):
        raise _Stopped(*problems)
    for number, cells in records:
        values = [cell.strip(_AROUND) for cell in cells]
        if not any(values):
            continue
        if len(values) == len(names):
            yield number, dict(zip(names, values, strict=True))
        else:
            told = f"must have {len(names)} fields as the header has, not {len(values)}"
            yield number, [Problem(number, "", f"{told}: quote a value that contains a separator")]


def _records(lines: _Texts, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, text in lines:
        record = _record(number, text, lines)
        try:
            cells = next(csv.reader(record, delimiter=delimiter, strict=True, skipinitialspace=True))
        except csv.Error:
            raise _Stopped(Problem(number, "", _QUOTES)) from None
        yield number, cells


def _record(number: int, text: str, following: _Texts) -> Iterator[str]:
    """Yield a record's lines. The CSV reader takes a further line only within quotes."""
    size = 0
    for one in chain([text], (further for _, further in following)):
        size += len(one.encode())
        if size > LINE_BYTES_MAX:
            raise _Stopped(Problem(number, "", _TOO_LONG))
        yield f"{one}\n"


def _name(cell: str) -> str:
    return cell.strip(_AROUND).lower()


def _column_problems(number: int, names: list[str], rules: _Rules) -> list[Problem]:
    told = f"the columns must be {rules.columns}, each once"
    fields = [rules.fields.get(name, "") for name in names]
    wrong = [
        Problem(number, repr(name)[1:-1][:40], f"{told}: rename or remove column {place}")
        for place, (name, field) in enumerate(zip(names, fields, strict=True), 1)
        if not field or fields.count(field) > 1
    ]
    missing = [name for name in rules.needed if name not in fields]
    return wrong + [Problem(number, name, f"{told}: add this column") for name in missing]


def _line(number: int, row: Mapping[str, str], rules: _Rules) -> list[Line] | list[Problem]:
    named = "destination" if "destination" in row else "payee"
    payee, amount, config = row[named], row["amount"], rules.config
    if amount and not payee:
        return [Problem(number, named, _TOTAL)]
    currency = row.get("currency") or rules.currency or ""
    pattern = ACCOUNT if rules.kind is Kind.PAYMENTS else DESTINATION
    texts = {name: _canonical(row[name]) for name in _TEXTS if row.get(name)}
    faults = {
        named: _fault(payee, f"be an id that matches ^{pattern.pattern}$", bool(pattern.fullmatch(payee))),
        "amount": _amount_fault(amount, currency, config),
        "currency": _fault(currency, rules.currencies, currency in config.currencies),
    }
    for name, text in texts.items():
        faults[name] = _fault(text, f"be at most {_TEXTS[name]} characters", len(text) <= _TEXTS[name])
    problems = [Problem(number, column, fault) for column, fault in faults.items() if fault]
    return problems or [Line(number=number, payee=payee, amount=amount, currency=currency, **texts)]


def _fault(text: str, rule: str, is_kept: bool) -> str | None:
    if _ANY_ARTEFACT.fullmatch(text):
        return _broken(_ARTEFACTS, text)
    visible = text if text.isprintable() else text.translate(_JOINERS)
    if not visible.isprintable():
        hidden = "".join(char for char in visible if not char.isprintable())
        return f"must have no line break or invisible character, and has {shown(hidden)}: remove it"
    return None if is_kept else f"must {rule}, not {shown(text)}: correct it"


def _amount_fault(text: str, currency: str, config: StageConfig) -> str | None:
    exponent = config.currencies.get(currency, max(config.currencies.values()))
    try:
        minor = money.parse(text, exponent)
    except ValueError as expected:
        return _broken(_AMOUNTS, text) or f"{expected}, not {shown(text)}: correct it"
    return None if minor else _broken({".*": _POSITIVE}, text)


def _broken(rules: Mapping[str, tuple[str, str]], text: str) -> str | None:
    for pattern, (rule, remedy) in rules.items():
        if re.fullmatch(pattern, text, re.DOTALL):
            return f"must {rule}, not {shown(text)}: {remedy}"
    return None


def _canonical(text: str) -> str:
    """Normalise as a payment's request does."""
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if unicodedata.category(char) == "Zs" else char for char in composed)
