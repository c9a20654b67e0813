"""Each optional room is deleted from a copy of the app: its folders in every tree, its lines in the lists.

The rest must settle and pass its tests, of which some run here.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers import rooms as of_functions
from tests.core.without import PROJECT, copy_without
from tests.unit.test_import_direction import ROOMS as NEEDS
from tests.unit.test_import_direction import imports
from tests.world import rooms
from tests.world.rooms import is_there, there

TREES = ("lambdas/handlers", "lambdas/settlement", "infra", "settle")
COMPOSED = {PROJECT / name for name in ("infra/rooms.py", "infra/config.py", "settle/cli.py")}
"""The lists of rooms, which import every room."""

_IMPORT = """
import importlib, pkgutil, tests.world.environment
for name in {packages!r}:
    for found in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not found.name.startswith("settle.books.migrations"):
            importlib.import_module(found.name)
"""
IMPORT_FUNCTIONS = _IMPORT.format(packages=("handlers", "settlement"))
IMPORT_ALL = _IMPORT.format(packages=("handlers", "infra", "settle", "settlement"))

RUN = (
    *(
        "tests/unit/test_import_direction.py",
        "tests/unit/test_settle_imports.py",
        "tests/unit/test_vectors.py",
    ),
    *("tests/infra/test_rooms.py", "tests/infra/test_grants.py", "tests/infra/orders/test_orders_api.py"),
    "tests/statemachines/test_names.py",
)


OWN = {"handlers", "infra", "settle", "settlement"}
BEHIND_AN_EXTRA = {PROJECT / "settle/local/postgresql.py"}
"""A file that imports the books room only on use, and reports a missing installation."""


def importers(room: str) -> Iterator[Path]:
    for file in (file for tree in TREES for file in (PROJECT / tree).rglob("*.py")):
        if room in (file.stem, *file.parent.relative_to(PROJECT).parts):
            continue
        parts = (name.split(".") for name in imports(file))
        if any(tree in OWN and room in inner[:1] for tree, *inner in parts):
            yield file


OPTIONAL = [room for room in rooms.OPTIONAL if is_there(room)]
OF_FUNCTIONS = sorted(NEEDS.keys() - {need for needs in NEEDS.values() for need in needs} - {*OPTIONAL})
"""Rooms that only constructs or commands need, so all other rooms' functions run without them."""


def test_the_listed_rooms_are_optional() -> None:
    found = sorted(room for room in NEEDS if not {*importers(room)} - COMPOSED - BEHIND_AN_EXTRA)

    assert found == OPTIONAL
    assert OF_FUNCTIONS == ["checks", "paging", "payruns", "proof"]


def test_the_extension_files_of_a_room_are_found_by_name() -> None:
    parts = ("costs", "records", "routes", "scenes", "shapes", "vectors", "writes")
    found = {
        file.relative_to(rooms.TESTS).as_posix()
        for part in parts
        for file in rooms.TESTS.glob(f"*/*/{part}.py")
    }

    assert found == {
        *there("books", "infra/books/scenes.py"),
        *there("checks", "proof/checks/shapes.py", "unit/checks/vectors.py"),
        *there("doors", *(f"infra/doors/{part}.py" for part in ("routes", "scenes", "writes"))),
        *there("doors", "proof/doors/shapes.py", "store/doors/costs.py", "unit/doors/vectors.py"),
        *there("merchants", *(f"infra/merchants/{part}.py" for part in ("records", "scenes", "writes"))),
        *there("merchants", "proof/merchants/shapes.py", "unit/merchants/vectors.py"),
        *("infra/bank/scenes.py", "unit/bank/vectors.py"),
        *there("payouts", *(f"infra/payouts/{part}.py" for part in ("routes", "scenes", "writes"))),
        *there("payruns", "infra/payruns/scenes.py", "infra/payruns/writes.py", "unit/payruns/vectors.py"),
        *there("payouts", "proof/payouts/shapes.py", "store/payouts/costs.py", "unit/payouts/vectors.py"),
    }


def test_each_room_listed_for_functions_is_a_known_room() -> None:
    assert {room.name for room in of_functions.ROOMS} <= NEEDS.keys()


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


@pytest.mark.long
def test_without_each_optional_room_the_app_imports_and_settles(without: Path) -> None:
    assert not [*without.rglob(f"{without.name}/*.py")]
    run(without, "-c", IMPORT_ALL)
    run(without, "-m", "tests.core.alone", "with rooms")


@pytest.mark.long
@pytest.mark.parametrize("room", OF_FUNCTIONS)
def test_the_functions_work_without_each_room_that_no_other_needs(room: str, tmp_path: Path) -> None:
    copy_without(room, tmp_path / room)
    for tree in ("infra", "settle"):
        shutil.rmtree(tmp_path / room / tree)

    run(tmp_path / room, "-c", IMPORT_FUNCTIONS)
    run(tmp_path / room, "-m", "tests.core.alone", "with rooms")


@pytest.mark.long
def test_without_each_optional_room_the_tests_pass(without: Path) -> None:
    quiet = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(without, *quiet, "--collect-only", "tests")
    run(without, *quiet, "-m", "not long", *RUN)
