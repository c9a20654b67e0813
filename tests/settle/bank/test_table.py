import io
import tomllib
from typing import Any

import pytest

from settle.bank import table
from settle.bank.table import Columns
from settlement.bank.statement import Line, Side, Statement, UnreadableStatement

CURRENCIES = {"EUR": 2, "JPY": 0, "KWD": 3}
GERMAN = tomllib.loads(
    """
    delimiter = ";"
    encoding = "windows-1252"
    decimal = ","
    date = "%d.%m.%Y"
    booked = "Buchungstag"
    valued = "Valuta"
    amount = "Betrag"
    currency_column = "Währung"
    account_column = "Konto"
    references = ["Zweck", "Name"]
    """
)
HEADER = "Buchungstag;Valuta;Betrag;Währung;Konto;Zweck;Name;Rest\n"
ROW = "27.11.2026;26.11.2026;-1.234,56;EUR;DE89 3704;Rechnung INV-1;Müller;x\n"


def read(text: str | bytes, **changes: Any) -> tuple[list[Line], list[Statement]]:
    file = text if isinstance(text, bytes) else text.encode("windows-1252")
    found = list(table.read(io.BytesIO(file), CURRENCIES, Columns.from_toml(GERMAN | changes)))
    lines = [one for one in found if isinstance(one, Line)]
    return lines, [one for one in found if isinstance(one, Statement)]


def one(**cells: str) -> str:
    """Return a file of one row, with some cells replaced."""
    names, values = HEADER.strip().split(";"), ROW.strip().split(";")
    return HEADER + ";".join(cells.get(name, value) for name, value in zip(names, values, strict=True)) + "\n"


def refusal(text: str | bytes, **changes: Any) -> str:
    with pytest.raises(UnreadableStatement) as refused:
        read(text, **changes)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) <= 300
    return str(refused.value)


def test_each_csv_row_becomes_a_bank_line() -> None:
    (found,), _ = read(HEADER + ROW)

    assert (found.account, found.currency, found.amount, found.side) == ("DE893704", "EUR", 123_456, Side.OUT)
    assert (found.booked, found.valued, found.bank_reference, found.at) == ("2026-11-27", "2026-11-26", "", 2)
    assert {"Rechnung INV-1 Müller", "Rechnung", "INV-1", "Müller"} <= set(found.references)


def test_each_account_and_currency_in_a_file_is_a_statement() -> None:
    rows = [ROW, ROW.replace("EUR", "KWD"), ROW.replace("-1.2", "1.2"), ROW.replace("27.11", "25.11")]

    lines, found = read(HEADER + "".join(rows))

    assert [(each.currency, each.lines, each.credits, each.debits) for each in found] == [
        ("EUR", 3, 123_456, 246_912),
        ("KWD", 1, 0, 1_234_560),
    ]
    assert (found[0].first, found[0].last) == ("2026-11-25", "2026-11-27")
    assert (found[0].opening, found[0].closing, len(lines)) == (None, None, 4)


def test_equal_rows_are_different_lines() -> None:
    lines, _ = read(HEADER + ROW + ROW)
    assert lines[0].identity != lines[1].identity


def test_a_row_has_the_same_identity_in_another_export() -> None:
    (line,), _ = read(HEADER + ROW)
    lines, _ = read(HEADER + ROW.replace("27.11", "25.11") + ROW)
    assert lines[1].identity == line.identity


def test_the_banks_reference_identifies_a_line() -> None:
    lines, _ = read(HEADER + ROW + ROW.replace("1.234", "9"), bank_reference="Rest")
    assert [line.bank_reference for line in lines] == ["x", "x"]
    assert lines[0].identity == lines[1].identity


