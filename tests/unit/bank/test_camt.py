"""Tests the reader of camt statements on valid and corrupted files."""

import io
import re
import tracemalloc
from dataclasses import asdict
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.bank import camt
from settlement.bank.statement import Line, Side, Statement, UnreadableStatement
from tests.world import bank_files
from tests.world.bank_files import ACCOUNT, DAY, balance, line, message, statement

CURRENCIES = {"EUR": 2, "JPY": 0, "KWD": 3}
VERSIONS = pytest.mark.parametrize("version", ["02", "08"])
PLAIN = bank_files.camt([line(bank_reference="B-1", end_to_end="E-1", text="Invoice INV-1")])
BATCH = [line("10.00", end_to_end="E-1"), line("20.00", end_to_end="E-2", text="second")]


def read(file: bytes) -> tuple[list[Line], list[Statement]]:
    found = list(camt.read(io.BytesIO(file), CURRENCIES))
    lines = [one for one in found if isinstance(one, Line)]
    return lines, [one for one in found if isinstance(one, Statement)]


def only(**fields: Any) -> Line:
    version = fields.pop("version", "08")
    ((found,), _) = read(bank_files.camt([line(**fields)], version=version))
    return found


def refusal(file: bytes) -> str:
    with pytest.raises(UnreadableStatement) as refused:
        read(file)
    message = str(refused.value)
    assert message.isprintable()
    assert len(message) <= 300
    return message


def spoilt(old: str, new: str, count: int = 1) -> bytes:
    assert old.encode() in PLAIN
    return PLAIN.replace(old.encode(), new.encode(), count)


@VERSIONS
def test_a_line_has_its_amount_days_and_references(version: str) -> None:
    written = line(
        *("48.20", Side.OUT),
        **{"booked": "2026-11-26", "valued": "2026-11-25", "bank_reference": "B-1", "end_to_end": "E-1"},
        text="for INV-1",
    )

    ((found,), _) = read(bank_files.camt([written], version=version))

    assert asdict(found) == {
        **{"account": ACCOUNT, "currency": "EUR", "amount": 4820, "side": Side.OUT, "booked": "2026-11-26"},
        **{"valued": "2026-11-25", "bank_reference": "B-1", "references": ("E-1", "for INV-1", "INV-1")},
        **{"returns": "", "statement": "S-1", "position": 1, "part": 0, "at": 9},
    }


@VERSIONS
def test_a_camt_statement_has_number_dates_and_balances(version: str) -> None:
    file = bank_files.camt([line("10.00"), line("3.00", Side.OUT)], opening="-5.00", version=version)

    *lines, last = camt.read(io.BytesIO(file), CURRENCIES)

    assert [one.position for one in lines if isinstance(one, Line)] == [1, 2]
    assert asdict(last) == {
        **{"account": ACCOUNT, "currency": "EUR", "name": "S-1", "created": f"{DAY}T22:00:00+01:00"},
        **{"number": 7, "page": None, "first": DAY, "last": DAY, "opening": -500, "closing": 200},
        **{"lines": 2, "credits": 1000, "debits": 300},
    }


def test_an_empty_statement_has_no_lines() -> None:
    lines, (found,) = read(bank_files.camt())
    assert (lines, found.opening, found.closing, found.credits) == ([], 100_000, 100_000, 0)


def test_a_file_may_contain_statements_of_several_accounts() -> None:
    bodies = statement([line()]), statement([line(), line()], account="other: 00 123x", name="S-2")

    _, found = read(message(*bodies))

    assert [(one.account, one.lines) for one in found] == [(ACCOUNT, 1), ("00123X", 2)]


@VERSIONS
def test_a_camt_054_notification_has_lines_but_no_balances(version: str) -> None:
    (found,), (told,) = read(bank_files.camt([line()], kind="camt.054", version=version))
    assert (found.amount, told.opening, told.closing, told.first) == (4820, None, None, DAY)


@pytest.mark.parametrize("status", ["PDNG", "INFO"])
@VERSIONS
def test_an_entry_that_is_not_booked_is_skipped(status: str, version: str) -> None:
    pending = [line(status=status), line("9x", status=status, parts=BATCH, number=2, booked=None)]
    text = statement([line("1.00")], version=version).replace("<Ntry>", "@<Ntry>")
    extra = statement(pending, opening=None, version=version)
    entries = extra[extra.index("<Ntry>") : extra.index("</Stmt>")]

    (found,), (told,) = read(message(text.replace("@", entries), version=version))

    assert (found.amount, found.position, told.lines, told.credits) == (100, 1, 1, 100)


