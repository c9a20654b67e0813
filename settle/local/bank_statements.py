"""The simulated bank's account in one currency, and its statements (camt.053.001.08)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import takewhile
from xml.sax.saxutils import escape

from settlement.core.model import money

IBAN = "DE89370400440532013000"
"""The stage's account at the bank, with a sub-account for each currency."""

_FILE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>\n'
    "<GrpHdr><MsgId>{name}</MsgId><CreDtTm>{created}</CreDtTm></GrpHdr>\n"
    "{statements}</BkToCstmrStmt></Document>\n"
)
_STATEMENT = (
    "<Stmt><Id>{name}</Id><ElctrncSeqNb>{number}</ElctrncSeqNb><CreDtTm>{created}</CreDtTm>"
    "<FrToDt><FrDtTm>{day}T00:00:00Z</FrDtTm><ToDtTm>{day}T23:59:59Z</ToDtTm></FrToDt>"
    "<Acct><Id><IBAN>{iban}</IBAN></Id><Ccy>{currency}</Ccy></Acct>\n"
    "{opening}{closing}{entries}</Stmt>\n"
)
_BALANCE = "<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>{amount}<Dt><Dt>{day}</Dt></Dt></Bal>\n"
_AMOUNT = '<Amt Ccy="{currency}">{amount}</Amt><CdtDbtInd>{side}</CdtDbtInd>'
_ENTRY = (
    "<Ntry>{amount}<Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>{day}</Dt></BookgDt><ValDt><Dt>{day}</Dt></ValDt>"
    "<AcctSvcrRef>{name}</AcctSvcrRef>"
    "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>{family}</Cd><SubFmlyCd>{kind}</SubFmlyCd></Fmly></Domn></BkTxCd>"
    "<NtryDtls><TxDtls><Refs><EndToEndId>{reference}</EndToEndId></Refs>{amount}{text}{returned}</TxDtls>"
    "</NtryDtls></Ntry>\n"
)
_TEXT = "<RmtInf><Ustrd>{text}</Ustrd></RmtInf>"
_RETURNED = "<RtrInf><Rsn><Cd>{reason}</Cd></Rsn></RtrInf>"
_NO_REFERENCE = "NOTPROVIDED"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A booked line.

    `amount`: minor units, negative for a debit. `returns`: ISO code of a return's reason, else empty.
    """

    name: str
    day: date
    amount: int
    reference: str = ""
    returns: str = ""
    text: str = ""


@dataclass(kw_only=True)
class Account:
    """An account in one currency.

    `prefix`: the start of all names, unique to this run. `told`: number of lines on statements.
    `last_day`: the last statement's day, initially the bank's first.
    """

    currency: str
    exponent: int
    prefix: str
    opening: int = 0
    lines: list[Line] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)
    told: int = 0
    statements: int = 0
    last_day: date

    @property
    def closing(self) -> int:
        return self.opening + sum(line.amount for line in self.lines)

    def add(self, line: Line) -> None:
        """Book a line, on the day of the last line or statement if that is later."""
        day = max(line.day, self.last_day, *(one.day for one in self.lines[-1:]))
        self.lines.append(replace(line, day=day))

    def write(self, day: date, now: datetime) -> bytes:
        """Write a file with all new lines up to `day`: statements for `day` and each line's day."""
        untold = list(takewhile(lambda line: line.day <= day, self.lines[self.told :]))
        statements = [
            self._statement(one, [line for line in untold if line.day == one], now)
            for one in sorted({day, *(line.day for line in untold)})
        ]
        name = f"{self.prefix}-{self.currency}-F{len(self.files) + 1}"
        written = _FILE.format(name=name, created=_time(now), statements="".join(statements)).encode()
        self.files.append(written)
        self.last_day = day
        return written

    def _statement(self, day: date, lines: Sequence[Line], now: datetime) -> str:
        opening = self.opening + sum(line.amount for line in self.lines[: self.told])
        self.told += len(lines)
        self.statements += 1
        return _STATEMENT.format(
            name=f"{self.prefix}-{self.currency}-{self.statements}",
            number=self.statements,
            created=_time(now),
            day=day,
            iban=IBAN,
            currency=self.currency,
            opening=self._balance("OPBD", opening, day),
            closing=self._balance("CLBD", opening + sum(line.amount for line in lines), day),
            entries="".join(self._entries(lines)),
        )

    def _balance(self, code: str, amount: int, day: date) -> str:
        return _BALANCE.format(code=code, amount=self._amount(amount), day=day)

    def _entries(self, lines: Iterable[Line]) -> Iterable[str]:
        for line in lines:
            kind = "RRTN" if line.returns else "ESCT"
            yield _ENTRY.format(
                amount=self._amount(line.amount),
                day=line.day,
                name=line.name,
                family="ICDT" if line.returns or line.amount < 0 else "RCDT",
                kind=kind,
                reference=escape(line.reference or _NO_REFERENCE),
                text=_TEXT.format(text=escape(line.text)) if line.text else "",
                returned=_RETURNED.format(reason=line.returns) if line.returns else "",
            )

    def _amount(self, minor: int) -> str:
        side = "DBIT" if minor < 0 else "CRDT"
        return _AMOUNT.format(
            currency=self.currency, amount=money.render(abs(minor), self.exponent), side=side
        )


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
