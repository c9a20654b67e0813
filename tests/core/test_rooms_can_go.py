import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from handlers.rooms import ROOMS
from tests.unit.test_import_direction import ROOMS as NEEDS
from tests.world.templates import PROJECT

NEEDED = {need for needs in NEEDS.values() for need in needs}
OPTIONAL = sorted(NEEDS.keys() - NEEDED)
IMPORT_ALL = """
import importlib, pkgutil, tests.world.environment, handlers, settlement
for package in (handlers, settlement):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)
from handlers import rooms
from handlers.orders import take_order
print(*sorted(take_order.ROUTES))
"""


def test_the_rooms_that_no_other_one_needs_are_many() -> None:
    assert {"books", "doors", "events", "kyc", "merchants", "paging"} <= {*OPTIONAL}


def test_each_line_of_the_rooms_is_of_a_room() -> None:
    assert {room.name for room in ROOMS} <= NEEDS.keys()


@pytest.mark.parametrize("room", OPTIONAL)
def test_a_room_can_be_deleted(room: str, tmp_path: Path) -> None:
    copy = tmp_path / "lambdas"
    shutil.copytree(PROJECT / "lambdas", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for tree in ("settlement", "handlers"):
        shutil.rmtree(copy / tree / room, ignore_errors=True)
    file = copy / "handlers/rooms.py"
    file.write_text(re.sub(rf'    Room\(\s*name="{room}".*?\),\n', "", file.read_text(), flags=re.DOTALL))
    path = os.pathsep.join((str(copy), str(PROJECT)))

    for program in (("-c", IMPORT_ALL), ("-m", "tests.core.alone", "with rooms")):
        ended = subprocess.run(
            [sys.executable, *program],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": path},
        )

        assert ended.returncode == 0, ended.stderr