@pytest.mark.parametrize(
    ("fields", "references"),
    [
        ({"end_to_end": "NOTPROVIDED"}, ()),
        ({"end_to_end": "E  1\n2"}, ("E 1 2",)),
        ({"end_to_end": "E" * 150}, ("E" * 140,)),
        (
            {
                "refs": {"ClrSysRef": "C", "PmtInfId": "P", "TxId": "T", "InstrId": "I", "MndtId": "M"},
                "end_to_end": "E",
                "batch": "B",
                "entry_reference": "N",
            },
            ("E", "I", "T", "P", "B", "C", "N"),
        ),
        (
            {"creditor": "RF18 5390", "text": ["no", "RF18 5390"]},
            ("RF18 5390", "no RF18 5390", "noRF18 5390"),
        ),
        ({"text": "(INV-1), 'INV-2'."}, ("(INV-1), 'INV-2'.", "INV-1", "INV-2")),
        ({"text": ["abc", "def"]}, ("abc def", "abcdef")),
        ({"text": "same", "end_to_end": "same"}, ("same",)),
    ],
)
def test_references_are_listed_once_each_in_order(
    fields: dict[str, Any], references: tuple[str, ...]
) -> None:
    found = only(**fields).references
    assert tuple(one for one in found if one not in {"RF18", "5390", "noRF18"}) == references


def test_a_line_has_at_most_fifty_references() -> None:
    found = only(text=" ".join(f"word{n}" for n in range(100)), entry_reference="N-1").references
    assert (len(found), found[-1]) == (50, "N-1")


@pytest.mark.parametrize(
    ("fields", "returns"),
    [
        ({"reversal": True}, "reversal"),
        ({"reason": "AC04"}, "AC04"),
        ({"reason": "AC04", "reversal": True}, "AC04"),
        ({}, ""),
    ],
)
@VERSIONS
def test_a_reversal_keeps_its_debit_or_credit_side(
    fields: dict[str, Any], returns: str, version: str
) -> None:
    found = only(side=Side.OUT, version=version, **fields)
    assert (found.returns, found.side) == (returns, Side.OUT)


def test_a_return_without_a_reason_is_still_a_return() -> None:
    lines, _ = read(spoilt("<RmtInf>", "<RtrInf><AddtlInf>back</AddtlInf></RtrInf><RmtInf>"))
    assert lines[0].returns == "return"


@VERSIONS
def test_each_transaction_of_a_batch_becomes_a_line(version: str) -> None:
    written = line("30.00", parts=BATCH, number=2, batch="P", bank_reference="B", entry_reference="N")

    (first, second), (told,) = read(bank_files.camt([written], version=version))

    assert (first.amount, first.part, first.references) == (1000, 1, ("E-1", "P", "N"))
    assert (second.amount, second.part, second.references) == (2000, 2, ("E-2", "P", "second", "N"))
    assert (first.bank_reference, second.bank_reference, second.position) == ("B", "B", 1)
    assert first.identity != second.identity
    assert (told.lines, told.credits) == (2, 3000)


def test_a_transaction_may_have_the_opposite_side_of_its_batch() -> None:
    parts = [line("30.00"), line("10.00", Side.OUT)]
    lines, _ = read(bank_files.camt([line("20.00", parts=parts)]))
    assert [(one.amount, one.side) for one in lines] == [(3000, Side.IN), (1000, Side.OUT)]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [line("7.00", end_to_end="E-1", refs={"AcctSvcrRef": "D"})],
        [line(None, end_to_end="E-1"), line("9.00", currency="USD")],
    ],
)
def test_a_batch_without_amounts_per_transaction_is_one_line(parts: list[dict[str, Any]]) -> None:
    found = only(amount="30.00", parts=parts, number=len(parts) or 12, batch="P")
    assert (found.amount, found.part) == (3000, 0)
    assert found.references == (("E-1", "P") if parts else ())
    assert found.bank_reference == ("D" if len(parts) == 1 else "")


