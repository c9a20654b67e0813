"""The MT940 reader; skipped without the library `mt-940`."""

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from settle.bank import files, mt940
from settlement.bank.statement import Line, Side, Statement, UnreadableStatement

pytest.importorskip("mt940")

CURRENCIES = {"EUR": 2, "JPY": 0}
ACCOUNT = "DE89370400440532013000"
MOVEMENT = ":61:2611271126C48,20NTRFE-1//B-1\n"


def written(*movements: str, closing: str = "C261127EUR1048,20", **heads: str) -> bytes:
    fields = {
        "20": "STARTUMS",
        "25": ACCOUNT,
        "28C": "117/1",
        "60F": "C261126EUR1000,00",
        "62F": closing,
    } | heads
    first = "".join(f":{tag}:{text}\n" for tag, text in fields.items() if text and not tag.startswith("62"))
    last = "".join(f":{tag}:{text}\n" for tag, text in fields.items() if text and tag.startswith("62"))
    return f"{first}{''.join(movements)}{last}-\n".encode()


PLAIN = written(MOVEMENT, ":86:Invoice INV-1\n")


def read(file: bytes) -> tuple[list[Line], list[Statement]]:
    found = list(mt940.read(io.BytesIO(file), CURRENCIES))
    lines = [one for one in found if isinstance(one, Line)]
    return lines, [one for one in found if isinstance(one, Statement)]


def refusal(file: bytes) -> str:
    with pytest.raises(UnreadableStatement) as refused:
        read(file)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) <= 300
    return str(refused.value)


def test_a_line_has_its_amount_days_and_references() -> None:
    (found,), _ = read(PLAIN)

    assert asdict(found) == {
        **{"account": ACCOUNT, "currency": "EUR", "amount": 4820, "side": Side.IN, "booked": "2026-11-26"},
        **{"valued": "2026-11-27", "bank_reference": "B-1", "returns": ""},
        **{"references": ("E-1", "Invoice INV-1", "Invoice", "INV-1")},
        **{"statement": "STARTUMS 117/1 2026-11-27", "position": 1, "part": 0, "at": 5},
    }


def test_an_mt940_statement_has_numbers_dates_and_balances() -> None:
    *_, found = mt940.read(io.BytesIO(PLAIN), CURRENCIES)

    assert isinstance(found, Statement)
    assert asdict(found) == {
        **{
            "account": ACCOUNT,
            "currency": "EUR",
            "name": "STARTUMS 117/1 2026-11-27",
            "created": "2026-11-27",
        },
        **{"number": 117, "page": None, "first": "2026-11-26", "last": "2026-11-27"},
        **{"opening": 100_000, "closing": 104_820, "lines": 1, "credits": 4820, "debits": 0},
    }


def test_an_empty_statement_has_no_lines() -> None:
    lines, (found,) = read(written(closing="C261127EUR1000,"))
    assert (lines, found.lines, found.closing) == ([], 0, 100_000)


def test_a_file_can_have_several_statements_in_envelopes() -> None:
    envelope = b"{1:F01BANKDEFFXXXX0000000000}{2:I940BANKDEFFXXXXN}{4:\r\n"
    plain = PLAIN.replace(b"\n-\n", b"\n-}\n").replace(b"\n", b"\r\n")
    lines, found = read((envelope + plain) * 2)
    assert (len(lines), len(found), lines[1].at) == (2, 2, 15)


@pytest.mark.parametrize(
    ("mark", "side", "returns"),
    [("C", Side.IN, ""), ("D", Side.OUT, ""), ("RD", Side.IN, "reversal"), ("RC", Side.OUT, "reversal")],
)
@pytest.mark.parametrize("funds", ["", "R"])
def test_a_reversal_mark_swaps_the_side_of_a_line(mark: str, side: Side, returns: str, funds: str) -> None:
    closing = {Side.IN: "C261127EUR1048,20", Side.OUT: "C261127EUR951,80"}[side]
    (found,), _ = read(written(MOVEMENT.replace("C48", f"{mark}{funds}48"), closing=closing))
    assert (found.side, found.returns, found.amount) == (side, returns, 4820)


def test_a_debit_balance_is_negative() -> None:
    _, (found,) = read(written(MOVEMENT, closing="D261127EUR1,80", **{"60F": "D261126EUR50,"}))
    assert (found.opening, found.closing) == (-5000, -180)


