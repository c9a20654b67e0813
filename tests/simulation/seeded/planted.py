"""Checks that the rules find bugs planted into a copy of the code.

`python -m tests.simulation.seeded.planted` writes the first seed that finds each bug to `found.json`, which
the tests run.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.simulation.seeded.run import run
from tests.world.rooms import is_there

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FOUND = HERE / "found.json"
SEEDS_MAX = 10_000

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload([run.__module__])

_OURS = {"handlers", "settle", "settlement", "tests"}
_LINKED = ("lambdas", "settle", "statemachines", "docs/contracts", "tests/world", "tests/simulation/seeded")


def bugs() -> list[dict[str, Any]]:
    """Return the bugs. Each replaces `old` by `new` in `file`, and likewise in the files of `also`.

    A bug with `core` runs in histories of the core.
    """
    found: list[dict[str, Any]] = tomllib.loads((HERE / "planted.toml").read_text())["bug"]
    return [bug for bug in found if all(map(is_there, Path(bug["file"]).parts))]


def recorded() -> dict[str, int]:
    found: dict[str, int] = json.loads(FOUND.read_text())
    return found


@contextmanager
def planted(bug: dict[str, Any]) -> Iterator[Path]:
    """Yield a copy of the code with the bug; other files are links. Raises ValueError if `old` is missing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in _LINKED:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).symlink_to(ROOT / name)
        for package in ("tests", "tests/simulation"):
            (copy / package / "__init__.py").touch()
        for file, old, new in [(bug["file"], bug["old"], bug["new"]), *bug.get("also", ())]:
            text = (copy / file).read_text()
            if old not in text:
                raise ValueError(f"{bug['name']}: {file} has changed; write the bug anew")
            _make_own(copy, Path(file))
            (copy / file).write_text(text.replace(old, new))
        yield copy


def _make_own(copy: Path, file: Path) -> None:
    """Replace the links above a file by real folders, which link to everything except the file."""
    for folder in reversed(file.parents):
        if (copy / folder).is_symlink():
            (copy / folder).unlink()
            (copy / folder).mkdir()
            for each in (ROOT / folder).iterdir():
                (copy / folder / each.name).symlink_to(each)
    (copy / file).unlink()


def seed_that_finds(bug: dict[str, Any], first: int, seeds: int) -> int | None:
    with planted(bug) as copy, ProcessPoolExecutor(1, mp_context=_FORKS) as process:
        sought = range(first, first + seeds)
        return process.submit(_first_broken, copy, sought, core=bug.get("core", False)).result()


def _first_broken(copy: Path, seeds: Iterable[int], *, core: bool) -> int | None:
    """Return the first seed in which the copy breaks a rule, or None.

    Only the project's modules are imported anew, since importing libraries takes half of the time.
    """
    sys.dont_write_bytecode = True  # it would replace what the real files were compiled to
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    sys.path[:0] = [str(copy), str(copy / "lambdas")]
    os.chdir(copy)
    in_copy = import_module(run.__module__)
    return next((seed for seed in seeds if in_copy.run([seed], core=core).failed), None)


def _search(seeds: int, known: Mapping[str, int], bug: dict[str, Any]) -> int | None:
    first = known.get(bug["name"])
    if first is not None and seed_that_finds(bug, first, 1) == first:
        return first
    seed = seed_that_finds(bug, 0, seeds)
    if seed is not None and run([seed], core=bug.get("core", False)).failed:
        raise ValueError(f"seed {seed} breaks a rule of the code as it is")
    return seed


def main() -> int:
    """Search for each bug; print the seeds needed. Exit with 0 if all were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="search only for bugs whose names match this pattern")
    given = parser.parse_args()
    sought = [bug for bug in bugs() if re.search(given.only, bug["name"])]
    names = {bug["name"] for bug in bugs()}
    found, missed = {name: seed for name, seed in recorded().items() if name in names}, 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for bug, seed in zip(
            sought, pool.map(partial(_search, given.seeds, dict(found)), sought), strict=True
        ):
            if seed is None:
                found.pop(bug["name"], None)
                missed += 1
            else:
                found[bug["name"]] = seed
            print(f"{'MISSED' if seed is None else seed + 1:>6}  {bug['name']}", flush=True)
            FOUND.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(sought)} planted, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
