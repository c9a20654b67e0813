"""Each claim that no local test proves has an acceptance check on AWS."""

import re
from pathlib import Path

import pytest

from settle.acceptance.checks import BOOKS, BOOKS_ROWS, chosen

PAGE = Path(__file__).parents[2] / "docs/internals/not-proven-locally.md"
ALL = chosen([], [10], rings=True)
TRIED = {(row, check.name) for check in ALL for row in check.rows} | {(row, BOOKS) for row in BOOKS_ROWS}
NAMED = {
    (behaviour, name)
    for behaviour, check in re.findall(r"^\| (.+?) \| .+ \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    for name in re.findall(r"`(\w+)`", check)
}


TRIAL = re.compile(
    r"\b(to try|on AWS[:,]|at the first deployment|in a test account|no trial, because)", re.IGNORECASE
)


def test_each_unproven_claim_names_an_aws_check_or_says_why() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \| \S \|$", PAGE.read_text(), re.MULTILINE)

    assert len(rows) > 10
    assert [behaviour for behaviour, here in rows if not TRIAL.search(here)] == []


def test_each_row_has_three_columns() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]

    assert [row for row in rows if row.count(" | ") != 2 and not row.startswith("|---")] == []


@pytest.mark.parametrize(("row", "check"), sorted(TRIED))
def test_each_check_is_named_in_the_row_that_it_tests(row: str, check: str) -> None:
    assert [name for behaviour, name in NAMED if behaviour.startswith(row) and name == check] == [check]


@pytest.mark.parametrize(("behaviour", "name"), sorted(NAMED))
def test_each_check_named_on_the_page_tests_its_row(behaviour: str, name: str) -> None:
    assert [row for row, check in TRIED if check == name and behaviour.startswith(row)] != []