@pytest.mark.parametrize(
    ("details", "references"),
    [
        (
            "166?00GUTSCHRIFT?20EREF+E-9?21KREF+K-9?22MREF+M-9?23SVWZ+Invoice INV-?241 of May?30X",
            ("E-9", "E-1", "K-9", "M-9", "Invoice INV-1 of May", "Invoice", "INV-1"),
        ),
        ("166?00GUTSCHRIFT?20Invoice?21 INV-1", ("E-1", "Invoice INV-1", "Invoice", "INV-1")),
        ("one\ntwo", ("E-1", "one two", "onetwo")),
        ("/TRTP/SEPA/EREF/E-9/REMI/INV-1/RTRN/AC04", ("E-1", "E-9", "INV-1", "AC04")),
    ],
)
def test_references_come_from_every_form_of_details(details: str, references: tuple[str, ...]) -> None:
    (found,), _ = read(written(MOVEMENT, f":86:{details}\n"))
    assert (
        tuple(one for one in found.references if one[0] != "/" and "/T" not in one)[: len(references)]
        == references
    )


@pytest.mark.parametrize(
    ("details", "returns"),
    [
        ("/TRTP/SEPA/RTRN/AC04/EREF/E-9", "AC04"),
        ("109?00RETOURE?20SVWZ+back?34901", "901"),
        ("159?00RETOURE?20SVWZ+back", "return"),
        ("166?00GUTSCHRIFT?20SVWZ+thanks?34000", ""),
    ],
)
def test_a_returned_payment_has_its_return_reason(details: str, returns: str) -> None:
    (found,), _ = read(written(MOVEMENT, f":86:{details}\n"))
    assert found.returns == returns


@pytest.mark.parametrize(
    ("movement", "expected"),
    [
        (":61:261127C48,20NTRFNONREF\n", {"booked": "2026-11-27", "bank_reference": "", "references": ()}),
        (":61:2612310102C48,20NTRFNONREF\n", {"booked": "2027-01-02", "valued": "2026-12-31"}),
        (":61:260230C48,20NTRFNONREF\n", {"valued": "2026-02-28"}),
        (":61:261127C48,20 NTRFNONREF//B-1\n", {"amount": 4820, "bank_reference": "B-1"}),
        (":61:261127C48,2NTRFNONREF//NONREF\n", {"amount": 4820, "bank_reference": ""}),
        (":61:261127C48,20NTRFKREF+//B-1\nmore\n", {"references": ("more",), "bank_reference": "B-1"}),
        (f":61:261127C48,20NTRF{'E' * 30}//B-1\n", {"references": ("E" * 30,), "bank_reference": "B-1"}),
    ],
)
def test_a_short_or_unusual_line_is_read(movement: str, expected: dict[str, Any]) -> None:
    (found,), _ = read(written(movement))
    assert {key: value for key, value in asdict(found).items() if key in expected} == expected


@pytest.mark.parametrize(
    ("account", "read_as"),
    [
        (f"{ACCOUNT}EUR", ACCOUNT),
        ("DE89 3704 0044 0532 0130 00", ACCOUNT),
        ("37040044/0532013000EUR", "37040044/0532013000EUR"),
        ("de89370400440532013001eur", "DE89370400440532013001EUR"),
    ],
)
def test_the_accounts_number_is_read_without_blanks_and_currency(account: str, read_as: str) -> None:
    _, (found,) = read(written(MOVEMENT, **{"25": account}))
    assert found.account == read_as


def test_each_page_of_a_statement_has_its_own_lines() -> None:
    first = written(MOVEMENT, closing="", **{"62M": "C261127EUR1048,20"})
    second = written(
        MOVEMENT, closing="C261127EUR1096,40", **{"60F": "", "60M": "C261127EUR1048,20", "28C": "117/2"}
    )

    lines, found = read(first + second)

    assert [one.page for one in found] == [(1, False), (2, True)]
    assert lines[0].statement != lines[1].statement


def test_a_text_in_latin_1_is_read() -> None:
    (found,), _ = read(written(MOVEMENT, ":86:Müller\n").decode().encode("latin-1"))
    assert "Müller" in found.references


def test_a_text_that_looks_like_a_path_opens_no_file(tmp_path: Path) -> None:
    other = tmp_path / ":20:x"
    other.write_bytes(PLAIN)
    assert "is missing in its statement" in refusal(str(other).encode().rpartition(b"/")[2])


