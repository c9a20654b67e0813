"""`settle statement compare` on a stage whose deposits and withdrawal are on the bank's statement."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.bank.matching import Kind
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.bank_files import camt, line

DAY = "2026-11-20"
RIGHT = [
    line("500.00", Side.IN, text="opens the account", bank_reference="B1"),
    line("70.00", Side.IN, end_to_end="INV-7", bank_reference="B2"),
    line("70.00", Side.IN, text="INV-8, thank you", bank_reference="B3"),
    line("20.00", Side.OUT, end_to_end="PAY-1", bank_reference="B4"),
]
Written = Callable[..., str]


@pytest.fixture
def booked(desk: Desk, command: Command) -> Desk:
    for order, account, amount, reference in (
        ("deposit", "bob", "70.00", "INV-7"),
        ("deposit", "bob", "70.00", "INV-8"),
        ("withdraw", "alice", "20.00", "PAY-1"),
    ):
        moved = ("--currency", "EUR", "--reference", reference, "--reason", "r")
        key = f"{order}-{reference}-0001"
        assert command("account", order, account, amount, *moved, "--key", key)[0] == Exit.FINE
    return desk


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(name: str = "day.xml", lines: Any = RIGHT, **fields: Any) -> str:
        file = tmp_path / name
        file.write_bytes(camt(lines, **{"day": DAY, "opening": "0.00"} | fields))
        return str(file)

    return write


def compared(command: Command, *words: str) -> tuple[int, dict[str, Any]]:
    code, out, err = command("statement", "compare", *words, "--days", "0", "--json")
    assert err == ""
    return code, json.loads(out)


def test_a_correct_statement_agrees_with_the_books_to_the_cent(
    booked: Desk, command: Command, written: Written
) -> None:
    code, found = compared(command, written(), "--matched")

    assert (code, found["agrees"], found["findings"], found["matched"]) == (Exit.FINE, True, [], 4)
    assert {"day": DAY, "bank": "620.00", "books": "620.00"}.items() <= found["currencies"]["EUR"].items()
    assert [pair["order"]["reference"] for pair in found["pairs"]] != []
    assert found["files"][0]["lines"] == 4


@pytest.mark.parametrize(
    ("lines", "kind", "order"),
    [
        (RIGHT[:3], Kind.ONLY_BOOKS, "withdraw-PAY-1-0001"),
        ([*RIGHT, line("1.00", text="a gift")], Kind.ONLY_BANK, None),
        (
            [*RIGHT, line("70.00", end_to_end="INV-7", bank_reference="B9")],
            Kind.BANK_TWICE,
            "deposit-INV-7-0001",
        ),
        ([*RIGHT[:3], line("20.01", Side.OUT, end_to_end="PAY-1")], Kind.AMOUNT, "withdraw-PAY-1-0001"),
        (
            [*RIGHT, line("70.00", Side.OUT, end_to_end="INV-7", reason="AC04")],
            Kind.RETURN,
            "deposit-INV-7-0001",
        ),
    ],
)
def test_each_kind_of_difference_is_named_with_advice(
    booked: Desk, command: Command, written: Written, lines: Any, kind: Kind, order: str | None
) -> None:
    file = written(lines=lines)

    code, found = compared(command, file)
    _, out, _ = command("statement", "compare", file, "--days", "0")

    (finding,) = found["findings"]
    assert (code, found["agrees"], finding["kind"]) == (Exit.FAILED, False, kind)
    assert (finding["order"] and finding["order"]["key"]) == order
    assert f"{kind.upper()} " in out
    assert f"  {finding['do']}\n" in out
    assert "DOES NOT AGREE: " in out


def test_repeated_and_overlapping_files_count_once(booked: Desk, command: Command, written: Written) -> None:
    again = written("again.xml")
    early = written("early.xml", RIGHT[:2], kind="camt.054", opening=None)

    code, found = compared(command, written(), again, early)

    assert (code, found["matched"]) == (Exit.FINE, 4)
    assert len(found["files"]) == 2


def test_an_option_gives_the_balance_before_the_books_began(
    booked: Desk, command: Command, written: Written
) -> None:
    file = written(opening="1000.00")

    wrong, found = compared(command, file)
    code, _ = compared(command, file, "--before", "EUR=1000.00")

    assert (wrong, code) == (Exit.FAILED, Exit.FINE)
    assert [(one["kind"], one["amount"]) for one in found["findings"]] == [(Kind.LEFT, "1000.00")]


def test_an_order_whose_bank_line_may_still_come_is_open(
    booked: Desk, command: Command, written: Written
) -> None:
    code, out, _ = command("statement", "compare", written(lines=RIGHT[:3]), "--days", "3")

    assert code == Exit.FINE
    assert "OPEN withdraw withdraw-PAY-1-0001 of alice, 20.00 EUR on 2026-11-20, PAY-1: its line may" in out


@pytest.mark.parametrize(
    "spoil",
    [
        *({"amount": "a lot"}, {"amount": 0}, {"currency": "XXX"}, {"currency": 7}),
        *({"posted_at": "2026-13-01T"}, {"reference": 7}, {"order": "give"}),
    ],
    ids=str,
)
def test_an_unreadable_order_is_named_and_nothing_agrees(
    booked: Desk, command: Command, written: Written, spoil: dict[str, Any]
) -> None:
    booked.alter(keys.order("deposit-INV-7-0001"), **spoil)

    code, found = compared(command, written())

    assert (code, found["agrees"]) == (Exit.FAILED, False)
    assert found["unreadable"][0].startswith("ORDER#deposit-INV-7-0001: ")


def test_reconcile_can_include_a_bank_statement(booked: Desk, command: Command, written: Written) -> None:
    right, wrong = written(), written("wrong.xml", RIGHT[:3])

    code, out, _ = command("reconcile", "--statement", right, "--days", "0", "--json")
    failed, told, _ = command("reconcile", "--statement", wrong, "--days", "0")

    assert (code, json.loads(out)["bank"]["agrees"]) == (Exit.FINE, True)
    assert failed == Exit.FAILED
    assert "conserved: " in told
    assert "ONLY IN THE BOOKS " in told


def test_statement_options_of_reconcile_need_a_statement(desk: Desk, command: Command) -> None:
    code, out, err = command("reconcile", "--currency", "EUR")

    assert (code, out) == (Exit.USAGE, "")
    assert err == "settle: statement: --columns, --before and --currency need --statement\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.xml",), "statement: missing.xml: No such file or directory"),
        (("{file}", "--before", "EUR"), "before: EUR: must be a decimal string"),
        (("{file}", "--before", "XXX=1"), "before: must be CURRENCY=AMOUNT, with one of "),
        (("{file}", "--columns", "missing.toml"), "statement: missing.toml: No such file or directory"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(
    desk: Desk, command: Command, written: Written, words: tuple[str, ...], told: str
) -> None:
    file = written()

    code, out, err = command("statement", "compare", *(word.format(file=file) for word in words))

    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith(f"settle: {told}")
    assert err.count("\n") == 1


def test_an_unreadable_file_gets_one_error_line_with_the_position(
    desk: Desk, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "cut.xml"
    file.write_bytes(camt(RIGHT, day=DAY)[:900])

    code, out, err = command("statement", "compare", str(file))

    assert (code, out, err.count("\n")) == (Exit.USAGE, "", 1)
    assert f"statement: {file}: line " in err
