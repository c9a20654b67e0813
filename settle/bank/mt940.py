"""Reads SWIFT MT940. The library `mt-940` gets single fields, so an error can name its line."""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, BinaryIO

from settle.local import needs_extra
from settlement.bank import fields
from settlement.bank.fields import refuse, shown
from settlement.bank.statement import Line, Side, Statement
from settlement.core.model import money

SIZE_MAX = 64 * 1024 * 1024
"""Maximum bytes of a file, which is held whole. A day's statement has kilobytes."""

_FIELD_MAX = 10_000
_FIELD = re.compile(r":([0-9]{2}[A-Z]?|NS):(.*)", re.ASCII)
_KNOWN = {"13", "20", "21", "25", "28", "34", "60", "61", "62", "64", "65", "86", "90", "NS"}
_BALANCE = re.compile(r"[CD][0-9]{6}[A-Z]{3}[0-9]{1,15},[0-9]*", re.ASCII)
_BLANK = re.compile(r"^([^,\n]*,[0-9]*) +")
_NUMBER = re.compile(r"([0-9]{1,5})(?:/([0-9]{1,5}))?", re.ASCII)
_IBAN = re.compile(r"([A-Z]{2}[0-9]{2}[A-Z0-9]{11,30})([A-Z]{3})", re.ASCII)
_CODED = re.compile(r"/(EREF|KREF|PREF|REMI|RTRN|MARF)/(.*?)(?=/[A-Z]{3,4}/|$)", re.ASCII)
_SIDES = {"C": Side.IN, "D": Side.OUT, "RD": Side.IN, "RC": Side.OUT}
_WHY = {"60": ": an MT942, a report within the day, is not final", "62": ": it may be cut off"}
_RETURNS = {"108", "109", "159"}
"""German transaction codes of returned debits and transfers; ?34 has the reason."""
_LIBRARY_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError)


def read(file: BinaryIO, currencies: Mapping[str, int]) -> Iterator[Line | Statement]:
    """Yield each statement after its lines. Raises UnreadableStatement with the line and the field.

    The lines must sum up to the difference of the balances. Banks date interest on 30 February. This day is
    read as the last day of that month.
    """
    found = False
    for message in _messages(_text(file)):
        found = True
        yield from _Reading(message, currencies).read()
    if not found:
        refuse(1, ":20:", "is missing: the file has no statement")


@dataclass(slots=True)
class _Field:
    line: int
    tag: str
    parts: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, line: int, text: str) -> None:
        self.parts.append(text)
        self.size += len(text) + 1
        if self.size > _FIELD_MAX:
            refuse(line, self.where, f"must have at most {_FIELD_MAX:,} characters")

    @property
    def value(self) -> str:
        return "\n".join(self.parts).strip()

    @property
    def first(self) -> str:
        """The field's first line: a statement's last field may also contain the next header."""
        return self.parts[0].strip()

    @property
    def where(self) -> str:
        return f":{self.tag}:"


@dataclass(slots=True)
class _Balance:
    currency: str
    amount: int
    day: str
    final: bool


@dataclass(slots=True)
class _Sums:
    lines: int = 0
    credits: int = 0
    debits: int = 0
    days: list[str] = field(default_factory=list)


