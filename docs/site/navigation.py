"""The pages of the documentation site, in the order of the overview pages in `docs/`."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
FOLDERS = ("clients", "docs", "examples", "statemachines", "tests")
"""Folders with pages. All other pages are in the project's top folder."""

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]+\.md)\)")
_ROW = re.compile(r"^\| (?P<kind>[^|]+) \| (?P<pages>.+) \|$", re.MULTILINE)


def pages() -> set[str]:
    """Return the path of each page, from the top of the project."""
    found = [
        *PROJECT.glob("*.md"),
        *(page for folder in FOLDERS for page in (PROJECT / folder).rglob("*.md")),
    ]
    return {page.relative_to(PROJECT).as_posix() for page in found}


def navigation(made: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Return the sections and their pages, in the form of MkDocs.

    `made` has the pages that the build makes, by the page that they follow.
    """
    kinds: list[dict[str, Any]] = [_kind(row["kind"], row["pages"], made) for row in _rows("docs/README.md")]
    listed = _flat(kinds)
    rest = [
        page for page in sorted(pages()) if page not in listed and page not in {"README.md", "docs/README.md"}
    ]
    return [{"Home": ["README.md", {"All pages": "docs/README.md"}]}, *kinds, {"Project": rest}]


def _rows(page: str) -> list[re.Match[str]]:
    text = (PROJECT / page).read_text().partition("## By kind")[2]
    return [row for row in _ROW.finditer(text) if _LINK.search(row["pages"])]


def _kind(kind: str, row: str, made: Mapping[str, list[str]]) -> dict[str, Any]:
    index = [path for _, path in _links("docs/README.md", kind)]
    listed: list[Any] = []
    for title, path in _links("docs/README.md", row):
        below = [] if path in _overviews(row) else _below(path)
        below += made.get(path, [])
        listed.append({title: [path, *below]} if below else {title: path})
    if len(listed) == 1 and isinstance(next(iter(listed[0].values())), list):
        listed = next(iter(listed[0].values()))  # a section of one section
    title = re.sub(r"\[([^\]]+)\].*", r"\1", kind).removeprefix("how-to, ")
    return {
        title[0].upper() + title[1:]: [
            *index,
            *listed,
            *(page for path in index for page in made.get(path, [])),
        ]
    }


def _overviews(row: str) -> set[str]:
    """Return the pages in a row of docs/README.md that share a folder with another of its pages."""
    paths = [path for _, path in _links("docs/README.md", row)]
    folders = [posixpath.dirname(path) for path in paths]
    return {path for path, folder in zip(paths, folders, strict=True) if folders.count(folder) > 1}


def _below(path: str) -> list[Any]:
    """Return the pages beside an overview, by theme if it has themes."""
    if posixpath.basename(path) != "README.md":
        return []
    folder = posixpath.dirname(path)
    beside = {page for page in pages() if posixpath.dirname(page) == folder and page != path}
    rest, themes = set(beside), list[Any]()
    for part in re.split(r"^## ", (PROJECT / path).read_text(), flags=re.MULTILINE)[1:]:
        links = {page: title for title, page in reversed(_links(path, part)) if page in beside}
        if links:
            listed = [{title[0].upper() + title[1:]: page} for page, title in reversed(links.items())]
            themes.append({part.partition("\n")[0]: listed})
            rest -= links.keys()
    return sorted(beside) if rest else themes


def _links(page: str, text: str) -> list[tuple[str, str]]:
    folder = posixpath.dirname(page)
    return [(title, posixpath.normpath(posixpath.join(folder, path))) for title, path in _LINK.findall(text)]


def _flat(listed: Any) -> set[str]:
    if isinstance(listed, str):
        return {listed}
    return {path for one in (listed.values() if isinstance(listed, dict) else listed) for path in _flat(one)}
