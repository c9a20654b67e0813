import re
from pathlib import Path

import pytest

from docs.reference import generate
from settle import explanations

DECISIONS = generate.PROJECT / "docs" / "decisions"


@pytest.mark.parametrize("page", generate.PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_reference_page_match_the_code(page: Path) -> None:
    assert page.read_text() == generate.rendered(page), "run `make reference`, and read the changed tables"


def test_each_table_is_placed_on_a_page() -> None:
    places = "".join(page.read_text() for page in generate.PAGES)

    assert {name for name in generate.TABLES if f"<!-- table: {name} -->" not in places} == set()


@pytest.mark.parametrize(("kind", "name"), [("status", "LIMBO"), ("metric", "Settled"), ("entry", "debit")])
def test_a_name_without_a_meaning_stops_the_rendering(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(generate.MEANINGS[kind], name)

    with pytest.raises(ValueError, match=rf"\[{kind}\] has too many or too few of {name}"):
        "".join(map(generate.rendered, generate.PAGES))


def test_the_page_of_errors_explains_each_uncaught_error() -> None:
    caught = {name for _, catch in generate.CATCHES for name in catch["ErrorEquals"]}
    page = (generate.HERE / "errors.md").read_text()
    section = page.partition("## Errors that no state names\n")[2].partition("\n## ")[0]

    assert [name for name in explanations.kinds() if name not in caught and f"`{name}`" not in section] == []


@pytest.mark.parametrize("record", sorted(DECISIONS.glob("2*.md")), ids=lambda record: record.stem)
def test_each_decision_page_has_a_status_and_index_line(record: Path) -> None:
    assert re.search(r"^Status: (accepted|superseded by \[)", record.read_text(), re.MULTILINE)
    assert f"]({record.name})" in (DECISIONS / "README.md").read_text()
