"""A copy of the app without a room: its folders are gone, and its lines in the lists of rooms.

`python -m tests.core.without merchants <folder>` makes one by hand.
"""

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
LISTS = (
    *("lambdas/handlers/rooms.py", "infra/rooms.py", "infra/config.py", "settle/cli.py"),
    *("settle/console/rooms.py", "settle/orders/rooms.py"),
    *("tests/unit/test_import_direction.py", "tests/unit/test_settle_imports.py"),
)
"""The files that name rooms: lists for each tree, and the import rules."""

LEFT_OUT = (
    ".*cache",
    ".git",
    ".hypothesis",
    ".settle",
    ".venv*",
    "cdk.out",
    "node_modules",
    "mutants",
)


def copy_without(room: str, folder: Path) -> None:
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    if (PROJECT / "node_modules").is_dir():  # tests find programs there
        (folder / "node_modules").symlink_to(PROJECT / "node_modules")
    for tree in ("lambdas", "infra", "settle", "tests"):
        for found in [*(folder / tree).rglob(room)]:
            shutil.rmtree(found)
    (folder / f"infra/{room}.py").unlink(missing_ok=True)
    for name in LISTS:
        file = folder / name
        file.write_text(without_lines(file.read_text(), room))


def without_lines(source: str, room: str) -> str:
    """Return a module without the imports of a room, its entries in lists, and the names that it brought."""
    module = ast.parse(source)
    names = {room, *_imported(module, room)}
    gone: list[tuple[int, int]] = []
    for node in ast.walk(module):
        match node:
            case ast.ImportFrom(module=str(of)) if room in of.split("."):
                gone.append((node.lineno, node.end_lineno or 0))
            case ast.Call(
                func=ast.Name(id="Room"), keywords=[ast.keyword(value=ast.Constant(value=named)), *_]
            ):
                gone += [(node.lineno, node.end_lineno or 0)] if named == room else []
            case ast.Expr(value=ast.Call() as call) if names & _used(call):
                gone.append((node.lineno, node.end_lineno or 0))
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    texts = value.elts if isinstance(value, ast.Set) else []
                    is_of_the_room = bool(texts) and all(_names_room(one, room) for one in texts)
                    if key and (_names_room(key, room) or names - {room} & _used(value) or is_of_the_room):
                        gone.append((key.lineno, value.end_lineno or 0))
    lines = source.splitlines(keepends=True)
    kept = [
        line
        for number, line in enumerate(lines, 1)
        if not any(first <= number <= last for first, last in gone)
    ]
    listed = re.compile(rf"(?<![\w.\"])(?:{'|'.join(sorted(names))}),(?: |$)", re.MULTILINE)
    return re.sub(r"^ +\n(?= +\w+,\n)", "", listed.sub("", "".join(kept)), flags=re.MULTILINE)


def _imported(module: ast.Module, room: str) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and room in (node.module or "").split("."):
            yield from (alias.asname or alias.name for alias in node.names)


def _used(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _names_room(text: ast.expr, room: str) -> bool:
    return isinstance(text, ast.Constant) and room in str(text.value).split(".")


if __name__ == "__main__":
    copy_without(sys.argv[1], Path(sys.argv[2]))
