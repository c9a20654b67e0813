import re
from pathlib import Path
from typing import Any

import pytest

from settle import cli
from tests.world.pages import PAGES as ALL
from tests.world.pages import PROJECT

PAGES = [page for page in ALL if page.name != "CHANGELOG.md"]  # it also names what is gone
FOLDERS = "benchmarks|clients|docs|examples|infra|lambdas|settle|statemachines|tests"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return not target.exists() or bool(anchor and anchor not in anchors(target))


@each_page
def test_each_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page))

    assert [link for link in links if is_broken(page, link)] == []


@each_page
def test_each_path_that_a_page_names_exists(page: Path) -> None:
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./*-]+(?:/|\.(?:py|md|json|toml|yaml)))`", prose(page))

    assert [path for path in paths if not any(PROJECT.glob(path.rstrip("/")))] == []


def unknown(words: list[str]) -> list[str]:
    command: Any = cli.command()
    while hasattr(command, "commands"):
        if not words or words[0] not in command.commands:
            return words
        command, words = command.commands[words[0]], words[1:]
    options = {option for given in command.params for option in (*given.opts, *given.secondary_opts)} | {
        "--help"
    }
    return [word for word in words if word.startswith("-") and word not in {"-", *options}]


@each_page
def test_each_command_of_settle_that_a_page_shows_is_valid(page: Path) -> None:
    shown = re.findall(r"`settle ([a-z][^`]*)`|^(?:\$ )?settle ([a-z].*)$", page.read_text(), re.MULTILINE)
    commands = [re.sub(r"'.*?'|\".*?\"|\s#.*", "", "".join(one)).split() for one in shown]

    assert [words for words in commands if unknown(words)] == []


@pytest.mark.parametrize(
    ("link", "expected"),
    [("README.md", False), ("gone.md", True), ("#the-gone", True), ("docs/glossary.md#money", False)],
)
def test_a_broken_link_is_found(link: str, expected: bool) -> None:
    assert is_broken(PROJECT / "README.md", link) is expected


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("limbo list --json", []),
        ("limbo lists", ["lists"]),
        ("status KEY --jsn", ["--jsn"]),
        ("start - --machine standard", []),
    ],
)
def test_an_invalid_command_is_found(words: str, wrong: list[str]) -> None:
    assert unknown(words.split()) == wrong


def test_every_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    to_read = [PROJECT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            links = re.findall(r"\]\((?!https?:)([^)#\s]+)", prose(page))
            to_read += [(page.parent / link).resolve() for link in links]

    assert [str(page.relative_to(PROJECT)) for page in PAGES if page not in reached] == []


def test_each_test_file_named_in_the_readme_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)`", (PROJECT / "tests/README.md").read_text())

    assert len(named) > 10
    assert [
        name for name in named if not any(PROJECT.glob(f"tests/**/{name}")) and name != "test_first.py"
    ] == []
