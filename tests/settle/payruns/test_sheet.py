import csv
import io
import json
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from settle.exit_codes import CommandFailed, Exit
from settle.payruns import sheet
from settle.payruns.sheet import LINE_BYTES_MAX, PROBLEMS_MAX, Sheet
from settlement.core.model.stage_config import StageConfig
from settlement.payruns.file import Header, Kind, Line, problem_of
from tests.settle.conftest import failing

CONFIG = StageConfig(
    currencies={"EUR": 2, "JPY": 0, "KWD": 3},
    highest_balances={},
    fee_basis_points=0,
    deadline_seconds=900,
    recover_after_seconds=30,
)
BOB = Line(number=2, payee="bob", amount="48.20", currency="EUR")
HEADER = b"payee,amount,currency,payee_name,reference\n"
ALL = "payee, amount, currency, payee_name (optional), reference (optional), each once"
PAYERS = {kind: Header(name="run", kind=kind, payer="the.payer") for kind in Kind}

Found = list[tuple[int, str, str]]
"""Each problem's line, its column and a part of its text."""


def read(content: bytes, kind: Kind = Kind.PAYMENTS, stream: Any = None, **options: Any) -> Sheet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=stream or io.BytesIO(content)))
        found = sheet.read("-", kind, CONFIG, **options)
    assert all(problem_of("0" * 32, PAYERS[kind], line, CONFIG) is None for line in found.lines)
    assert all(one.text.isprintable() and one.column.isprintable() for one in found.problems)
    assert all(len(one.text) <= 300 and len(one.column) <= 40 for one in found.problems)
    assert [one.line for one in found.problems if one.line] == sorted(
        one.line for one in found.problems if one.line
    )
    return found


def check(content: bytes, problems: Found, kind: Kind = Kind.PAYMENTS, **options: Any) -> Sheet:
    found = read(content, kind, **options)
    assert [one[:2] for one in found.problems] == [one[:2] for one in problems]
    for one, (_, _, part) in zip(found.problems, problems, strict=True):
        assert part in one.text
    return found


def row(**cells: str) -> bytes:
    """A file of one line, with some cells replaced."""
    names = ("payee", "amount", "currency", "payee_name", "reference")
    given = dict.fromkeys(names, "") | {"payee": "bob", "amount": "48.20", "currency": "EUR"} | cells
    written = io.StringIO()
    csv.writer(written).writerow(given.values())
    return HEADER + written.getvalue().encode()


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"payee,amount,currency\nbob,48.20,EUR\n", {}),
        (b"payee,amount,currency\r\nbob,48.20,EUR", {}),
        (b"payee,amount,currency\rbob,48.20,EUR\r", {}),
        (b"payee;amount;currency\nbob;48.20;EUR\n", {}),
        (b'"payee"\t"amount"\t"currency"\n"bob"\t"48.20"\t"EUR"\n', {}),
        (b"\xef\xbb\xbfpayee,amount,currency\nbob,48.20,EUR\n", {}),
        ("payee\tamount\tcurrency\r\nbob\t48.20\tEUR\r\n".encode("utf-16"), {}),
        ("\ufeffpayee,amount,currency\nbob,48.20,EUR\n".encode("utf-16-be"), {}),
        (b" Amount , PAYEE ,payee_name, Currency\n48.20 , bob,, EUR\n", {}),
        (b'payee, "amount", currency\nbob, "48.20", EUR\n', {}),
        ("payee,amount,currency\n\u200bbob\u00a0,\u00a048.20,EUR\ufeff\n".encode(), {}),
        (b'payee,amount,currency\n"bob\n",48.20,EUR\n', {}),
        (b"payee,amount,currency\nbob,48.20,EUR\n\n , ,\n,,\n\xc2\xa0,,\n\r\n", {}),
        (b"payee,amount\nbob,48.20\n", {"currency": "EUR"}),
        (b"payee,amount,currency\nbob,48.20,\n", {"currency": "EUR"}),
        (b"payee,amount,currency\nbob,48.20,EUR\n", {"currency": "JPY"}),
        (b"payee,amount,currency\nbob,48.20,EUR\n", {"kind": Kind.PAYOUTS}),
        (b"destination,amount,currency\nbob,48.20,EUR\n", {"kind": Kind.PAYOUTS}),
        (b'\n{"payee": "bob", "amount": "48.20", "currency": "EUR"}\n\n', {}),
        (b'\n{"AMOUNT": "48.20", "payee ": " bob", "currency": null}', {"currency": "EUR"}),
        (b'\n{"destination":"bob","amount":"48.20","currency":"EUR"}', {"kind": Kind.PAYOUTS}),
    ],
)
def test_each_form_of_a_file_gives_the_same_line(content: bytes, options: dict[str, Any]) -> None:
    assert check(content, [], **options) == ([BOB], [], 0, [])


