"""Statements as banks write them: camt.053 and camt.054 of versions 02 and 08, and MT940."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from settlement.bank.statement import Side

ACCOUNT = "DE89370400440532013000"
DAY = "2026-11-27"


def line(amount: str | None = "48.20", side: Side | str | None = Side.IN, **fields: Any) -> dict[str, Any]:
    """Return a statement line, or a part of one, for `camt`.

    Fields: `amount` (as written), `side`, `booked`, `valued`, `bank_reference` (AcctSvcrRef),
    `entry_reference` (NtryRef), `end_to_end`, `refs` (other elements of Refs, by name), `text` (Ustrd, one or
    several), `creditor` (a structured reference), `status` (default BOOK), `reversal`, `reason` (of a
    return), `currency`, `parts` (such dicts, each a TxDtls), `number` (NbOfTxs), `batch` (PmtInfId). None
    leaves the field's element out.
    """
    return {"amount": amount, "side": side, **fields}


def camt(  # noqa: PLR0917
    lines: Iterable[Mapping[str, Any]] = (),
    account: str | None = ACCOUNT,
    currency: str | None = "EUR",
    opening: str | None = "1000.00",
    closing: str | None = None,
    version: str = "08",
    kind: str = "camt.053",
    **fields: Any,
) -> bytes:
    """Return a message with one statement.

    `closing` follows from the opening and the lines unless it is given. Further fields: those of `statement`.
    """
    body = statement(
        lines,
        account=account,
        currency=currency,
        opening=opening,
        closing=closing,
        version=version,
        kind=kind,
        **fields,
    )
    return message(body, version=version, kind=kind)


def message(*statements: str, version: str = "08", kind: str = "camt.053") -> bytes:
    body = "BkToCstmrStmt" if kind == "camt.053" else "BkToCstmrDbtCdtNtfctn"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:{kind}.001.{version}">\n<{body}>\n'
        "<GrpHdr><MsgId>M-1</MsgId><CreDtTm>2026-11-27T23:00:00+01:00</CreDtTm></GrpHdr>\n"
        f"{''.join(statements)}</{body}>\n</Document>\n"
    ).encode()


def statement(
    lines: Iterable[Mapping[str, Any]] = (),
    *,
    account: str | None = ACCOUNT,
    currency: str | None = "EUR",
    opening: str | None = "1000.00",
    closing: str | None = None,
    version: str = "08",
    kind: str = "camt.053",
    name: str = "S-1",
    number: int | None = 7,
    page: tuple[int, bool] | None = None,
    day: str = DAY,
    first: str | None = None,
    codes: tuple[str, str] = ("OPBD", "CLBD"),
) -> str:
    """Return a message's Stmt or Ntfctn element, without balances for a camt.054 or if `opening` is None.

    `account`: an IBAN, another number as "other:0012345", or None. `codes`: the codes of the opening and the
    closing balance. `first`: the first day, by default `day`.
    """
    entries = list(lines)
    tag = "Stmt" if kind == "camt.053" else "Ntfctn"
    parts = [f"<{tag}>\n", _one("Id", name)]
    if page is not None:
        pages = _one("PgNb", page[0]) + _one("LastPgInd", str(page[1]).lower())
        parts.append(_one(f"{tag}Pgntn", pages, raw=True))
    parts.append(_one("ElctrncSeqNb", number))
    parts.append(_one("CreDtTm", f"{day}T22:00:00+01:00"))
    parts.append(_account(account, currency))
    if opening is not None and kind == "camt.053":
        parts.append(balance(codes[0], opening, currency or "EUR", first or day))
        parts.append(balance(codes[1], closing or _closing(opening, entries), currency or "EUR", day))
    parts += (_entry(entry, currency or "EUR", version, day) for entry in entries)
    return "".join((*parts, f"</{tag}>\n"))


def balance(code: str, amount: str, currency: str, day: str | None) -> str:
    side = "DBIT" if amount.startswith("-") else "CRDT"
    dated = f"<Dt><Dt>{day}</Dt></Dt>" if day else ""
    return (
        f"<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp>"
        f'<Amt Ccy="{currency}">{amount.lstrip("-")}</Amt><CdtDbtInd>{side}</CdtDbtInd>{dated}</Bal>\n'
    )


def _account(account: str | None, currency: str | None) -> str:
    if account is None:
        known = ""
    elif account.startswith("other:"):
        known = f"<Othr><Id>{account.removeprefix('other:')}</Id></Othr>"
    else:
        known = _one("IBAN", account)
    return f"<Acct><Id>{known}</Id>{_one('Ccy', currency)}</Acct>\n"


def _entry(entry: Mapping[str, Any], currency: str, version: str, day: str) -> str:
    status = entry.get("status", "BOOK")
    code = status if version == "02" or status is None else _one("Cd", status)
    booked, valued = entry.get("booked", day), entry.get("valued", day)
    parts = [
        "<Ntry>",
        _one("NtryRef", entry.get("entry_reference")),
        _amount(entry, currency),
        _one("CdtDbtInd", _code(entry)),
        _one("RvslInd", "true" if entry.get("reversal") else None),
        _one("Sts", code, raw=True),
        *(_day(name, text) for name, text in (("BookgDt", booked), ("ValDt", valued))),
        _one("AcctSvcrRef", entry.get("bank_reference")),
        "<BkTxCd><Domn><Cd>PMNT</Cd></Domn></BkTxCd>\n",
    ]
    batch = _one("PmtInfId", entry.get("batch")) + _one("NbOfTxs", entry.get("number"))
    inner = entry.get("parts", [entry] if _details(entry, version) else [])
    if batch or inner:
        parts.append(f"<NtryDtls>{_one('Btch', batch or None, raw=True)}")
        parts += (_transaction(part, currency, version, own=part is not entry) for part in inner)
        parts.append("</NtryDtls>\n")
    return "".join((*parts, "</Ntry>\n"))


def _transaction(part: Mapping[str, Any], currency: str, version: str, *, own: bool) -> str:
    amount = _amount(part, currency) if own else ""
    if version == "02":
        amount = f"<AmtDtls><TxAmt>{amount}</TxAmt></AmtDtls>" if amount else ""
    elif amount:
        amount += _one("CdtDbtInd", _code(part))
    return f"<TxDtls>{_references(part)}{amount}{_details(part, version)}</TxDtls>\n"


def _references(part: Mapping[str, Any]) -> str:
    names = {"EndToEndId": part.get("end_to_end"), **part.get("refs", {})}
    return _one("Refs", "".join(_one(name, text) for name, text in names.items()) or None, raw=True)


def _details(part: Mapping[str, Any], version: str) -> str:
    """Return RmtInf and RtrInf; without both, a space if the references need a TxDtls."""
    texts = part.get("text", [])
    remittance = "".join(_one("Ustrd", text) for text in ([texts] if isinstance(texts, str) else texts))
    if (creditor := part.get("creditor")) is not None:
        remittance += f"<Strd><CdtrRefInf>{_one('Ref', creditor)}</CdtrRefInf></Strd>"
    reason = "RtrRsn" if version == "02" else "Rsn"
    returned = _one(reason, _one("Cd", part.get("reason")) or None, raw=True)
    found = _one("RmtInf", remittance or None, raw=True) + _one("RtrInf", returned or None, raw=True)
    return found or (" " if _references(part) else "")


def _amount(entry: Mapping[str, Any], currency: str) -> str:
    if entry["amount"] is None:
        return ""
    return f'<Amt Ccy="{entry.get("currency", currency)}">{entry["amount"]}</Amt>'


def _code(entry: Mapping[str, Any]) -> str | None:
    side: str | None = entry["side"]
    return {"in": "CRDT", "out": "DBIT"}.get(side or "", side)


def _closing(opening: str, entries: Iterable[Mapping[str, Any]]) -> str:
    booked = [entry for entry in entries if entry.get("status", "BOOK") == "BOOK"]
    moved = (Decimal(entry["amount"]) * (1 if entry["side"] is Side.IN else -1) for entry in booked)
    return str(Decimal(opening) + sum(moved))


def _day(name: str, text: str | None) -> str:
    if text is None:
        return ""
    return f"<{name}>{_one('DtTm' if 'T' in text else 'Dt', text)}</{name}>"


def _one(name: str, content: object, *, raw: bool = False) -> str:
    if content is None:
        return ""
    return f"<{name}>{content if raw else escape(str(content))}</{name}>"
