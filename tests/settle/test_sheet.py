import csv
import io
import json

import pytest

from settle.exit_codes import Exit
from settle.output import sheet
from tests.settle.conftest import Command
from tests.settle.desk import Desk

EACH = [
    ("limbo", "list"),
    ("list", "--limbo"),
    ("list", "--in-flight"),
    ("list", "--since", "2026-11-01T00:00:00Z"),
    ("account", "show", "alice"),
]
HYPHEN = "-Xk2_fP0qR9sT1uV3wY5z"
each_list = pytest.mark.parametrize("words", EACH, ids=" ".join)


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@each_list
def test_csv_output_has_the_same_content_as_json(
    desk: Desk, command: Command, words: tuple[str, ...]
) -> None:
    desk.stuck()
    desk.pay("order-flying-0001", until="hold")

    as_csv, told = lines(command(*words, "--csv")[1]), json.loads(command(*words, "--json")[1])

    told = [one | {"currency": "EUR"} for one in told["entries"]] if words[0] == "account" else told
    assert as_csv
    assert as_csv == [
        {
            name: "" if value is None else " ".join(value) if isinstance(value, list) else str(value)
            for name, value in one.items()
        }
        for one in told
    ]


@each_list
def test_csv_and_json_together_are_refused(desk: Desk, command: Command, words: tuple[str, ...]) -> None:
    code, out, said = command(*words, "--csv", "--json")

    assert (code, out) == (Exit.USAGE, "")
    assert said == "settle: csv: give one of --csv, --spreadsheet and --json\n"
    assert command(*words, "--csv", "--spreadsheet") == (code, out, said)


def test_an_empty_csv_list_has_only_its_header(desk: Desk, command: Command) -> None:
    code, out, _ = command("limbo", "list", "--csv")

    assert (code, lines(out)) == (0, [])
    assert out.strip().startswith("key,case,since,")


@pytest.mark.parametrize("value", ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1+1", "\uff20SUM(A1)"])
def test_spreadsheet_text_is_not_a_formula_and_amounts_stay_numbers(value: str) -> None:
    assert lines(sheet.text([{"a": value}], ("a",), guarded=True)) == [{"a": f"'{value}"}]
    assert lines(sheet.text([{"a": value}], ("a",), ("a",), guarded=True)) == [{"a": value}]


@pytest.mark.parametrize("words", [("limbo", "list"), ("list", "--limbo"), ("list", "--since", "90d")])
def test_an_id_is_escaped_only_in_a_spreadsheet(desk: Desk, command: Command, words: tuple[str, ...]) -> None:
    desk.stuck(key=HYPHEN)

    (program,), (sheet,) = (
        {line["key"] for line in lines(command(*words, option)[1]) if HYPHEN in line["key"]}
        for option in ("--csv", "--spreadsheet")
    )

    assert (program, sheet) == (HYPHEN, f"'{HYPHEN}")


@pytest.mark.parametrize("value", ['a "quoted", text', "two\nlines", "\x1b[31mred", "\u202ebidi"])
def test_a_hostile_text_stays_in_one_cell(value: str) -> None:
    (line,) = lines(sheet.text([{"a": value, "b": "next"}], ("a", "b")))

    assert line["b"] == "next"
    assert line["a"].isprintable()