WRONG: list[tuple[bytes, str]] = [
    (b"", "line 1, start of the file: it is empty"),
    (b"<Document/>", "line 1, start of the file: it is XML; must be MT940"),
    (b"PK\x03\x04", "it is a zip file"),
    (PLAIN.replace(b"INV-1", b"INV\x00"), "line 6, a NUL byte: must be text"),
    (written(MOVEMENT, ":86:", "x" * 10_001), "line 6, :86:: must have at most 10,000 characters"),
    (written(MOVEMENT, ":86:", "y\n" * 10_001), "line 5006, :86:: must have at most 10,000 characters"),
    (MOVEMENT.encode() + PLAIN, "line 1, :61:: must follow the field :20:"),
    (b"x:20:y", "line 1, :20:: is missing: the file has no statement"),
    (written(MOVEMENT, **{"60F": ""}), "field :60: is missing in its statement: an MT942"),
    (written(MOVEMENT, closing=""), "field :62: is missing in its statement: it may be cut off"),
    (written(MOVEMENT, **{"25": ""}), "line 1, :20:: field :25: is missing in its statement"),
    (written(MOVEMENT, **{"28C": ""}), "line 1, :20:: field :28: is missing in its statement"),
    (written(MOVEMENT, **{"62M": "C261127EUR1048,20"}), "line 7, :62M:: must appear once"),
    (written(MOVEMENT, **{"60F": "C261126EUR1000.00"}), "line 4, :60F:: is 'C261126EUR1000.00'; must be a"),
    (written(MOVEMENT, **{"60F": "C261326EUR1000,00"}), "line 4, :60F:: is 'C261326EUR1000,00', which is no"),
    (written(MOVEMENT, **{"60F": "C261126USD1000,00"}), "line 4, :60F:: currency 'USD' must be one of the"),
    (written(MOVEMENT, **{"60F": "", "60": "C261126EUR1,"}), "line 4, :60:: must be :60F: or :60M:"),
    (written(MOVEMENT, closing="C261127JPY1048,"), "line 6, :62F:: is in JPY, and :60: in EUR"),
    (written(MOVEMENT, closing="C261127EUR1048,21"), "line 6, :62F:: is 1048.21; :60: and its 1 lines"),
    (written(), "line 5, :62F:: is 1048.20; :60: and its 0 lines make 1000.00"),
    (
        written(MOVEMENT, **{"60F": "", "60M": "C261126EUR1000,00", "28C": "117"}),
        "line 3, :28C:: is '117'; must have",
    ),
    (written(":61:261127C48.20NTRFE-1\n"), "line 5, :61:: is '261127C48.20NTRFE-1'; must be a line such as"),
    (written(":61:261127C48,20\n"), "line 5, :61:: is '261127C48,20'; must be a line such as"),
    (written(":61:261127X48,20NTRFE-1\n"), "line 5, :61:: is '261127X48,20NTRFE-1', which is no field of"),
    (written(":61:261127C4,8,20NTRFE-1\n"), "line 5, :61:: is '261127C4,8,20NTRFE-1', which is no field"),
    (written(":61:2611271131C48,20NTRFE-1\n"), "line 5, :61:: is '2611271131C48,20NTRFE-1', which is no"),
    (written(":61:261127C48,205NTRFE-1\n"), "line 5, :61:: '48.205' must be a decimal string with at most 2"),
]


@pytest.mark.parametrize(("file", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_file_is_refused_with_line_and_field(file: bytes, told: str) -> None:
    assert told in refusal(file)


def test_an_oversized_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mt940, "SIZE_MAX", 100)
    assert "the file must have at most 100 bytes" in refusal(PLAIN)


def test_the_mt940_library_prints_and_logs_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    refusal(written(":61:x\n"))
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])


MUTATIONS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=3
)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(MUTATIONS, st.binary(max_size=3))
def test_a_mutated_file_is_read_or_refused(mutations: list[tuple[bool, int, int]], new: bytes) -> None:
    file, told = written(MOVEMENT, ":86:166?00GUTSCHRIFT?20EREF+E-9?21SVWZ+INV-1\n"), ""
    for doubled, at, size in mutations:
        file = file[:at] + (file[at : at + size] * 2 if doubled else new) + file[at + size :]
    try:
        read(file)
    except UnreadableStatement as error:
        told = str(error)
    assert told.isprintable()
    assert len(told) <= 300


@pytest.mark.parametrize(
    "head",
    [
        *(b"", b"\r\n\r\n", b"\xef\xbb\xbf", b"\x01\r\n"),
        *(
            b"ABNANL2A\r\n940\r\nABNANL2A\r\n",
            b"0000 01INGBNL2AXXXX00001\r\n0000 01INGBNL2AXXXX00001\r\n940 00\r\n",
        ),
    ],
)
def test_lines_that_a_bank_adds_before_the_statement_are_skipped(tmp_path: Path, head: bytes) -> None:
    file = tmp_path / "day.sta"
    file.write_bytes(head + PLAIN)

    found = list(files.read(str(file), {"EUR": 2}, None))

    assert [one.amount for one in found if isinstance(one, Line)] == [48_20]