def test_the_mapping_may_fix_the_account_and_currency() -> None:
    mapping = {key: value for key, value in GERMAN.items() if not key.endswith("_column")}
    columns = Columns.from_toml({**mapping, "account": "de 1", "currency": "KWD"})
    line = next(table.read(io.BytesIO(one().encode("windows-1252")), CURRENCIES, columns))
    assert (line.account, line.currency) == ("DE1", "KWD")


@pytest.mark.parametrize(("value", "side"), [("S", Side.OUT), ("H", Side.IN), ("Haben", Side.IN)])
def test_a_column_can_mark_lines_as_debit_or_credit(value: str, side: Side) -> None:
    (line,), _ = read(one(Rest=value, Betrag="5,00"), side="Rest", credit=["H", "Haben"], debit=["S"])
    assert (line.side, line.amount) == (side, 500)


@pytest.mark.parametrize(
    ("text", "decimal", "minor"),
    [
        *(("1.234,56", ",", 123_456), ("1234,56", ",", 123_456), ("1.234.567", ",", 123_456_700)),
        *(("1,234.56", ".", 123_456), ("1234.5", ".", 123_450), ("+5", ".", 500), ("-0,50", ",", 50)),
    ],
)
def test_an_amount_is_exact_in_minor_units(text: str, decimal: str, minor: int) -> None:
    (line,), _ = read(one(Betrag=text), decimal=decimal)
    assert line.amount == minor


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        *(("1.23,45", ","), ("12.34", ","), ("1.2345,00", ","), ("1234.567,00", ","), (".123,00", ",")),
        *(("1,23.45", "."), ("1,234,56", "."), ("1.234,56", "."), ("1 234.56", "."), ("1e3", "."), ("", ".")),
        *(("--1", "."), ("1-", "."), ("5.", "."), (".", ".")),
    ],
)
def test_a_misplaced_decimal_or_thousands_mark_is_refused(text: str, decimal: str) -> None:
    told = refusal(one(Betrag=text), decimal=decimal)
    assert told.startswith(f"line 2, column 'Betrag': is {text!r}; must be an amount such as")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "windows-1252", "iso-8859-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_encoding_used_by_banks_is_read(encoding: str, end: str) -> None:
    (line,), _ = read((HEADER + ROW).replace("\n", end).encode(encoding), encoding=encoding)
    assert "Müller" in line.references


def test_a_byte_order_mark_is_ignored() -> None:
    assert read((HEADER + ROW).encode("utf-8-sig"), encoding="utf-8") == read(HEADER + ROW)


def test_lines_before_the_header_count_in_line_numbers() -> None:
    (line,), _ = read(f'Umsätze;"\n\n{HEADER}{ROW}', preamble=2)
    assert line.at == 4


def test_a_multiline_row_has_the_number_of_its_first_line() -> None:
    lines, _ = read(HEADER + ROW.replace("Rechnung INV-1", '"a\nb"') + "\n" + ROW)
    assert [line.at for line in lines] == [2, 5]


def test_a_file_with_only_a_header_has_no_lines() -> None:
    assert read(HEADER) == ([], [])