@pytest.mark.parametrize("own", ["TxAmt", "InstdAmt"])
def test_a_transactions_amount_is_taken_in_the_accounts_currency(own: str) -> None:
    foreign = '<Amt Ccy="USD">11.00</Amt>'
    file = bank_files.camt([line("30.00", parts=BATCH)]).decode()
    both = f'{foreign}<AmtDtls><{own}><Amt Ccy="EUR">10.00</Amt></{own}></AmtDtls>'

    lines, _ = read(file.replace('<Amt Ccy="EUR">10.00</Amt>', both).encode())

    assert [one.amount for one in lines] == [1000, 2000]


@pytest.mark.parametrize("name", ["NOTPROVIDED", "NONREF"])
def test_an_empty_bank_reference_identifies_no_line(name: str) -> None:
    lines, _ = read(bank_files.camt([line(bank_reference=name), line(bank_reference=name)]))
    assert [one.bank_reference for one in lines] == ["", ""]
    assert lines[0].identity != lines[1].identity


@pytest.mark.parametrize(
    ("booked", "valued", "days"),
    [
        ("2026-11-26T23:59:59-05:00", "2026-11-27Z", ("2026-11-26", "2026-11-27")),
        (None, "2026-11-25", ("2026-11-25", "2026-11-25")),
        ("2026-11-25", None, ("2026-11-25", "2026-11-25")),
    ],
)
def test_a_date_is_read_as_the_bank_wrote_it(
    booked: str | None, valued: str | None, days: tuple[str, str]
) -> None:
    found = only(booked=booked, valued=valued)
    assert (found.booked, found.valued) == days


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        *(("48.20", "EUR", 4820), ("48.2", "EUR", 4820), ("48", "EUR", 4800), ("048.2000", "EUR", 4820)),
        *((".5", "EUR", 50), ("0", "EUR", 0), ("1200.00", "JPY", 1200), ("1.5", "KWD", 1500)),
        ("9999999999999.99", "EUR", 999_999_999_999_999),
    ],
)
def test_an_amount_is_exact_in_minor_units(amount: str, currency: str, minor: int) -> None:
    ((found,), _) = read(bank_files.camt([line(amount)], currency=currency, opening=None))
    assert found.amount == minor


@pytest.mark.parametrize(
    ("codes", "balances"),
    [
        (("OPBD", "CLBD"), (100_000, 104_820)),
        (("PRCD", "CLBD"), (100_000, 104_820)),
        (("ITBD", "ITBD"), (100_000, 104_820)),
        (("OPBD", "ITBD"), (100_000, 104_820)),
        (("ITBD", "CLBD"), (100_000, 104_820)),
        (("ITBD", "CLAV"), (None, None)),
        (("OPBD", "CLAV"), (100_000, None)),
    ],
)
def test_opening_and_closing_balance_are_found_by_their_codes(
    codes: tuple[str, str], balances: tuple[int | None, int | None]
) -> None:
    _, (found,) = read(bank_files.camt([line()], codes=codes))
    assert (found.opening, found.closing) == balances


def test_intermediate_balances_count_as_opening_and_closing() -> None:
    between = "".join(balance("ITBD", amount, "EUR", DAY) for amount in ("1.00", "2.00", "3.00", "3.00"))
    _, (found,) = read(message(statement(opening=None).replace("</Acct>", f"</Acct>{between}")))
    assert (found.opening, found.closing) == (100, 300)


@pytest.mark.parametrize("kind", ["camt.053", "camt.054"])
def test_each_page_of_a_statement_has_its_own_lines(kind: str) -> None:
    pages = [statement([line()], page=(number, number == 2), kind=kind) for number in (1, 2)]

    (first, second), found = read(message(*pages, kind=kind))

    assert [one.page for one in found] == [(1, False), (2, True)]
    assert first.identity != second.identity


def test_an_older_message_version_has_the_page_in_its_header() -> None:
    page = "<MsgPgntn><PgNb>2</PgNb><LastPgInd>true</LastPgInd></MsgPgntn></GrpHdr>"
    _, (found,) = read(spoilt("</GrpHdr>", page))
    assert found.page == (2, True)


def test_a_statement_of_one_page_has_no_page_number() -> None:
    _, (found,) = read(bank_files.camt(page=(1, True)))
    assert found.page is None


