from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

PROJECT = Path(__file__).parents[2]
_BUILT = {"node_modules", "cdk.out", "mutants", "src"}
"""Folders without our pages, besides hidden folders."""

_FOLDERS = [
    folder
    for folder in PROJECT.iterdir()
    if folder.is_dir() and folder.name not in _BUILT and not folder.name.startswith(".")
]
PAGES = sorted(
    page
    for page in (*PROJECT.glob("*.md"), *(page for folder in _FOLDERS for page in folder.rglob("*.md")))
    if "node_modules" not in page.relative_to(PROJECT).parts  # a client has its own
)
"""All pages, including those in new folders."""


@dataclass(frozen=True)
class Block:
    """A fenced code block; `line` is its fence's."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


@cache
def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks, including those in lists."""
    fences = [
        token for token in MarkdownIt().disable("inline").parse(page.read_text()) if token.type == "fence"
    ]
    return [Block(page, (fence.map or [0])[0] + 1, fence.info.strip(), fence.content) for fence in fences]