def test_optional_texts_are_kept_in_one_unicode_form() -> None:
    content = row(payee_name="Zoe\u0308\u00a0M\u200cB", reference="#12")
    (line,) = check(content, []).lines
    assert (line.payee_name, line.reference) == ("Zo\u00eb M\u200cB", "#12")


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (
            b"bob,48.20,EUR\n",
            [(1, "", f"the columns' names, with a comma, semicolon or tab between: add {ALL[:12]}")],
        ),
        (b"\n\n\nEmpf\xc3\xa4nger|Betrag\n", [(4, "", "add payee, amount, currency")]),
        (b"payee,amount\n", [(1, "currency", f"must be {ALL}: add this column")]),
        (b"payee,amount,currency,note\n", [(1, "note", f"{ALL}: rename or remove column 4")]),
        (b"payee,amount,currency,,\n", [(1, "", "column 4"), (1, "", "column 5")]),
        (b"payee,amount,amount,currency\n", [(1, "amount", "column 2"), (1, "amount", "column 3")]),
        (b"payee,amount,currency," + b"x" * 90, [(1, "x" * 40, "column 4")]),
        (b"payee,amount,currency,destination\n", [(1, "destination", "column 4")]),
        (
            b'{"payee":"bob","amount":"1","PAYEE":"eve"}',
            [(1, "payee", "1"), (1, "payee", "3"), (1, "currency", "")],
        ),
    ],
)
def test_wrong_columns_are_answered_with_the_allowed_ones(content: bytes, problems: Found) -> None:
    assert check(content, problems).lines == []


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (b"payee,amount,currency,reference\n", [(1, "reference", "destination (for payee), each once")]),
        (b"payee,amount,currency,destination\n", [(1, "payee", "column 1"), (1, "destination", "column 4")]),
        (
            b"destination,amount,currency\na.b,1,EUR\n",
            [(2, "destination", "^[A-Za-z0-9_-]{1,64}$, not 'a.b'")],
        ),
        (b"payee,amount,currency\n,1,EUR\n", [(2, "payee", "leave it out if it is a total")]),
    ],
)
def test_a_faulty_column_of_a_payouts_file_is_named(content: bytes, problems: Found) -> None:
    assert check(content, problems, Kind.PAYOUTS).lines == []


