"""Docstrings and pages have few words, and few marks of hard sentences."""

import re
from pathlib import Path

import pytest

from tests.world.pages import PAGES
from tests.world.templates import PROJECT
from tools.plain_words import count

PAGE_WORDS_MAX = 90_000
DOCSTRING_WORDS_MAX = 0.84
"""Words for each line of production: docs/decisions/2026-11-29-tests.md."""

MARKS_MAX = 2
"""Marks in 1,000 words."""

NAME_WORDS_MAX = 10

TEST_LINES_MAX = 2.2
"""Test lines for each line of production."""

TESTS = list((PROJECT / "tests").rglob("*.py"))
PRODUCTION = [file for tree in ("lambdas", "settle", "infra") for file in (PROJECT / tree).rglob("*.py")]


def lines(files: list[Path]) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


@pytest.mark.parametrize(
    ("files", "words_max"),
    [
        (PRODUCTION, int(DOCSTRING_WORDS_MAX * lines(PRODUCTION))),
        (TESTS, 38_000),
        (PAGES, PAGE_WORDS_MAX),
    ],
    ids=["production", "tests", "pages"],
)
def test_sentences_have_few_hard_words(files: list[Path], words_max: int) -> None:
    counted = count(files)

    assert counted.words <= words_max
    assert counted.rate <= MARKS_MAX, "\n".join(counted.lines)


def test_the_tests_have_few_lines_for_each_of_production() -> None:
    clients = list((PROJECT / "clients").rglob("*.py"))

    assert lines(TESTS) <= TEST_LINES_MAX * lines(PRODUCTION + clients)


def test_a_tests_name_has_at_most_ten_words() -> None:
    names = (
        name for file in TESTS for name in re.findall(r"^ *def (test_\w+)", file.read_text(), re.MULTILINE)
    )

    assert [name for name in names if name.count("_") > NAME_WORDS_MAX] == []


def test_the_counter_marks_a_clause_used_as_noun(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Show what is left.\n```\nwhat is left\n```\n")

    assert (count([page]).words, count([page]).marks) == (4, 1)


def test_the_counter_reads_docstrings_but_no_other_code(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text('"""Show what is left."""\nA = "what is left"\n"""That of a name."""\n')

    assert (count([file]).words, count([file]).marks) == (8, 2)
