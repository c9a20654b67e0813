"""Lines and statements of camt.053 and camt.054: the meaning of elements, and cross-checks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from settlement.bank import fields
from settlement.bank.camt_element import Element, Value
from settlement.bank.fields import refuse, shown
from settlement.bank.statement import REFERENCE_MAX, Line, Side, Statement
from settlement.core.model import money

TRANSACTIONS_MAX = 100_000
"""Maximum TxDtls of one entry, whose lines are held until its end."""
_HELD_MAX = 64 * 1024 * 1024
"""Maximum characters held of an entry's references."""

_BOOKED = "BOOK"
_NOT_BOOKED = {"PDNG", "INFO"}
_OPENING, _CLOSING, _PREVIOUS, _INTERMEDIATE = "OPBD", "CLBD", "PRCD", "ITBD"
_NAMES = ("EndToEndId", "InstrId", "TxId", "PmtInfId")


@dataclass(slots=True, kw_only=True)
class _Part:
    """An entry, or one TxDtls. `amount` is None without an amount in the account's currency."""

    at: int
    amount: int | None
    side: Side
    references: tuple[str, ...]
    returns: str
    bank_reference: str


@dataclass(slots=True, kw_only=True)
class _Entry:
    element: Element
    booked: str
    valued: str
    amount: int
    side: Side
    returns: str
    parts: list[_Part] = field(default_factory=list)
    held: int = 0


@dataclass(slots=True)
class _Account:
    element: Element
    account: str = ""
    currency: str = ""
    name: str = ""
    page: tuple[int, bool] | None = None
    balances: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    entries: int = 0
    lines: int = 0
    sums: Counter[Side] = field(default_factory=Counter)
    days: tuple[str, str] | None = None