@pytest.mark.parametrize(
    ("amount", "currency", "part"),
    [
        ("48,20", "EUR", "must have a decimal point, not '48,20': export the amounts with a point"),
        ("1,234.50", "EUR", "must have no blanks or thousands separators"),
        ("1.234,50", "EUR", "thousands separators"),
        ("1.234.567", "EUR", "thousands separators"),
        ("1'234.50", "EUR", "thousands separators"),
        ("1\u2019234.50", "EUR", "thousands separators"),
        ("1 234.50", "EUR", "thousands separators"),
        ("1\u202f234.50", "EUR", "thousands separators"),
        ("\u20ac48.20", "EUR", "must be the number alone, such as 48.20"),
        ("48.20 EUR", "EUR", "currency to its own column"),
        ("1e5", "EUR", "number alone"),
        ("4\u200b8.20", "EUR", "not '4\\u200b8.20'"),
        ("1E+05", "EUR", "must be written in full"),
        ("1,2E-05", "EUR", "must be written in full"),
        ("2026-11-29", "EUR", "must be an amount and no date"),
        ("2026-11-29 00:00", "EUR", "no date"),
        ("29.11.2026", "EUR", "no date"),
        ("11/29/26", "EUR", "no date"),
        ("11/29/2026", "EUR", "no date"),
        ("0.00", "EUR", "must be more than 0, not '0.00'"),
        ("-5.00", "EUR", "more than 0"),
        ("(5.00)", "EUR", "more than 0"),
        ("5.00-", "EUR", "more than 0"),
        ("\u22125", "EUR", "more than 0"),
        ("48.205", "EUR", "at most 2 decimals"),
        ("48.20", "JPY", "no decimals"),
        ("048.20", "EUR", "not '048.20': correct it"),
        (".50", "EUR", "not '.50': correct it"),
        ("48.", "EUR", "not '48.': correct it"),
        ("", "EUR", "not ''"),
        ("1234567890123456", "EUR", "at most 13 digits"),
        ("=SUM(B2:B9)", "EUR", "must not begin as a formula"),
        ("-B2", "EUR", "formula"),
        ("+48.20", "EUR", "formula"),
        ("'48.20", "EUR", 'must have no apostrophe at its start, not "\'48.20": remove it'),
        ("#REF!", "EUR", "must be a value, not '#REF!': correct the cell"),
        ("#####", "EUR", "be a value"),
    ],
)
def test_each_wrong_amount_is_answered_with_its_remedy(amount: str, currency: str, part: str) -> None:
    assert check(row(amount=amount, currency=currency), [(2, "amount", part)]).lines == []


@pytest.mark.parametrize(
    ("column", "text", "part"),
    [
        (
            "payee",
            "bob smith",
            "must be an id that matches ^[A-Za-z0-9_.-]{1,64}$, not 'bob smith': correct it",
        ),
        ("payee", "x" * 65, "an id"),
        ("payee", "bo\u00adb", "must have no line break or invisible character, and has '\\xad': remove it"),
        ("payee", "bo\u00a0b", "invisible character, and has '\\xa0'"),
        ("payee", "bo\u200db", "not 'bo\\u200db'"),
        ("payee", "bo\nb", "no line break"),
        ("payee", "'0123", "no apostrophe"),
        ("payee", "1.23457E+17", "written in full"),
        ("payee", "-bob", "formula"),
        ("payee", "#NAME?", "be a value"),
        ("payee", "", "must be a payee: remove the line or leave it out if it is a total"),
        ("currency", "eur", "must be one of EUR, JPY, KWD, not 'eur'"),
        ("currency", "", "one of EUR"),
        ("currency", "=A1", "formula"),
        ("payee_name", "=HYPERLINK(1)", "formula"),
        ("payee_name", "\uff1dA1", "formula"),
        ("payee_name", "@bob", "formula"),
        ("payee_name", "'=A1", "apostrophe"),
        ("payee_name", "Bob\nSmith", "line break or invisible character, and has '\\n'"),
        ("payee_name", "Bob\u202eS", "'\\u202e'"),
        ("payee_name", "x" * 101, "must be at most 100 characters, not 'xxxx"),
        ("reference", "x" * 65, "at most 64 characters"),
        ("reference", "+1 2", "formula"),
        ("reference", "#BEZUG!", "be a value"),
        ("reference", "#DIV/0!", "be a value"),
        ("reference", "#N/A", "be a value"),
        ("reference", "Err:502", "be a value"),
    ],
)
def test_each_wrong_text_is_answered_with_its_remedy(column: str, text: str, part: str) -> None:
    found = check(row(**{column: text}), [(2, column, part)])
    assert found.lines == []
    assert "x" * 41 not in found.problems[0].text


@pytest.mark.parametrize(
    "name", ["'t Hooft", "O'Hara", "#1 Shop", "A+B - C", "\u0645\u06cc\u200c\u062e", "7E5"]
)
def test_real_names_are_not_refused_as_spreadsheet_artefacts(name: str) -> None:
    (line,) = check(row(payee_name=name), []).lines
    assert line.payee_name == name