class _Reading:
    """One message, from :20: to the next :20:."""

    def __init__(self, message: list[_Field], currencies: Mapping[str, int]) -> None:
        self._message, self._currencies = message, currencies
        self._opening = self._balance("60")
        self._closing = self._balance("62")
        if self._closing.currency != self._opening.currency:
            wrong = self._need("62")
            refuse(
                wrong.line,
                wrong.where,
                f"is in {self._closing.currency}, and :60: in {self._opening.currency}",
            )
        self._currency = self._opening.currency
        self._account = _account(self._need("25").first, self._currency)
        reference, sequence = self._need("20").first, self._need("28").first
        match = _NUMBER.fullmatch(sequence)
        self._number = int(match[1]) or None if match else None
        self._page = self._find_page(match)
        self._name = fields.name(f"{reference} {sequence} {self._closing.day}")
        self._sums = _Sums()

    def read(self) -> Iterator[Line | Statement]:
        for number, (movement, details) in enumerate(self._movements(), 1):
            line = self._line(movement, details, number)
            self._sums.lines += 1
            if line.side is Side.IN:
                self._sums.credits += line.amount
            else:
                self._sums.debits += line.amount
            self._sums.days = [min([*self._sums.days, line.booked]), max([*self._sums.days, line.booked])]
            yield line
        yield self._statement()

    def _statement(self) -> Statement:
        opening, closing, sums = self._opening, self._closing, self._sums
        expected = opening.amount + sums.credits - sums.debits
        if expected != closing.amount:
            last = self._need("62")
            exponent = self._currencies[self._currency]
            refuse(
                last.line,
                last.where,
                f"is {money.render(closing.amount, exponent)}; :60: and its {sums.lines} lines make"
                f" {money.render(expected, exponent)}",
            )
        return Statement(
            account=self._account,
            currency=self._currency,
            name=self._name,
            created=closing.day,
            number=self._number,
            page=self._page,
            first=min([opening.day, closing.day, *sums.days]),
            last=max([opening.day, closing.day, *sums.days]),
            opening=opening.amount,
            closing=closing.amount,
            lines=sums.lines,
            credits=sums.credits,
            debits=sums.debits,
        )

    def _movements(self) -> Iterator[tuple[_Field, str]]:
        """Yield each :61: with the text of its :86:. A :86: after a balance belongs to the statement."""
        movement: _Field | None = None
        details: list[str] = []
        for one in self._message:
            if movement is not None and one.tag == "86":
                details.append(one.value)
                continue
            if movement is not None and one.tag != "NS":
                yield movement, "\n".join(details)
                movement, details = None, []
            if one.tag == "61":
                movement = one
        if movement is not None:
            yield movement, "\n".join(details)

    def _line(self, movement: _Field, details: str, number: int) -> Line:
        data = _parse(movement, details)
        mark = str(data["status"]).upper()
        booked, valued = data.get("entry_date") or data["date"], data["date"]
        texts = _texts(data, details)
        coded = dict(_CODED.findall("".join(details.splitlines())))
        customer = str(data.get("customer_reference") or "").splitlines()
        # "KREF+" and the like only point at the :86:.
        names = [data.get("end_to_end_reference"), *(one for one in customer if not one.endswith("+"))]
        names += [data.get("additional_position_reference"), *coded.values(), data.get("extra_details")]
        returned = coded.get("RTRN") or (
            (data.get("return_debit_notes") or "return")
            if str(data.get("transaction_code")) in _RETURNS
            else ""
        )
        return Line(
            account=self._account,
            currency=self._currency,
            amount=self._minor(movement, data["amount"]),
            side=_SIDES[mark],
            booked=_day(movement, booked),
            valued=_day(movement, valued),
            bank_reference=fields.name(data.get("bank_reference") or ""),
            references=fields.references((name or "" for name in names), texts),
            returns=fields.name(returned) or ("reversal" if mark in {"RC", "RD"} else ""),
            statement=self._name,
            position=number,
            part=0,
            at=movement.line,
        )

    def _need(self, tag: str) -> _Field:
        """Return the only field of a tag, such as 60 for :60F:. Raises UnreadableStatement."""
        found = [one for one in self._message if one.tag[:2] == tag]
        if not found:
            first = self._message[0]
            refuse(first.line, first.where, f"field :{tag}: is missing in its statement{_WHY.get(tag, '')}")
        if len(found) > 1:
            refuse(found[1].line, found[1].where, "must appear once in a statement")
        return found[0]

    def _balance(self, tag: str) -> _Balance:
        one = self._need(tag)
        if one.tag[2:] not in {"F", "M"}:
            refuse(one.line, one.where, f"must be :{tag}F: or :{tag}M:")
        if _BALANCE.fullmatch(one.first) is None:
            refuse(one.line, one.where, f"is {shown(one.first)}; must be a balance such as C261127EUR1000,00")
        balance = next(iter(_data(one, f":{one.tag}:{one.first}").data.values()))
        amount = self._minor(one, balance.amount)
        return _Balance(
            currency=balance.amount.currency,
            amount=amount if balance.status == "C" else -amount,
            day=_day(one, balance.date),
            final=one.tag[2:] == "F",
        )

    def _minor(self, one: _Field, amount: Any) -> int:
        currency = amount.currency or self._currency
        try:
            return fields.amount(format(abs(amount.amount), "f"), currency, self._currencies)
        except ValueError as error:
            refuse(one.line, one.where, str(error))

    def _find_page(self, match: re.Match[str] | None) -> tuple[int, bool] | None:
        if self._opening.final and self._closing.final:
            return None
        if match is None or match[2] is None:
            wrong = self._need("28")
            refuse(wrong.line, wrong.where, f"is {shown(wrong.first)}; must have the page, such as 117/2")
        return int(match[2]), self._closing.final


