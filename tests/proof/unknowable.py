"""Writes the page of the undetectable changes, which `unknowable.toml` lists.

Command: `python -m tests.proof.unknowable`.
"""

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/internals/reliability.md"
_TABLE = Path(__file__).with_suffix(".toml")
_PLACE = re.compile(r"(<!-- table: unknowable -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Explanation:
    """Why these changes cannot be detected."""

    rows: tuple[str, ...]
    attributes: tuple[str, ...]
    changes: tuple[str, ...]
    reason: str

    def parts(self) -> list[tuple[str, str, str]]:
        return [
            (row, name, change) for row in self.rows for name in self.attributes for change in self.changes
        ]


def explains(part: tuple[str, str, str], mutated: tuple[str, str, str]) -> bool:
    """Whether a part of an explanation is about a mutated row, attribute and change."""
    return part[1:] == mutated[1:] and fnmatchcase(mutated[0], part[0])


@cache
def explanations() -> tuple[Explanation, ...]:
    found = tomllib.loads(_TABLE.read_text())["unknowable"]
    return tuple(
        Explanation(tuple(one["rows"]), tuple(one["attributes"]), tuple(one["changes"]), one["reason"])
        for one in found
    )


@cache
def is_explained(mutated: tuple[str, str, str]) -> bool:
    return any(explains(part, mutated) for one in explanations() for part in one.parts())


def _grouped(rows: tuple[str, ...]) -> str:
    """Name each kind of row once, with its statuses or steps."""
    kinds: dict[str, list[str]] = {kind: [] for kind in (row.partition(" ")[0] for row in rows)}
    for row in rows:
        kinds[row.partition(" ")[0]].append(row.partition(" ")[2])
    return "; ".join(f"{kind} {', '.join(parts)}".rstrip() for kind, parts in kinds.items())


def rendered() -> str:
    rows = [
        f"| {_grouped(one.rows)} | {', '.join(f'`{name}`' for name in one.attributes)}"
        f" | {', '.join(one.changes)} | {one.reason} |"
        for one in explanations()
    ]
    table = "\n".join(["| rows | attributes | changes | why |", "|---|---|---|---|", *rows])
    return _PLACE.sub(lambda found: f"{found[1]}{table}\n{found[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(rendered())
