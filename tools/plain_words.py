"""Count the marks of sentences that have to be read twice, in docstrings and pages.

A mark is a hint, not a verdict: read the line aloud, then rewrite it or leave it. Temporal, Powertools, DBOS
and TigerBeetle have 0.3 to 1.0 marks in 1,000 words.

Usage: python -m tools.plain_words PATH...
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = re.compile(
    "|".join(
        (
            r"\bwhat (?:it|they|is|was|a|an|the|no|needs|has|may|else)\b",  # a clause in the place of a noun
            r"\b(?:that|which) is none\b|\bis no [a-z]+\b|\bare no [a-z]+",  # a negated noun
            r"\balso (?:if|while|when|by|where)\b",
            r"\b(?:tells?|told) (?:which|what|how|why|that|of|whether|when|where|it|them)\b|\bis told\b",
            r"\b(?:of (?:a|an|the|its|all|each|any|one) [a-z-]+ ){2,}",
            r"\b(?:that|those|the one|the ones) of\b",
            r"\bfrom (?:it|there|now|`?\w+`?) on\b",
            r"\bby (?:itself|themselves|its|their)\b",
            r"\bas [^.,;:]{2,40} (?:has|have) it\b",
            r"\bso (?:many|long|much)\b",
            r"\bthere (?:is|are) (?:none|no)\b|\bno other\b",
            r"\b(?:whoever|whatever|whichever|somebody|nobody|anybody)\b",
        )
    ),
    re.IGNORECASE,
)


@dataclass
class Count:
    """The words and marks of some texts, and the lines with marks, as `path:line: text`."""

    words: int = 0
    marks: int = 0
    lines: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The marks in 1,000 words."""
        return 1000 * self.marks / max(self.words, 1)


def count(paths: list[Path]) -> Count:
    """Count the docstrings of Python files and the text of pages."""
    counted = Count()
    for path in paths:
        for line, text in _docstrings(path) if path.suffix == ".py" else _page(path):
            marks = len(MARK.findall(text))
            counted.words += len(re.findall(r"[A-Za-z']+", text))
            counted.marks += marks
            if marks:
                counted.lines += (f"{path}:{line}: {' '.join(text.split())[:140]}",)
    return counted


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield node.lineno, text


def _page(path: Path) -> Iterator[tuple[int, str]]:
    is_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code:
            yield number, line


if __name__ == "__main__":
    found = [
        path for root in map(Path, sys.argv[1:]) for path in ([root] if root.is_file() else root.rglob("*"))
    ]
    total = count([path for path in sorted(found) if path.suffix in (".py", ".md")])
    print(*total.lines, f"{total.rate:.2f} marks in 1,000 words ({total.words} words)", sep="\n")