def _text(file: BinaryIO) -> str:
    content = file.read(SIZE_MAX + 1)
    if len(content) > SIZE_MAX:
        refuse(1, "start of the file", f"the file must have at most {SIZE_MAX:,} bytes")
    if not content.strip():
        refuse(1, "start of the file", "it is empty, and must be MT940")
    if b":20:" not in content:
        refuse(
            1, "start of the file", f"it is {fields.kind(content[:100])}; must be MT940, with a field :20:"
        )
    if b"\x00" in content:
        refuse(content[: content.index(b"\x00")].count(b"\n") + 1, "a NUL byte", "must be text without one")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _messages(text: str) -> Iterator[list[_Field]]:
    """Yield each message's fields. Lines between messages, such as SWIFT's envelope, are skipped."""
    message: list[_Field] = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        match = _FIELD.match(line)
        if match and match[1][:2] in _KNOWN:
            if match[1] == "20":
                if message:
                    yield message
                message = []
            elif not message:
                refuse(number, f":{match[1]}:", "must follow the field :20: of its statement")
            message.append(_Field(number, match[1]))
            message[-1].add(number, match[2])
        elif message and line.startswith(("-}", "{")):
            yield message
            message = []
        elif message and line.strip() != "-":
            message[-1].add(number, line)
    if message:
        yield message


def _parse(movement: _Field, details: str) -> Mapping[str, Any]:
    """Return the library's result for a :61: and its :86:. A partial result is refused."""
    # Some German banks write a blank behind the amount.
    value = _BLANK.sub(r"\1", movement.value)
    text = f":61:{value}" + (f"\n:86:{details}" if details else "")
    found = _data(movement, text).transactions
    data: Mapping[str, Any] = found[0].data if len(found) == 1 else {}
    if not data.get("id"):
        what = f"is {shown(movement.value)}; must be a line such as 2611271127C48,20NTRFE-1//B-1"
        refuse(movement.line, movement.where, what)
    return data


def _data(one: _Field, text: str) -> Any:
    with needs_extra("statement: MT940", "bank"):
        import mt940  # noqa: PLC0415

    # It prints what it cannot read, and the refusal says that already.
    logging.getLogger("mt940").setLevel(logging.CRITICAL + 1)
    # A customer's reference of any length, as German banks write it. Not `mt940.parse`: it takes a text that
    # is the path of a file for that file.
    movement = mt940.tags.StatementGLS()
    found = mt940.models.Transactions(tags={movement.id: movement}, options=mt940.Options.all())
    try:
        found.parse(text)
    except _LIBRARY_ERRORS:
        refuse(one.line, one.where, f"is {shown(one.value)}, which is no field of MT940")
    return found


def _texts(data: Mapping[str, Any], details: str) -> list[str]:
    if "transaction_code" not in data:
        return details.splitlines()
    return [data.get("purpose") or "", data.get("additional_purpose") or ""]


def _day(one: _Field, day: Any) -> str:
    return date(day.year, day.month, day.day).isoformat()


def _account(text: str, currency: str) -> str:
    """Return the account without the currency that some banks append to an IBAN."""
    plain = fields.account(text)
    match = _IBAN.fullmatch(plain)
    return match[1] if match and match[2] == currency and _is_iban(match[1]) else plain


def _is_iban(text: str) -> bool:
    """Check an IBAN's digits (ISO 7064, modulo 97)."""
    return int("".join(str(int(one, 36)) for one in text[4:] + text[:4])) % 97 == 1
