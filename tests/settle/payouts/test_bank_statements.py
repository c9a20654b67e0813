"""The simulated bank's statements, as the project reads and compares them."""

from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.parsers.config import ParserConfig

from settle.local.bank_statements import IBAN, Account, Line
from settlement.bank import balances
from settlement.bank.statement import Side
from tests.settle.payouts.wire import DAY, OTHER, PAYS_AFTER, REFERENCE, SimulatedBank, order, read

STRAY = {"side": "out", "amount": "7.00", "currency": "EUR"}
STRICT = ParserConfig(
    fail_on_unknown_properties=True, fail_on_unknown_attributes=True, fail_on_converter_warnings=True
)


def test_a_statement_has_each_payment_and_the_balances(bank: SimulatedBank) -> None:
    bank.tell({"opening": {"EUR": "1000.00"}})
    bank.submit(order("pay-now"))
    bank.submit(order("pay-now", reference=OTHER, amount="0.80"))

    lines, (statement,) = bank.statements()

    assert [(one.side, one.amount, one.references[0], one.returns) for one in lines] == [
        (Side.OUT, 4_820, REFERENCE, ""),
        (Side.OUT, 80, OTHER, ""),
    ]
    assert len({one.bank_reference for one in lines}) == 2
    assert {one.booked for one in lines} == {statement.first, statement.last} == {"2026-11-27"}
    assert (statement.account, statement.number) == (IBAN, 1)
    assert (statement.opening, statement.closing, statement.debits) == (100_000, 95_100, 4_900)
    assert bank.seen()["closing"] == {"EUR": "951.00"}


def test_a_return_is_a_credit_that_names_its_payment(bank: SimulatedBank) -> None:
    bank.submit(order("return"))
    bank.advance(PAYS_AFTER + 3 * DAY)

    (debit, credit), statements = bank.statements()

    assert (debit.side, debit.returns, debit.booked) == (Side.OUT, "", "2026-11-27")
    assert (credit.side, credit.returns, credit.booked) == (Side.IN, "AC04", "2026-11-30")
    assert (debit.amount, credit.amount) == (4_820, 4_820)
    assert REFERENCE in debit.references
    assert REFERENCE in credit.references
    assert (debit.identity != credit.identity, debit.bank_reference != credit.bank_reference) == (True, True)
    assert [(one.last, one.closing) for one in statements] == [("2026-11-27", -4_820), ("2026-11-30", 0)]


def test_only_a_booked_payment_is_on_a_statement(bank: SimulatedBank) -> None:
    bank.submit(order("pay"))
    bank.submit(order("refuse", reference=OTHER))
    with pytest.raises(ProtocolError):
        bank.submit(order("lose-answer-before", reference="B" * 32))

    lines, (statement,) = bank.statements()

    assert (lines, statement.opening, statement.closing) == ([], 0, 0)


def test_statements_follow_each_other_without_gap_or_repetition(bank: SimulatedBank) -> None:
    bank.tell({"opening": {"EUR": "100.00"}})
    files = []
    for days in (0, 0, 1, 0, 2, 1):
        bank.advance(days * DAY)
        bank.add_line(STRAY)
        if days != 2:
            files.append(bank.file())
    files.append(bank.file())

    read_lines, read_statements = zip(*map(read, files), strict=True)
    lines = [line for one in read_lines for line in one]
    statements = [statement for one in read_statements for statement in one]

    assert len(lines) == len({line.identity for line in lines}) == 6
    assert [one.number for one in statements] == list(range(1, 8))
    assert all(before.closing == after.opening for before, after in pairwise(statements))
    assert list(balances.faults(balances.in_order(statements))) == []
    assert statements[-1].closing == 10_000 - 6 * 700
    assert bank.seen()["statements"] == {"EUR": 6}


def test_lines_after_the_day_wait_for_the_next_statement(bank: SimulatedBank) -> None:
    bank.add_line(STRAY)
    bank.advance(DAY)
    bank.add_line(STRAY | {"amount": "8.00"})

    assert [one.amount for one in bank.statements("currency=EUR&day=2026-11-27")[0]] == [700]
    assert [one.amount for one in bank.statements("currency=EUR&day=2026-11-28")[0]] == [800]


def test_a_statement_file_can_be_fetched_again_by_number(bank: SimulatedBank) -> None:
    bank.add_line(STRAY)
    first, second = bank.file(), bank.file()

    assert bank.file("currency=EUR&number=1") == first != second
    assert bank.file("currency=EUR&number=2") == second
    assert bank.seen()["statements"] == {"EUR": 2}