class Book:
    def __init__(self, currencies: Mapping[str, int]) -> None:
        self._currencies = currencies
        self._ready: list[Line | Statement] = []
        self._message = self._name = ""
        self._statements = 0
        self._group: Element | None = None
        self._now: _Account
        self._entry: _Entry | None = None
        self._left_out = False

    def take(self) -> list[Line | Statement]:
        ready, self._ready = self._ready, []
        return ready

    def expect(self, message: str, statement: str) -> None:
        self._message, self._name = message, statement

    def end_group(self, group: Element) -> None:
        self._group = group

    def end_document(self, document: Element) -> None:
        if not self._statements:
            refuse(
                document.line,
                f"Document/{self._message}/{self._name}",
                "is missing: the file has no statement",
            )

    def start_statement(self, element: Element) -> None:
        self._statements += 1
        self._now = _Account(element)

    def end_balance(self, element: Element) -> None:
        self._open()
        code = element.text("Tp/CdOrPrtry/Cd")
        if code not in (_OPENING, _CLOSING, _PREVIOUS, _INTERMEDIATE):
            return
        amount = self._amount(element, element.need("Amt"), "Amt")
        side = element.side(element.need("CdtDbtInd"))
        day = element.day("Dt/Dt", "Dt/DtTm")
        if day is None:
            refuse(element.line, f"{element.where}/Dt", f"is missing: the {code} balance must have its day")
        known = self._now.balances.setdefault(code, [])
        balance = (amount if side is Side.IN else -amount, day)
        if code != _INTERMEDIATE and known and known != [balance]:
            refuse(
                element.line,
                f"{element.where}/Tp/CdOrPrtry/Cd",
                f"is {code} again, with another amount or day",
            )
        if not known:
            known.append(balance)
        elif code == _INTERMEDIATE:
            known[1:] = [balance]

    def start_entry(self, _element: Element) -> None:
        self._open()
        self._entry, self._left_out = None, False

    def start_details(self, element: Element) -> None:
        self._begin(element.parent or element)

    def start_transaction(self, element: Element) -> None:
        if self._entry is not None and len(self._entry.parts) >= TRANSACTIONS_MAX:
            refuse(element.line, element.where, f"an entry must have at most {TRANSACTIONS_MAX:,} TxDtls")

    def end_transaction(self, element: Element) -> None:
        entry, details = self._entry, element.parent
        if entry is None or details is None:
            return
        names = [*(element.text(f"Refs/{name}") for name in _NAMES), details.text("Btch/PmtInfId")]
        names += [element.text("Refs/ClrSysRef"), *element.texts("RmtInf/Strd/CdtrRefInf/Ref")]
        own = element.find("CdtDbtInd")
        part = _Part(
            at=element.line,
            amount=self._part_amount(element),
            side=element.side(own) if own else entry.side,
            references=fields.references(
                names, element.texts("RmtInf/Ustrd"), [entry.element.text("NtryRef")]
            ),
            returns=_returns(element),
            bank_reference=fields.name(element.text("Refs/AcctSvcrRef")),
        )
        entry.parts.append(part)
        entry.held += sum(map(len, part.references))
        if entry.held > _HELD_MAX:
            refuse(element.line, element.where, f"the entry's references have over {_HELD_MAX:,} characters")

    def end_details(self, element: Element) -> None:
        number, found = element.digits("Btch/NbOfTxs"), element.children["TxDtls"]
        if self._entry is not None and found and number is not None and number != found:
            refuse(
                element.line, f"{element.where}/Btch/NbOfTxs", f"is {number}, and there are {found} TxDtls"
            )

    def end_entry(self, element: Element) -> None:
        self._begin(element)
        entry, self._entry = self._entry, None
        if entry is None:
            return
        self._now.entries += 1
        for line in self._lines(entry):
            self._now.lines += 1
            self._now.sums[line.side] += line.amount
            self._ready.append(line)
        first, last = self._now.days or (entry.booked, entry.booked)
        self._now.days = min(first, entry.booked), max(last, entry.booked)

    def end_statement(self, element: Element) -> None:
        self._open()
        now = self._now
        if not now.currency:
            refuse(element.line, f"{element.where}/Acct/Ccy", "is missing, and no entry has a currency")
        created = element.find("CreDtTm") or (self._group.find("CreDtTm") if self._group else None)
        if created is None:
            refuse(element.line, f"{element.where}/CreDtTm", "is missing, also in GrpHdr")
        try:
            created_day = fields.day(created.text)
        except ValueError as error:
            refuse(created.line, f"{element.where}/CreDtTm", str(error))
        opening, closing = self._balances()
        first, last = self._period(created_day)
        self._ready.append(
            Statement(
                account=now.account,
                currency=now.currency,
                name=now.name,
                created=created.text,
                number=element.digits("ElctrncSeqNb", "LglSeqNb"),
                page=now.page,
                first=first,
                last=last,
                opening=opening,
                closing=closing,
                lines=now.lines,
                credits=now.sums[Side.IN],
                debits=now.sums[Side.OUT],
            )
        )

    def _open(self) -> None:
        """Read the statement's own values; by the schema, they come before balances and entries."""
        now = self._now
        if now.account:
            return
        element = now.element
        now.name = fields.name(element.need("Id").text)
        now.account = fields.account(
            element.need("Acct/Id/IBAN", "Acct/Id/Othr/Id", hint=", and so is Acct/Id/Othr/Id").text
        )
        if (currency := element.find("Acct/Ccy")) is not None:
            self._agree(element, currency.text, currency.line, "Acct/Ccy")
        now.page = self._page(element)

    def _page(self, element: Element) -> tuple[int, bool] | None:
        for owner, path in (
            *((element, f"{kind}Pgntn") for kind in ("Stmt", "Ntfctn")),
            (self._group, "MsgPgntn"),
        ):
            if owner is not None and (number := owner.digits(f"{path}/PgNb")) is not None:
                owner.need(f"{path}/LastPgInd")
                page = (number, owner.flag(f"{path}/LastPgInd"))
                return None if page == (1, True) else page
        return None

    def _agree(self, element: Element, currency: str, line: int, path: str) -> None:
        where = f"{element.where}/{path}"
        if not currency:
            refuse(line, where, "its attribute Ccy is missing")
        if not self._now.currency:
            try:
                fields.decimals(currency, self._currencies)
            except ValueError as error:
                refuse(line, where, str(error))
            self._now.currency = currency
        if currency != self._now.currency:
            refuse(line, where, f"is in {shown(currency)}; must be in {self._now.currency} as the account")

    def _amount(self, element: Element, value: Value, path: str) -> int:
        self._agree(element, value.currency, value.line, path)
        return self._minor(element, value, path)

    def _minor(self, element: Element, value: Value, path: str) -> int:
        try:
            return fields.amount(value.text, value.currency, self._currencies)
        except ValueError as error:
            refuse(
                value.line, f"{element.where}/{path}", str(error).replace("a field of its own", "CdtDbtInd")
            )

    def _part_amount(self, element: Element) -> int | None:
        for path in ("Amt", "AmtDtls/TxAmt/Amt", "AmtDtls/InstdAmt/Amt"):
            value = element.find(path)
            if value is not None and value.currency == self._now.currency:
                return self._minor(element, value, path)
        return None

    def _begin(self, element: Element) -> None:
        """Read an entry's own values before the details; skip an entry that is not booked."""
        if self._entry is not None or self._left_out:
            return
        status = element.need("Sts/Cd", "Sts", hint=" before NtryDtls; must be BOOK, PDNG or INFO")
        self._left_out = status.text in _NOT_BOOKED
        if self._left_out:
            return
        if status.text != _BOOKED:
            refuse(
                status.line, f"{element.where}/Sts", f"is {shown(status.text)}; must be BOOK, PDNG or INFO"
            )
        valued = element.day("ValDt/Dt", "ValDt/DtTm")
        booked = element.day("BookgDt/Dt", "BookgDt/DtTm") or valued
        if booked is None:
            refuse(element.line, f"{element.where}/BookgDt", "is missing, and so is ValDt")
        self._entry = _Entry(
            element=element,
            booked=booked,
            valued=valued or booked,
            amount=self._amount(element, element.need("Amt"), "Amt"),
            side=element.side(element.need("CdtDbtInd")),
            returns="reversal" if element.flag("RvslInd") else "",
        )

    def _lines(self, entry: _Entry) -> Iterable[Line]:
        reference = fields.name(entry.element.text("AcctSvcrRef"))
        parts = entry.parts
        if len(parts) < 2 or all(part.amount is None for part in parts):
            yield self._line(
                entry,
                self._whole(entry),
                0,
                reference or (parts[0].bank_reference if len(parts) == 1 else ""),
            )
            return
        told = [part for part in parts if part.amount is not None]
        total = sum(part.amount or 0 if part.side is entry.side else -(part.amount or 0) for part in told)
        if total != entry.amount:
            refuse(
                entry.element.line,
                f"{entry.element.where}/Amt",
                f"is {self._render(entry.amount)}, and its {len(parts)} TxDtls have {self._render(total)}",
            )
        for number, part in enumerate(told, 1):
            yield self._line(entry, part, number, reference)

    def _render(self, minor: int) -> str:
        return money.render(minor, self._currencies[self._now.currency])

    def _whole(self, entry: _Entry) -> _Part:
        details = (one for part in entry.parts for one in part.references)
        names = details if entry.parts else (entry.element.text("NtryRef"),)
        return _Part(
            at=entry.element.line,
            amount=entry.amount,
            side=entry.side,
            references=fields.references(names)[: fields.REFERENCES_MAX],
            returns=next((part.returns for part in entry.parts if part.returns), ""),
            bank_reference="",
        )

    def _line(self, entry: _Entry, part: _Part, number: int, reference: str) -> Line:
        now = self._now
        return Line(
            account=now.account,
            currency=now.currency,
            amount=part.amount or 0,
            side=part.side,
            booked=entry.booked,
            valued=entry.valued,
            bank_reference=reference,
            references=part.references,
            returns=part.returns or entry.returns,
            # Pages of one statement may have one Id, and each begins again with its first entry.
            statement=f"{now.name} page {now.page[0]}" if now.page else now.name,
            position=now.entries,
            part=number,
            at=part.at,
        )

    def _balances(self) -> tuple[int | None, int | None]:
        """The opening and closing balances; an intermediate balance replaces a missing one.

        An intermediate balance alone could be either, so it is not used.
        """
        found = self._now.balances
        opening = found.get(_OPENING) or found.get(_PREVIOUS)
        closing = found.get(_CLOSING)
        between = found.get(_INTERMEDIATE, [])
        if opening is None and (len(between) > 1 or closing):
            opening = between[:1]
        if closing is None and (len(between) > 1 or opening):
            closing = between[-1:]
        return (opening[0][0] if opening else None, closing[0][0] if closing else None)

    def _period(self, created: str) -> tuple[str, str]:
        """First and last day: of FrToDt, else of the balances, the lines or the creation.

        The balance PRCD is left out: its date is the day before the first day.
        """
        now = self._now
        days = [day for code, known in now.balances.items() if code != _PREVIOUS for _, day in known]
        days = days or list(now.days or (created,))
        first = now.element.day("FrToDt/FrDtTm") or min(days)
        last = now.element.day("FrToDt/ToDtTm") or max(days)
        if first > last:
            refuse(
                now.element.line,
                f"{now.element.where}/FrToDt",
                f"ends on {last}, before it begins on {first}",
            )
        return first, last


def _returns(element: Element) -> str:
    """The reason of a return: the code, else the bank's words, else just "return"."""
    reasons = ("Rsn/Cd", "RtrRsn/Cd", "Rsn/Prtry", "RtrRsn/Prtry")
    reason = element.text(*(f"RtrInf/{one}" for one in reasons))[:REFERENCE_MAX]
    return reason or ("return" if "RtrInf" in element.values else "")