def test_a_statements_dates_are_read_from_its_period() -> None:
    period = "<FrToDt><FrDtTm>2026-11-01T00:00:00</FrDtTm><ToDtTm>2026-11-30T23:59:59</ToDtTm></FrToDt><Acct>"
    _, (found,) = read(spoilt("<Acct>", period))
    assert (found.first, found.last) == ("2026-11-01", "2026-11-30")


def test_the_currency_may_come_from_the_entries() -> None:
    found, _ = read(bank_files.camt([line(currency="KWD")], currency=None, opening=None))
    assert (found[0].currency, found[0].amount) == ("KWD", 48_200)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1", "windows-1252"])
def test_each_encoding_used_by_banks_is_read(encoding: str) -> None:
    file = bank_files.camt([line(text="Müller & Söhne")]).decode().replace('"UTF-8"', f'"{encoding}"')
    (found,), _ = read(file.encode(encoding))
    assert found.references[0] == "Müller & Söhne"


def test_a_byte_order_mark_is_ignored() -> None:
    assert read(b"\xef\xbb\xbf" + PLAIN) == read(PLAIN)


def test_foreign_elements_are_allowed_within_an_envelope() -> None:
    own = '<SplmtryData><Envlp><x:a xmlns:x="urn:x">1</x:a></Envlp></SplmtryData></Stmt>'
    assert read(spoilt("</Stmt>", own)) == read(PLAIN)


WRONG_FILES: list[tuple[bytes, str]] = [
    (b"", "line 1, start of the file: it is empty"),
    (b" \n", "line 1, start of the file: it is empty"),
    (b"PK\x03\x04rest", "it is a zip file: unpack it first"),
    (b"\x1f\x8b\x08", "it is a gzip file"),
    (b"%PDF-1.7", "it is a PDF"),
    (b'{"a": 1}', "it is JSON"),
    (b":20:STARTUMS", "it is a SWIFT message"),
    (b"Date;Amount\n", "it is another text, such as CSV"),
    (b"<Document/>", "line 1, Document: has no namespace; must be urn:iso"),
    (b"<html/>", "line 1, root 'html': must be Document"),
    (PLAIN + b"<Document/>", "line 16, after </Document>: a file must have one root"),
    (PLAIN[:-20], "line 14, BkToCstmrStmt: the file ends within it: it is truncated"),
    (PLAIN[:900], "the file ends within it: it is truncated"),
    (message(), "line 2, Document/BkToCstmrStmt/Stmt: is missing"),
    (bank_files.camt(account=None), "line 5, Stmt[1]/Acct/Id/IBAN: is missing, and so is Acct/Id/Othr/Id"),
    (
        bank_files.camt(currency=None, opening=None),
        "Stmt[1]/Acct/Ccy: is missing, and no entry has a currency",
    ),
    (message(statement(number=None).replace("<CreDtTm>", "<CreDtTm>x")), "Stmt[1]/CreDtTm: 'x2026"),
    (re.sub(rb"<CreDtTm>.*?</CreDtTm>", b"", PLAIN), "Stmt[1]/CreDtTm: is missing, also in GrpHdr"),
]
"""Files that the reader refuses, each with the error's text."""

