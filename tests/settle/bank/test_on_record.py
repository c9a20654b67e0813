"""`settle statement list`, `show` and `unmatched` on a stage whose statement is on record."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.bank.matching import Kind
from settlement.bank.statement import Side
from tests.settle.bank.recording import on_record
from tests.settle.bank.test_statement_command import DAY, RIGHT, booked
from tests.settle.conftest import Command
from tests.settle.desk import GRACE, Desk
from tests.world.bank_files import camt, line

__all__ = ["booked"]

Recorded = Callable[..., str]
SINCE = ("--since", "2026-11-01T00:00:00Z")


@pytest.fixture
def recorded(booked: Desk) -> Recorded:
    def put(lines: Any = RIGHT, **fields: Any) -> str:
        return on_record(booked, lines, datetime.now(UTC), **{"day": DAY} | fields)

    return put


def told(command: Command, *words: str) -> tuple[int, dict[str, Any]]:
    code, out, err = command("statement", *words, "--json")
    assert err == ""
    return code, json.loads(out)


def test_recorded_statements_agree_with_the_books_without_a_file(
    recorded: Recorded, command: Command
) -> None:
    recorded()

    code, found = told(command, "unmatched", *SINCE)

    assert (code, found["matched"], found["findings"], found["open"]) == (Exit.FINE, 4, [], [])
    assert found["currencies"]["EUR"]["left"] == "0.00"


def test_an_unmatched_line_or_order_is_reported_as_one_sided(recorded: Recorded, command: Command) -> None:
    recorded([*RIGHT[:3], line("1.00", text="a gift", bank_reference="B9")])

    code, found = told(command, "unmatched", *SINCE)

    assert code == Exit.FAILED
    kinds = {one["kind"] for one in found["findings"]}
    assert kinds <= {Kind.ONLY_BANK, Kind.ONLY_BOOKS}
    assert Kind.ONLY_BANK in kinds


def test_a_statement_that_began_before_option_since_is_included_whole(
    recorded: Recorded, command: Command
) -> None:
    recorded([{**one, "booked": "2026-11-18", "valued": "2026-11-18"} for one in RIGHT], first="2026-11-18")

    code, found = told(command, "unmatched", "--since", f"{DAY}T00:00:00Z")

    assert (code, found["findings"]) == (Exit.FINE, [])
    assert found["currencies"]["EUR"]["left"] == "0.00"


def test_an_order_matched_by_a_recorded_statement_needs_no_file(
    recorded: Recorded, booked: Desk, command: Command, tmp_path: Any
) -> None:
    recorded()
    file = tmp_path / "next.xml"
    file.write_bytes(camt([], opening="620.00", day="2026-11-21", name="S-2", number=8))

    code, found = told(command, "compare", str(file))

    assert (code, found["agrees"], found["open"]) == (Exit.FINE, True, [])


def test_files_and_lines_are_listed_with_their_orders(recorded: Recorded, command: Command) -> None:
    digest = recorded()

    code, found = told(command, "list", *SINCE)
    _, shown = told(command, "show", digest)
    _, out, _ = command("statement", "show", digest)

    assert code == Exit.FINE
    (file,) = found["files"]
    assert (file["sha256"], file["statements"][0]["closing"]) == (digest, "620.00")
    assert {line["order"] for line in shown["lines"]} >= {"deposit-INV-7-0001", "withdraw-PAY-1-0001"}
    assert "INV-7 / B2" in out
    assert ": deposit-INV-7-0001 of bob\n" in out


def test_an_account_shows_the_banks_line_of_a_deposit(recorded: Recorded, command: Command) -> None:
    digest = recorded()
    _, shown = told(command, "show", digest)
    line_of = {one["order"]: f"bank line {one['identity'][:12]}" for one in shown["lines"]}

    entries = json.loads(command("account", "show", "bob", "--json")[1])["entries"]

    references = {one["key"]: one["reference"] for one in entries}
    assert references.items() >= {(key, line_of[key]) for key in ("deposit-INV-7-0001", "deposit-INV-8-0001")}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("show", "0" * 64), Exit.NOT_FOUND, "digest: "),
        (("show", "day.xml"), Exit.USAGE, "digest: "),
        (("book", "bank-of-nobody-0001"), Exit.NOT_FOUND, "key: nobody has proposed"),
        (("propose", "--reason", "r"), Exit.USAGE, "accounts: "),
        *(
            (("propose", "--accounts", pattern, "--reason", "r"), Exit.USAGE, "accounts: ")
            for pattern in ("(", "ACC-([a-z]+)")
        ),
    ],
)
def test_an_unknown_or_invalid_argument_is_named(
    booked: Desk, command: Command, words: tuple[str, ...], code: Exit, told: str
) -> None:
    found, _, err = command("statement", *words)

    assert (found, told in err) == (code, True)


@pytest.mark.parametrize("spoilt", ["LINE", "MATCH"])
@pytest.mark.parametrize(("name", "value"), [("amount", "none"), ("side", "up"), ("currency", "XTS")])
def test_a_damaged_row_is_named_and_prevents_agreement(
    recorded: Recorded, booked: Desk, command: Command, spoilt: str, name: str, value: str
) -> None:
    digest = recorded()
    row = next(row for row in booked.ledger.rows() if (row["pk"][:9], row["sk"]) == ("BANK_LINE", spoilt))
    booked.ledger.put({**row, name: value})

    code, found = told(command, "unmatched", *SINCE)
    _, shown = told(command, "show", digest)

    assert (code, found["agrees"]) == (Exit.FAILED, False)
    assert any(row["pk"] in one for one in shown["unreadable"])


ACCOUNTS = ("--accounts", r"ACC-(?P<account>[a-z]+)", "--reason", "top-ups of today")
ALONE = [
    line("7.00", Side.IN, text="for ACC-alice", bank_reference="B5"),
    line("8.00", Side.IN, text="ACC-alice or ACC-bob", bank_reference="B6"),
    line("9.00", Side.IN, text="a gift", bank_reference="B7"),
    line("3.00", Side.OUT, text="ACC-alice", bank_reference="B8"),
]


def test_bank_lines_naming_an_account_can_be_proposed_and_booked(
    recorded: Recorded, booked: Desk, command: Command
) -> None:
    recorded([*RIGHT, *ALONE])

    code, found = told(command, "propose", *SINCE, *ACCOUNTS)
    _, again = told(command, "propose", *SINCE, *ACCOUNTS)

    assert (code, again) == (Exit.FINE, found)
    (proposal,) = found["proposals"]
    assert [(one["customer"], one["amount"]) for one in proposal["lines"]] == [("alice", "7.00")]
    key, digest = proposal["key"], proposal["digest"]
    assert told(command, "book", key)[1] == proposal
    assert command("statement", "book", key, "--digest", digest)[0] == Exit.CONFLICT

    booked.door.by = GRACE
    code, answer = told(command, "book", key, "--digest", digest)
    assert (code, answer["refused"]) == (Exit.FINE, [])
    assert told(command, "book", key, "--digest", digest) == (Exit.FINE, answer)
    assert told(command, "propose", *SINCE, *ACCOUNTS)[1]["proposals"] == []


def test_the_stages_pattern_finds_an_account_in_a_reference(
    recorded: Recorded, booked: Desk, command: Command
) -> None:
    recorded([*RIGHT, *ALONE])
    booked.stack.outputs["StatementAccounts"] = ACCOUNTS[1]

    _, found = told(command, "propose", *SINCE, "--reason", "top-ups")
    assert [one["customer"] for one in found["proposals"][0]["lines"]] == ["alice"]


@pytest.mark.parametrize("spoilt", [{"lines": "all"}, {"digest": "0" * 64}], ids=str)
def test_booking_a_damaged_proposal_names_its_row(
    recorded: Recorded, booked: Desk, command: Command, spoilt: dict[str, str]
) -> None:
    recorded([*RIGHT, *ALONE])
    (proposal,) = told(command, "propose", *SINCE, *ACCOUNTS)[1]["proposals"]
    row = next(row for row in booked.ledger.rows() if row["sk"] == "PROPOSED")
    booked.ledger.put({**row, **spoilt})

    code, _, err = command("statement", "book", proposal["key"])

    assert code == Exit.FAILED
    assert row["pk"] in err