def test_each_currency_has_its_own_statements(bank: SimulatedBank) -> None:
    bank.tell({"opening": {"JPY": "-5", "KWD": "1.005"}})
    bank.submit(order("pay-now", currency="JPY", amount="48"))

    (line,), (yen,) = bank.statements("currency=JPY")
    assert (line.amount, line.currency, yen.opening, yen.closing) == (48, "JPY", -5, -53)
    assert bank.statements("currency=KWD")[1][0].closing == 1_005
    assert bank.statements("currency=EUR")[0] == []
    assert bank.seen()["closing"] == {"EUR": "0.00", "JPY": "-53", "KWD": "1.005"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("", "currency"), ("currency=ABC", "currency"), ("currency=EUR&nonsense=1", "statement")),
        *(("currency=EUR&day=2026-11-27&number=1", "statement"), ("currency=EUR&currency=EUR", "statement")),
        *(("currency=EUR&day=2026-11-26", "day"), ("currency=EUR&day=2026-11-28", "day")),
        *(("currency=EUR&day=20261127", "day"), ("currency=EUR&day=2026-11-31", "day")),
        *(("currency=EUR&number=1", "number"), ("currency=EUR&number=0", "number")),
        ("currency=EUR&number=x", "number"),
    ],
)
def test_an_invalid_query_writes_no_statement(bank: SimulatedBank, query: str, field: str) -> None:
    bank.add_line(STRAY)
    answer = bank.request("GET", f"/control/statement?{query}")

    assert answer.status == 400
    assert answer.json()["message"].startswith(f"{field}: ")
    assert len(bank.statements()[0]) == 1


def test_a_line_added_by_hand_is_booked_as_given(bank: SimulatedBank) -> None:
    given = {"side": "in", "amount": "48.20", "currency": "EUR", "reference": REFERENCE, "returns": "AC06"}
    told = [bank.add_line(given), bank.add_line(STRAY | {"text": 'fees & <more> "x"'})]

    named, plain = bank.statements()[0]

    assert [one.json()["bank_reference"] for one in told] == [named.bank_reference, plain.bank_reference]
    assert (named.side, named.returns, named.references[0]) == (Side.IN, "AC06", REFERENCE)
    assert (plain.side, plain.returns, plain.references[0]) == (Side.OUT, "", 'fees & <more> "x"')


@pytest.mark.parametrize(
    ("line", "field"),
    [
        *(([], "line"), (STRAY | {"nonsense": 1}, "line"), (STRAY | {"side": "debit"}, "side")),
        *((STRAY | {"amount": "0.00"}, "amount"), (STRAY | {"amount": "-7.00"}, "amount")),
        *((STRAY | {"currency": "ABC"}, "currency"), (STRAY | {"currency": ["EUR"]}, "currency")),
        *((STRAY | {"reference": "\x00"}, "reference"), (STRAY | {"reference": "x" * 36}, "reference")),
        *((STRAY | {"text": "\ud800"}, "text"), (STRAY | {"returns": "<x>"}, "returns")),
        *(({}, "currency"), (STRAY | {"side": ["in"]}, "side")),
    ],
    ids=str,
)
def test_a_malformed_line_is_named_and_not_booked(bank: SimulatedBank, line: Any, field: str) -> None:
    answer = bank.add_line(line)

    assert answer.status == 400
    assert answer.json()["message"].startswith(f"{field}: ")
    assert bank.seen()["closing"] == {}


@pytest.mark.parametrize("ask", ["line", "statement"])
def test_an_opening_balance_is_fixed_by_the_first_use(bank: SimulatedBank, ask: str) -> None:
    assert [bank.tell({"opening": {"EUR": amount}}).status for amount in ("1.00", "2.00")] == [200, 200]
    if ask == "line":
        bank.add_line(STRAY)
    else:
        bank.file()

    assert bank.tell({"opening": {"EUR": "3.00", "JPY": "5"}}).status == 400
    assert bank.tell({"opening": {"JPY": "5"}}).status == 200
    assert bank.seen()["closing"]["EUR"] == ("-5.00" if ask == "line" else "2.00")


def test_a_statement_is_valid_against_the_camt_053_schema(bank: SimulatedBank) -> None:
    """The schema at hand, version 12, contains everything in our version 08."""
    bank.submit(order("return"))
    bank.advance(PAYS_AFTER + 3 * DAY)
    bank.add_line(STRAY | {"text": "fees"})
    file = bank.file().replace(b"camt.053.001.08", b"camt.053.001.12")

    from python_iso20022.camt.camt_053_001_12 import models  # noqa: PLC0415 (it takes seconds)

    document = XmlParser(config=STRICT).from_bytes(file, models.Camt05300112)

    entries = [entry for one in document.bk_to_cstmr_stmt.stmt for entry in one.ntry]
    assert [entry.bk_tx_cd.domn.fmly.sub_fmly_cd for entry in entries] == ["ESCT", "RRTN", "ESCT"]


def test_after_a_clock_steps_back_lines_keep_the_latest_day() -> None:
    account = Account(currency="EUR", exponent=2, prefix="S", last_day=date(2026, 11, 27))
    for day in (29, 28, 20):
        account.add(Line(name=f"L-{day}", day=date(2026, 11, day), amount=-100))
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)

    lines, statements = read(account.write(date(2026, 11, 29), now))
    account.add(Line(name="L-late", day=date(2026, 11, 1), amount=-100))
    late, _ = read(account.write(date(2026, 11, 29), now))

    assert {line.booked for line in (*lines, *late)} == {"2026-11-29"}
    assert (len(lines), len(late), statements[0].closing) == (3, 1, -300)


def test_a_late_line_moves_to_the_last_reported_day() -> None:
    account = Account(currency="EUR", exponent=2, prefix="S", last_day=date(2026, 11, 27))
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    account.write(date(2026, 11, 29), now)
    account.add(Line(name="L-1", day=date(2026, 11, 28), amount=-100))

    lines, (statement,) = read(account.write(date(2026, 11, 29), now))

    assert [line.booked for line in lines] == [statement.first] == ["2026-11-29"]