SPOILT: list[tuple[str, str, str]] = [
    ("camt.053.001.08", "camt.052.001.08", "line 2, Document: is camt.052, a report within the day"),
    ("camt.053.001.08", "camt.053.001.01", "line 2, Document: namespace '"),
    ("camt.053.001.08", "camt.053.001.14", "NN from 02 to 13"),
    ("camt.053.001.08", "pain.001.001.03", "must be urn:iso:std:iso:20022:tech:xsd:camt.053.001.NN"),
    ("camt.053", "camt.054", "Document/BkToCstmrDbtCdtNtfctn/Ntfctn: is missing"),
    ("<Document", "<!DOCTYPE a><Document", "line 2, DOCTYPE: a statement must have none"),
    ("INV-1", "&bomb;", "line 10, Stmt[1]/Ntry[1]/NtryDtls[1]/TxDtls[1]/RmtInf/Ustrd: must be well-formed"),
    ("INV-1", "\0", "a NUL byte: must be text without one"),
    ("INV-1", "<", "must be well-formed XML: not well-formed"),
    (
        "</Stmt>",
        '<i:include xmlns:i="http://www.w3.org/2001/XInclude"/></Stmt>',
        "element 'http://www.w3.org",
    ),
    ('"UTF-8"', '"UTF-7"', "line 1, XML declaration: encoding 'UTF-7' must be UTF-8"),
    ("<RmtInf>", "<a>" * 60, "elements must be nested at most 64 levels deep"),
    ("INV-1", "x" * 10_001, "TxDtls[1]/RmtInf/Ustrd: text must have at most 10,000 characters"),
    ("<RmtInf>", f'<RmtInf a="{"x" * 10_001}">', "attributes must have at most 10000 characters"),
    ("<RmtInf>", f"<RmtInf><!--{'x' * 500_000}-->", "a tag, comment or instruction has over 262144 bytes"),
    ("<RmtInf>", "".join(f"<a{n}/>" for n in range(20_000)) + "<RmtInf>", "over 10000 different names"),
    ("<RmtInf>", f"<RmtInf>{'<Ustrd>x</Ustrd>' * 1_000}", "RmtInf/Ustrd: must appear at most 1,000 times"),
    ("<Id>S-1</Id>", "", "Stmt[1]/Id: is missing"),
    ("<Ccy>EUR</Ccy>", "<Ccy>XTS</Ccy>", "Stmt[1]/Acct/Ccy: currency 'XTS' must be one of the stage: EUR"),
    ("<ElctrncSeqNb>7", "<ElctrncSeqNb>7.5", "Stmt[1]/ElctrncSeqNb: is '7.5'; must be a whole number"),
    ("<ElctrncSeqNb>", "<ElctrncSeqNb>1</ElctrncSeqNb><ElctrncSeqNb>", "ElctrncSeqNb: must appear once"),
    ("<ElctrncSeqNb>7", "<ElctrncSeqNb><a/>7", "Stmt[1]/ElctrncSeqNb: must have text only"),
    ("<Dt><Dt>2026-11-27</Dt></Dt>", "", "line 7, Stmt[1]/Bal[1]/Dt: is missing: the OPBD balance"),
    ("<CdtDbtInd>CRDT</CdtDbtInd>", "", "line 7, Stmt[1]/Bal[1]/CdtDbtInd: is missing"),
    ("<Ntry>", balance("OPBD", "7.00", "EUR", DAY) + "<Ntry>", "Bal[3]/Tp/CdOrPrtry/Cd: is OPBD again"),
    ("<Acct>", "<FrToDt><FrDtTm>2026-12-01T00:00:00</FrDtTm></FrToDt><Acct>", "FrToDt: ends on 2026-11-27"),
    ("<Acct>", "<StmtPgntn><PgNb>1</PgNb></StmtPgntn><Acct>", "Stmt[1]/StmtPgntn/LastPgInd: is missing"),
    (
        "<Acct>",
        "<StmtPgntn><PgNb>1</PgNb><LastPgInd>no</LastPgInd></StmtPgntn><Acct>",
        "StmtPgntn/LastPgInd: is 'no'; must be true or false",
    ),
]
"""Changes that make the valid file invalid: old text, new text, and the error's text."""

