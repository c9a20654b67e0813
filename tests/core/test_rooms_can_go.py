"""Each optional room is deleted from a copy of the app: its folders in every tree, its lines in the lists.

The rest must import, settle, be synthesised, and pass its tests. Here some of them run;
`python -m tests.core.without <room> <folder>` makes a copy to run all.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.rooms import ROOMS
from tests.core.without import PROJECT, copy_without
from tests.unit.test_import_direction import ROOMS as NEEDS
from tests.unit.test_import_direction import imports
from tests.world.rooms import is_there

TREES = ("lambdas/handlers", "lambdas/settlement", "infra", "settle")
COMPOSED = {PROJECT / name for name in ("infra/rooms.py", "infra/config.py", "settle/cli.py")}
"""The lists of rooms: they import each."""

IMPORT_ALL = """
import importlib, pkgutil, tests.world.environment, handlers, infra, settle, settlement
for package in (handlers, infra, settle, settlement):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.startswith("settle.books.migrations"):
            importlib.import_module(found.name)
from handlers.orders import take_order
from settle.cli import app
print(*sorted(take_order.ROUTES))
"""

RUN = (
    *(
        "tests/unit/test_import_direction.py",
        "tests/unit/test_settle_imports.py",
        "tests/unit/test_vectors.py",
    ),
    *("tests/statemachines/test_names.py", "tests/infra/test_rooms.py", "tests/infra/test_grants.py"),
)


OWN = {"handlers", "infra", "settle", "settlement"}
BEHIND_AN_EXTRA = {PROJECT / "settle/local/postgresql.py"}
"""Imports the books when they are asked for, and says if they are not installed."""


def importers(room: str) -> Iterator[Path]:
    """Yield the modules that import a room, outside it and the lists."""
    for file in (file for tree in TREES for file in (PROJECT / tree).rglob("*.py")):
        if room in (file.stem, *file.parent.relative_to(PROJECT).parts):
            continue
        parts = (name.split(".") for name in imports(file))
        if any(tree in OWN and room in inner[:1] for tree, *inner in parts):
            yield file


OPTIONAL = sorted(room for room in NEEDS if not {*importers(room)} - COMPOSED - BEHIND_AN_EXTRA)


def test_these_rooms_are_optional() -> None:
    assert [room for room in ("books", "doors", "merchants") if is_there(room)] == OPTIONAL


def test_each_line_of_the_rooms_is_of_a_room() -> None:
    assert {room.name for room in ROOMS} <= NEEDS.keys()


@pytest.fixture(scope="module", params=OPTIONAL)
def without(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("without") / str(request.param)
    copy_without(request.param, copy)
    return copy


def run(copy: Path, *program: str) -> None:
    path = os.pathsep.join((str(copy), str(copy / "lambdas")))
    ended = subprocess.run(
        [sys.executable, *program],
        capture_output=True,
        text=True,
        check=False,
        cwd=copy,
        env=os.environ | {"PYTHONPATH": path},
    )

    assert ended.returncode == 0, f"{ended.stdout[-8_000:]}{ended.stderr[-4_000:]}"


def test_what_is_left_is_imported_and_settles(without: Path) -> None:
    assert not [*without.rglob(f"{without.name}/*.py")]
    run(without, "-c", IMPORT_ALL)
    run(without, "-m", "tests.core.alone", "with rooms")


@pytest.mark.long
def test_its_tests_are_green(without: Path) -> None:
    run(without, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "tests")
    run(without, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", *RUN)