@pytest.mark.parametrize(
    ("rest", "problems", "count"),
    [
        (b"bob,1,EUR,,,\n", [(2, "", "must have 5 fields as the header has, not 6")], 0),
        (b"bob,48,20,EUR,,\nbob,1,EUR,,\n", [(2, "", "quote a value that contains a separator")], 1),
        (b"bob,1\n", [(2, "", "not 2")], 0),
        (b"bob,x,Eur,,\neve,0,EUR,,\n", [(2, "amount", ""), (2, "currency", ""), (3, "amount", "")], 0),
        (b'bob,1,EUR,"A\n\nB",\n\neve,0,EUR,,\n', [(2, "payee_name", "line break"), (6, "amount", "")], 0),
        (b"bob,1,EUR,,\n,1.00,,,\n", [(3, "payee", "total")], 1),
        (
            b"bob,1,EUR,,\neve,1,EUR,Zo\xeb,\n",
            [(3, "", "must be text in UTF-8: save the file as CSV UTF-8")],
            1,
        ),
        (b"bob,1,EUR,,\n\nb\0b,1,EUR,,\n", [(4, "", "NUL byte")], 1),
        (b'bob,1,EUR,,\nbob,"1"x,EUR,,\n', [(3, "", "a quote at each end")], 1),
        (b'bob,1,EUR,,\n"bob,1,EUR,,\neve,1,EUR,,\n', [(3, "", "a quote at each end")], 1),
        (b'bob,1,EUR,,\n"' + b"eve,1,EUR,,\n" * 9_999, [(3, "", "must be at most 16,384 bytes")], 1),
        (b"bob,1,EUR,,\n" + b"x" * 1_000_000 + b"\neve,1,EUR,,", [(3, "", "16,384 bytes")], 1),
        (b"bob,1,EUR,,\n" + "\u20ac".encode() * 5_462, [(3, "", "16,384 bytes")], 1),
        (b"", [(0, "", "must have a line with a payee")], 0),
        (b"\n,,,,\n", [(0, "", "must have a line with a payee")], 0),
    ],
)
def test_a_faulty_csv_line_is_named(rest: bytes, problems: Found, count: int) -> None:
    assert len(check(HEADER + rest, problems).lines) == count


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        (b"[]", [(2, "", "must be a JSON object with each field once")]),
        (b"{", [(2, "", "JSON object")]),
        (b'{"payee":"a","payee":"b","amount":"1"}', [(2, "", "each field once")]),
        (b"{}", [(2, "payee", "add this column"), (2, "amount", "add this column")]),
        (b'{"payee":"bob","amount":48.2}', [(2, "amount", 'put it in quotes, such as "48.20"')]),
        (b'{"payee":["bob"],"amount":"1"}', [(2, "payee", "must be a text")]),
        (b'{"payee":"","amount":""}', [(2, "payee", "an id"), (2, "amount", "not ''")]),
        (b'{"payee":"\\ud800","amount":"1"}', [(2, "payee", "'\\ud800'")]),
        (b'{"payee":"bob","amount":"1","\\ud800":"1"}', [(2, "\\ud800", "column 3")]),
        (b"[" * 9_000, [(2, "", "JSON object")]),
        (b"payee,amount", [(2, "", "JSON object")]),
    ],
)
def test_a_faulty_json_line_is_named(line: bytes, problems: Found) -> None:
    good = b'{"payee":"bob","amount":"1"}\n'
    found = check(good + line + b"\n" + good, problems, currency="EUR")
    assert [one.number for one in found.lines] == [1, 3]