ENTRY = "line 9, Stmt[1]/Ntry[1]"
WRONG_ELEMENTS: list[tuple[dict[str, Any], str]] = [
    ({"status": None}, f"{ENTRY}/Sts/Cd: is missing before NtryDtls; must be BOOK"),
    ({"status": "FUTR"}, f"{ENTRY}/Sts: is 'FUTR'; must be BOOK, PDNG or INFO"),
    ({"amount": None}, f"{ENTRY}/Amt: is missing"),
    (
        {"amount": "-1.00"},
        f"{ENTRY}/Amt: '-1.00' has a sign, and must have none: CdtDbtInd has the direction",
    ),
    ({"amount": "1,00"}, f"{ENTRY}/Amt: '1,00' must be a decimal number with a point"),
    ({"amount": "1e3"}, f"{ENTRY}/Amt: '1e3' must be a decimal number"),
    ({"amount": "."}, f"{ENTRY}/Amt: '.' must be a decimal number"),
    ({"amount": "1.001"}, f"{ENTRY}/Amt: '1.001' must be a decimal string with at most 2 decimals"),
    ({"amount": "99999999999999.00"}, "at most 13 digits before the point"),
    ({"amount": "1\u202e2" * 50}, f"{ENTRY}/Amt: '1\\u202e21\\u202e2"),
    ({"currency": "USD"}, f"{ENTRY}/Amt: is in 'USD'; must be in EUR as the account"),
    ({"currency": ""}, f"{ENTRY}/Amt: its attribute Ccy is missing"),
    ({"side": None}, f"{ENTRY}/CdtDbtInd: is missing"),
    ({"side": "C"}, f"{ENTRY}/CdtDbtInd: is 'C'; must be CRDT or DBIT"),
    ({"booked": None, "valued": None}, f"{ENTRY}/BookgDt: is missing, and so is ValDt"),
    ({"booked": "2026-02-30"}, f"{ENTRY}/BookgDt/Dt: '2026-02-30' must be a day of the years 2000 to 2099"),
    ({"valued": "1999-12-31"}, f"{ENTRY}/ValDt/Dt: '1999-12-31' must be a day"),
    ({"amount": "31.00", "parts": BATCH}, f"{ENTRY}/Amt: is 31.00, and its 2 TxDtls have 30.00"),
    (
        {"amount": "30.00", "parts": BATCH, "number": 3},
        "NtryDtls[1]/Btch/NbOfTxs: is 3, and there are 2 TxDtls",
    ),
    ({"amount": "10.00", "parts": BATCH[:1], "number": 2}, "Btch/NbOfTxs: is 2, and there are 1 TxDtls"),
    ({"amount": "30.00", "parts": BATCH, "number": "x"}, "Btch/NbOfTxs: is 'x'; must be a whole number"),
    (
        {"amount": "1.00", "parts": [line("1.0x"), line()]},
        "NtryDtls[1]/TxDtls[1]/Amt: '1.0x' must be a decimal",
    ),
]


WRONG = [
    *WRONG_FILES,
    *(
        (bank_files.camt([line(**each)], opening="1.00", closing="2.00"), told)
        for each, told in WRONG_ELEMENTS
    ),
    *((spoilt(old, new), told) for old, new, told in SPOILT),
]


@pytest.mark.parametrize(("file", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_file_is_refused_with_line_and_element(file: bytes, told: str) -> None:
    assert told in refusal(file)


def test_an_account_after_its_entries_is_refused() -> None:
    account = PLAIN[PLAIN.index(b"<Acct>") : PLAIN.index(b"</Acct>") + len("</Acct>")]
    moved = PLAIN.replace(account, b"").replace(b"</Stmt>", account + b"</Stmt>")
    assert "Stmt[1]/Acct/Id/IBAN: is missing" in refusal(moved)


def test_an_entry_with_too_many_transactions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("settlement.bank.camt_statement.TRANSACTIONS_MAX", 1)
    told = refusal(bank_files.camt([line("30.00", parts=BATCH)]))
    assert "TxDtls[2]: an entry must have at most 1 TxDtls" in told


@pytest.mark.long
def test_memory_does_not_grow_with_the_entries() -> None:
    before, entry, after = PLAIN.partition(PLAIN[PLAIN.index(b"<Ntry>") : PLAIN.index(b"</Stmt>")])
    chunks = iter([before, *[entry * 20] * 250, after])
    file = Mock(read=lambda _: next(chunks, b""))

    tracemalloc.start()
    found = sum(1 for _ in camt.read(file, CURRENCIES))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found == 5_001
    assert peak < 1_000_000


SOURCES = [
    bank_files.camt(
        [line("30.00", parts=BATCH, number=2, bank_reference="B"), line(reason="AC04")], version=version
    )
    for version in ("02", "08")
]
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "double"]), st.integers(0, 4_000), st.integers(1, 255)),
    min_size=1,
    max_size=4,
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(SOURCES), MUTATIONS)
def test_a_mutated_file_is_read_or_refused(source: bytes, mutations: list[tuple[str, int, int]]) -> None:
    file = source
    for way, place, size in mutations:
        at = place % (len(file) or 1)
        piece = file[at : at + size]
        middle = {
            "flip": bytes(one ^ size for one in piece[:1]) + piece[1:],
            "cut": b"",
            "double": piece * 2,
        }[way]
        file = file[:at] + middle + file[at + size :]
    told = ""
    try:
        read(file)
    except UnreadableStatement as error:
        told = str(error)
    assert told.isprintable()
    assert len(told) <= 300
