"""The site has each page and contract, and loads nothing from other hosts. `make docs` builds it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site import contracts, navigation
from tests.world.pages import PAGES, PROJECT

SITE = PROJECT / "docs" / "site"
CONTRACTS = [path for path in sorted((PROJECT / "docs" / "contracts").iterdir()) if path.suffix != ".md"]

each_contract = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda path: path.name)


@cache
def content_of(contract: Path) -> Any:
    return (json.loads if contract.suffix == ".json" else yaml.safe_load)(contract.read_text())


@cache
def page_of(contract: Path) -> str:
    return contracts.page(contract)[1]


def paths(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    else:
        for one in part.values() if isinstance(part, dict) else part:
            yield from paths(one)


def test_each_page_is_in_the_navigation_once() -> None:
    listed = Counter(paths(navigation.navigation({})))

    assert listed == Counter(str(page.relative_to(PROJECT)) for page in PAGES)


def test_a_generated_page_follows_its_overview_in_the_navigation() -> None:
    made = {"docs/contracts/README.md": ["made.md"], "docs/reference/README.md": ["last.md"]}

    listed = list(paths(navigation.navigation(made)))

    assert listed[listed.index("docs/contracts/README.md") + 1] == "made.md"
    assert listed[listed.index("docs/glossary.md") + 1] == "last.md"


def test_a_page_that_no_overview_lists_still_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {*navigation.pages(), "docs/new/page.md"}
    monkeypatch.setattr(navigation, "pages", lambda: pages)

    assert "docs/new/page.md" in paths(navigation.navigation({})[-1])


@pytest.mark.parametrize("file", ["mkdocs.yml", "hooks.py", "contracts.py", "assets/style.css"])
def test_the_site_names_no_other_host(file: str) -> None:
    assert re.findall(r"https?://\S+", (SITE / file).read_text()) == []


def test_the_theme_takes_no_font_from_another_host() -> None:
    assert re.search(r"^  font: false$", (SITE / "mkdocs.yml").read_text(), re.MULTILINE)


@each_contract
def test_a_contract_page_has_each_field(contract: Path) -> None:
    content = content_of(contract)
    schemas = [content, *content.get("components", {}).get("schemas", {}).values()]
    fields = {name for schema in schemas for name in schema.get("properties", {})}

    page = page_of(contract)

    assert {name for name in fields if f"`{name}`" not in page} == set()


@each_contract
def test_a_contract_page_has_each_operation_and_message(contract: Path) -> None:
    content = content_of(contract)
    page = page_of(contract)

    for path in (*content.get("paths", {}), *content.get("webhooks", {})):
        assert re.search(rf"(GET|POST|Webhook) {re.escape(path)}(`|$)", page, re.MULTILINE), path
    for message in content.get("components", {}).get("messages", {}).values():
        assert f"`{message['name']}`" in page


@each_contract
def test_each_link_on_a_contracts_page_can_be_resolved(contract: Path) -> None:
    page = page_of(contract)
    headings = {re.sub(r"[`.]", "", line).lower() for line in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}

    for file, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page):
        assert not file or (contract.parent / file.removesuffix(".md")).exists()
        assert not anchor or file or anchor in headings


def test_a_contracts_types_are_shown_in_words(tmp_path: Path) -> None:
    schema = {
        "title": "A",
        "description": "B.",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "minLength": 1, "maxLength": 4, "pattern": "^(x|y)$"},
            "b": {"type": "array", "items": {"enum": ["x", 2]}, "minItems": 1},
            "c": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]},
            "e": {"type": "integer", "maximum": 9, "default": 3, "description": "One | other."},
        },
    }
    (file := tmp_path / "a.schema.json").write_text(json.dumps(schema))

    title, page = contracts.page(file)

    assert title == "A"
    assert "| `a` * | string, 1 to 4 characters, `^(x|y)$`{.long} |  |" in page
    assert "| `b` | array of `x`, `2`, 1 or more items |  |" in page
    assert "| `c` | null or [d](#d) |  |" in page
    assert r"| `e` | integer, at most 9, default `3` | One \| other. |" in page