WRONG: list[tuple[str | bytes, str]] = [
    ("", "line 1, start of the file: it is empty; must be CSV"),
    (b"PK\x03\x04", "it is a zip file"),
    ("<Document/>", "it is XML; must be CSV"),
    ("a;b\n", "line 1, column 'Buchungstag': is missing; the header has 'a, b'"),
    (HEADER.replace("Rest", "Betrag") + ROW, "line 1, column 'Betrag': must appear once in the header"),
    (HEADER + "27.11.2026;1,00\n", "line 2, row: has 2 fields; must have 8, as the header has"),
    (HEADER + ROW + ROW.strip() + ";y\n", "line 3, row: has 9 fields; must have 8"),
    (one(Rest="\0"), "line 2, a NUL byte: must be text without one"),
    (one(Rest="x" * 10_001), "line 2, row: a field has over 10,000 characters"),
    (one(Rest="x" * 200_000), "line 2, row: must be CSV: field larger than field limit"),
    (one(Rest="x" * 1_100_000), "line 2, row: must have at most 1,000,000 characters"),
    (one(Rest='"x'), "line 2, row: must be CSV: unexpected end of data"),
    (one(Rest='"x"y'), "line 2, row: must be CSV:"),
    ((HEADER + ROW).encode("windows-1252") + b"\x81\n", "line 3, row: must be text in windows-1252"),
    (one(Buchungstag="2026-11-27"), "line 2, column 'Buchungstag': is '2026-11-27'; must be a day"),
    (one(Buchungstag="31.11.2026"), "must be a day of the years 2000 to 2099 as %d.%m.%Y"),
    (one(Valuta="01.01.1999"), "line 2, column 'Valuta': is '01.01.1999'; must be a day"),
    (one(Konto=" "), "line 2, column 'Konto': is empty; must be the account"),
    (one(Währung="USD"), "line 2, column 'Währung': currency 'USD' must be one of the stage"),
    (one(Betrag="1,234"), "line 2, column 'Betrag': '1.234' must be a decimal string with at most 2"),
    (one(Betrag="\x1b[31m"), "line 2, column 'Betrag': is '\\x1b[31m'; must be an amount"),
]


@pytest.mark.parametrize(("text", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_file_is_refused_with_line_and_column(text: str | bytes, told: str) -> None:
    assert told in refusal(text)


def test_bytes_of_another_encoding_are_refused_naming_the_line() -> None:
    file = (HEADER + ROW * 2000).encode()
    assert refusal(file + b"\xff\n", encoding="utf-8") == "line 2002, row: must be text in utf-8-sig"


@pytest.mark.parametrize(("rest", "told"), [("X", "is 'X'; must be one of H, S"), ("S", "must have no sign")])
def test_an_unknown_side_or_a_signed_amount_is_refused(rest: str, told: str) -> None:
    amount = "-5,00" if rest == "S" else "5,00"
    assert told in refusal(one(Rest=rest, Betrag=amount), side="Rest", credit=["H"], debit=["S"])


def test_a_file_with_too_many_accounts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_ACCOUNTS_MAX", 1)
    assert "line 3, row: the file must have at most 1 accounts" in refusal(
        HEADER + ROW + ROW.replace("3704", "3705")
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"colour": "red"}, "'colour' must be one of account, account_column, amount"),
        ({"booked": None}, "booked is 'None'; must be a text"),
        ({"amount": ""}, "amount is missing"),
        ({"references": "Zweck"}, "references is 'Zweck'; must be a list of texts"),
        ({"references": [1]}, "references is '[1]'; must be a list of texts"),
        ({"preamble": "1"}, "preamble is '1'; must be a number of lines"),
        ({"preamble": True}, "preamble is 'True'; must be a number of lines"),
        ({"preamble": -1}, "preamble is '-1'; must be a number of lines"),
        ({"delimiter": ";;"}, "delimiter is ';;'; must be one character"),
        ({"encoding": "rot13"}, "encoding is 'rot13'; must be one of"),
        ({"decimal": "'"}, 'decimal is "\'"; must be "," or "."'),
        ({"date": "%d.%m."}, "date is '%d.%m.'; must be as %d.%m.%Y"),
        ({"date": "%d.%m.%Y %H"}, "date is '%d.%m.%Y %H'; must be as"),
        ({"currency": "EUR"}, "currency is 'EUR'; must be given, or else currency_column"),
        ({"account_column": ""}, "account is ''; must be given, or else account_column"),
        ({"side": "Rest"}, "side is 'Rest'; must be given with credit and debit"),
        ({"side": "Rest", "credit": ["H"], "debit": ["H"]}, "debit is \"('H',)\"; must be other values"),
    ],
)
def test_an_invalid_mapping_is_refused_naming_its_key(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="must be") as refused:
        Columns.from_toml(GERMAN | changes)
    assert told in str(refused.value)