@pytest.mark.parametrize(
    "content", [HEADER.decode().encode("utf-16-le"), "a\ud8000".encode("utf-16", "surrogatepass")]
)
def test_damaged_or_unmarked_utf_16_is_refused(content: bytes) -> None:
    assert [one.line for one in read(content).problems] == [1]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"PK\x03\x04", "is a workbook or a zip file; export the sheet as CSV in UTF-8"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old workbook; export the sheet as CSV"),
        (b"%PDF-1.7", "a PDF; export"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n\r\n\t", "is empty"),
    ],
)
def test_a_file_of_unsupported_type_is_refused(content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with failing(Exit.USAGE, match):
        sheet.read(str(tmp_path / "file"), Kind.PAYMENTS, CONFIG)


@pytest.mark.parametrize(("file", "match"), [("", "directory"), ("absent", "No such file")])
def test_a_file_that_cannot_be_read_is_refused(file: str, match: str, tmp_path: Path) -> None:
    with failing(Exit.USAGE, match):
        sheet.read(str(tmp_path / file), Kind.PAYMENTS, CONFIG)


def test_a_currency_that_the_stage_lacks_is_refused() -> None:
    with failing(Exit.USAGE, "currency: must be one of EUR, JPY, KWD, not 'USD'"):
        read(HEADER, currency="USD")


@pytest.mark.parametrize(
    ("rest", "leave_out", "problems", "numbers"),
    [
        (b"bob,1,EUR,,\n,9.00,,,\n", {3}, [], [2]),
        (b"bob\neve,1,EUR,,\n", {2}, [], [3]),
        (b"bob,1,EUR,,\neve,1,EUR,,\n", {2, 3}, [(0, "", "that is not left out")], []),
        (b"\nbob,1,EUR,,\n", {2}, [(0, "", "--leave-out 2 must be the number of a line with a payee")], [3]),
        (b"bob,1,EUR,,\n", {1, 9}, [(0, "", "--leave-out 1"), (0, "", "--leave-out 9")], [2]),
        (b"bob,1,EUR,,\n\xff\n", {3}, [(3, "", "UTF-8")], [2]),
    ],
)
def test_lines_left_out_are_not_checked(
    rest: bytes, leave_out: set[int], problems: Found, numbers: list[int]
) -> None:
    found = check(HEADER + rest, problems, leave_out=frozenset(leave_out))
    assert [one.number for one in found.lines] == numbers
    assert found.left_out == ([] if problems and numbers else sorted(leave_out))


def test_only_the_first_problems_are_kept() -> None:
    found = read(HEADER + b"bob,0,EUR,,\n" * (PROBLEMS_MAX + 3))
    assert ([one.line for one in found.problems], found.more) == ([*range(2, 2 + PROBLEMS_MAX)], 3)


@pytest.mark.parametrize(("limit", "value", "count"), [("LINES_MAX", 3, 3), ("NUMBER_MAX", 5, 4)])
def test_reading_stops_beyond_the_limits(
    limit: str, value: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet, limit, value)
    rows = [b"bob,1,EUR,,\n"] * 50_000

    assert len(check(HEADER + b"".join(rows[:count]), []).lines) == count
    stream = io.BytesIO(HEADER + b"".join(rows))
    found = read(b"", stream=stream)

    assert (len(found.lines), found.more) == (count, 0)
    assert [(one.line, one.column) for one in found.problems] == [(count + 2, "")]
    assert "split it" in found.problems[0].text
    assert stream.tell() < 100_000


def test_an_overlong_line_is_not_read_to_its_end() -> None:
    stream = io.BytesIO(HEADER + b"x" * 5_000_000)
    assert [one.line for one in read(b"", stream=stream).problems] == [2]
    assert stream.tell() < 200_000


def test_a_line_of_exactly_the_limit_is_read() -> None:
    padded = b"bob,1,EUR,," + b" " * (LINE_BYTES_MAX - 11)
    assert len(check(HEADER + padded, []).lines) == 1


def test_an_overlong_json_line_stops_the_reading() -> None:
    good = '{"payee":"bob","amount":"1","currency":"EUR"}'
    long = good.replace("bob", "\u20ac" * 5_462)
    assert len(check(f"{good}\n{long}\n{good}".encode(), [(2, "", "16,384 bytes")]).lines) == 1


@pytest.mark.long
def test_memory_apart_from_the_lines_is_bounded(tmp_path: Path) -> None:
    beside = []
    for count in (5_000, 20_000):
        file = tmp_path / f"{count}.csv"
        file.write_bytes(HEADER + b"".join(b"payee-%d,1.50,EUR,Some Name,\n" % one for one in range(count)))
        tracemalloc.start()
        try:
            found = sheet.read(str(file), Kind.PAYMENTS, CONFIG)
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(found.lines) == count
        beside.append(peak - kept)
    assert max(beside) < 1_000_000


IDS = st.from_regex(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,9}", fullmatch=True).filter(lambda one: "E-" not in one)
NAMES = st.none() | st.sampled_from(
    [
        "Bob",
        'Bob "B" Smith',
        "Smith, Bob; Jr.",
        "Zo\u00eb M",
        "\u674e\u56db",
        "'t Hooft",
        "#12",
    ]
)
AMOUNTS = st.sampled_from([("48.20", "EUR"), ("1", "JPY"), ("0.001", "KWD"), ("9999999999999.99", "EUR")])
LINES = st.lists(st.tuples(IDS, AMOUNTS, NAMES, NAMES), min_size=1, max_size=8)


def written(lines: list[Line], delimiter: str, ending: str, mark: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, delimiter=delimiter, lineterminator=ending)
    rows.writerow(("Reference", "payee", "currency", "amount", "payee_name"))
    rows.writerows((one.reference, one.payee, one.currency, one.amount, one.payee_name) for one in lines)
    return (mark + text.getvalue()).encode()


@given(LINES, st.sampled_from(["\n", "\r", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_lines_are_read_as_they_were_written(given: list[Any], ending: str, mark: str) -> None:
    lines = [
        Line(number=number, payee=payee, amount=money[0], currency=money[1], payee_name=name, reference=text)
        for number, (payee, money, name, text) in enumerate(given, 2)
    ]
    for delimiter in (",", ";", "\t"):
        assert read(written(lines, delimiter, ending, mark)) == (lines, [], 0, [])
    objects = [json.dumps({k: v for k, v in vars(one).items() if k != "number"}) for one in lines]
    assert read((mark + ending + ending.join(objects)).encode()) == (lines, [], 0, [])


FRAGMENTS = st.sampled_from(
    [
        *(b"bob,1,EUR\n", b"bob,1,EUR\r", b"bob", b",", b"1.50", b"EUR", b"\n", b"\r\n", b"\r", b'"', b'""'),
        *(
            b"\xff",
            b"\xe2\x82\xac",
            b"\0",
            b"=",
            b"'",
            b";",
            b"\t",
            b" ",
            b"\xc2\xa0",
            b"{",
            b"}",
            b"#",
            b"\xe2\x80\xa8",
        ),
        *(b'{"payee":"bob","amount":"1","currency":"EUR"}\n', b"payee", b"payee,amount,currency\n"),
    ]
)
CONTENTS = st.binary(max_size=60) | st.lists(FRAGMENTS, max_size=20).map(b"".join)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@example(b"payee,amount,currency\n", b'bob,1,EUR\n"\n')
@given(st.sampled_from([b"", b"payee,amount,currency\n", b"\xff\xfe", b"{"]), CONTENTS)
def test_any_bytes_are_read_completely_or_reported(start: bytes, rest: bytes) -> None:
    try:
        found = read(start + rest)
    except CommandFailed:
        return
    if found.problems:
        return
    text = (start + rest).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    if text.lstrip().startswith("{"):
        assert len(found.lines) == len([one for one in text.split("\n") if one.strip(sheet._AROUND)])
        return
    _, *rows = csv.reader(io.StringIO(text.lstrip(), newline="\n"), strict=True, skipinitialspace=True)
    cells = [[cell.strip(sheet._AROUND) for cell in one] for one in rows]
    assert [[one.payee, one.amount, one.currency] for one in found.lines] == [
        one for one in cells if any(one)
    ]
