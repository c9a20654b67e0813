import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.world.rooms import OPTIONAL, is_there

PROJECT = Path(__file__).parents[2]
LAMBDAS = PROJECT / "lambdas"
OURS = {"app", "handlers", "infra", "settle", "settlement", "tests"}

CORE, AWS = "settlement.core", "settlement.aws"
MODEL, LEDGER, POLICY = (f"{CORE}.{name}" for name in ("model", "ledger", "policy"))
LAYERS = {
    "core/model": (MODEL,),
    "core/ledger": (MODEL, LEDGER),
    "core/policy": (MODEL, LEDGER, POLICY),
    "core/store": (MODEL, LEDGER, f"{CORE}.telemetry", f"{CORE}.store"),
    "core": (MODEL, f"{CORE}.telemetry"),
    "aws": (MODEL, LEDGER, AWS),
}
"""Allowed imports of each shared folder of `lambdas/settlement/`."""

ROOMS = {
    "http": (),
    "retention": (),
    "kyc": ("http",),
    "checks": ("kyc",),
    "merchants": ("http",),
    "accounts": ("http",),
    "events": ("http",),
    "orders": ("http",),
    "paging": (),
    "journal": ("retention",),
    "signing": ("journal",),
    "reading": ("http", "journal", "retention"),
    "doors": ("http", "reading"),
    "books": ("journal",),
    "proof": ("accounts", "http", "journal", "orders", "retention", "signing"),
    "bank": ("accounts", "http"),
    "payouts": ("bank", "events", "http", "kyc", "signing"),
    "payruns": ("events", "http", "payouts", "signing"),
}
"""Each room, with the other rooms that it needs."""

PURE = {"core/model", "core/ledger", "core/policy"}
"""Folders without a clock, randomness, environment or service."""

PURE_MODULES = {
    "accounts": ("account_orders", "administration", "order"),
    "bank": (
        *("balances", "booking", "camt", "camt_element", "camt_statement", "fields", "matching", "record"),
        "statement",
    ),
    "books": ("page", "rounds"),
    "doors": ("cancellation", "cancelling", "starting"),
    "checks": ("answers", "check", "waits"),
    "events": ("changes", "replay"),
    "http": ("caller", "circuit", "statuses"),
    "journal": ("entries", "lines", "objects", "seals"),
    "kyc": ("opensanctions", "verifications", "webhook_signature"),
    "merchants": ("order", "sweep", "sweeps"),
    "orders": ("approval", "partial_reversal", "parts", "proposal", "proposals", "requests"),
    "paging": ("page",),
    "payouts": (
        *("changes", "decision", "destination", "iban", "lines", "moves", "payout", "policy", "port", "told"),
        "writes",
    ),
    "payruns": ("changes", "file", "orders", "outcomes", "paying", "run", "writes"),
    "proof": (
        *("facts", "findings", "judgement", "legal", "on_record", "ordered", "proof", "retention", "rows"),
        *("payout_row", "payout_rows", "payouts", "payouts_judged", "payrun_rows"),
        *("sealed", "sealed_expired", "sealed_freezes", "sequence", "settlement_row", "values", "watch"),
    ),
    "reading": ("queries", "statement_line"),
    "retention": ("expiry",),
    "signing": ("signature",),
}


HARMLESS = {
    *("base64", "collections", "contextlib", "dataclasses", "datetime", "enum", "functools", "hashlib"),
    *(
        "hmac",
        "itertools",
        "json",
        "operator",
        "re",
        "settlement",
        "shlex",
        "typing",
        "unicodedata",
        "xml",
        "zlib",
    ),
}

SERVICES = {"boto3", "botocore", "os", "random", "time", "urllib3", "uuid"}
FILES = sorted(path for path in LAMBDAS.rglob("*.py") if path.name != "__init__.py")


@cache
def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.is_relative_to(PROJECT / "infra"), f"{path}: imports are absolute"
            below = path.relative_to(PROJECT).parts[: -node.level] if node.level else ()
            module = ".".join((*below, *([node.module] if node.module else [])))
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.partition(".")[0] in OURS}


def strangers(folder: Path, allowed: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(folder.glob("*.py")):
        for name in sorted(ours(path)):
            if not any(name == one or name.startswith(f"{one}.") for one in allowed):
                yield f"{path.relative_to(PROJECT)}: {name}"


def test_each_folder_is_the_core_or_a_room() -> None:
    folders = {
        path.parent.relative_to(LAMBDAS / "settlement").as_posix()
        for path in FILES
        if "settlement" in path.parts
    }
    functions = {path.parent.name for path in FILES if path.parent.parent.name == "handlers"}

    assert folders == LAYERS.keys() | ROOMS.keys()
    assert functions <= {"core", *ROOMS}


@pytest.mark.parametrize("folder", LAYERS)
def test_a_layer_imports_only_the_layers_below_it(folder: str) -> None:
    assert list(strangers(LAMBDAS / "settlement" / folder, LAYERS[folder])) == []


def test_a_function_of_the_core_imports_no_room() -> None:
    shared = ("handlers._dependencies", "handlers.rooms")

    assert list(strangers(LAMBDAS / "handlers/core", (CORE, AWS, "handlers.core", *shared))) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_core_and_its_needed_rooms(room: str) -> None:
    rooms = (room, *ROOMS[room])
    shared = ("handlers.core", "handlers._dependencies", "handlers.rooms")
    of_settlement = (CORE, AWS, *(f"settlement.{one}" for one in rooms))
    of_handlers = (*of_settlement, *shared, *(f"handlers.{one}" for one in rooms))

    assert list(strangers(LAMBDAS / "settlement" / room, of_settlement)) == []
    assert list(strangers(LAMBDAS / "handlers" / room, of_handlers)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_each_room_that_it_names_as_needed(room: str) -> None:
    folders = (LAMBDAS / "settlement" / room, LAMBDAS / "handlers" / room)
    used = {
        name.split(".")[1]
        for folder in folders
        for path in folder.glob("*.py")
        for name in ours(path)
        if "." in name
    }

    assert set(ROOMS[room]) <= used


def test_no_two_rooms_need_each_other() -> None:
    assert len([*TopologicalSorter(ROOMS).static_order()]) == len(ROOMS)


def test_the_infrastructure_imports_only_itself() -> None:
    assert list(strangers(PROJECT / "infra", ("infra",))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_pure_modules_have_no_side_effects_and_handlers_no_services(path: Path) -> None:
    folder = path.parent.relative_to(LAMBDAS).as_posix().removeprefix("settlement/")
    packages = {name.partition(".")[0] for name in imports(path)}
    if folder in PURE or path.stem in PURE_MODULES.get(folder, ()):
        nodes = ast.walk(ast.parse(path.read_text()))
        assert packages <= HARMLESS
        assert not {"__import__", "eval", "exec", "open"} & {getattr(node, "id", None) for node in nodes}
    elif folder.startswith("handlers/") and not path.stem.startswith("_"):
        assert not packages & SERVICES


def test_only_dependencies_creates_aws_clients() -> None:
    making = {
        path.stem
        for path in FILES
        if "handlers" in path.parts and re.search(r"LazyClient\(|\.client\(", path.read_text())
    }

    assert making == {"_dependencies"}


def test_each_listed_pure_module_exists() -> None:
    named = {f"{room}/{stem}" for room, stems in PURE_MODULES.items() for stem in stems}

    assert {name for name in named if not (LAMBDAS / f"settlement/{name}.py").exists()} == set()


def test_only_the_listed_modules_read_a_clock() -> None:
    assert {path.stem for path in FILES if _reads_clock(path)} == {
        "_dependencies",
        "_payee",  # its cache's age
        "connection",  # its age
        "exchange",  # its end
        "shared_circuit",
        "_long_poll",  # a caller's wait
        "table_scan",  # its start: it may miss orders that are given later
        "tools",  # the end of a check's time
    }


_HANDED_DOWN = {"_dependencies.now", "self.now", "self.orders.now", "time.sleep"}


def _reads_clock(path: Path) -> bool:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    names = {ast.unparse(node) for node in nodes} - _HANDED_DOWN | imports(path)
    return any(name.startswith("time.") or name.endswith((".now", ".today", ".utcnow")) for name in names)


def test_mypy_reads_each_module_of_the_cdk_that_is_imported() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["mypy"]
    (read,) = (one["module"] for one in settings["overrides"] if one.get("follow_imports") == "normal")
    files = (file for tree in settings["files"] for file in (PROJECT / tree).rglob("*.py"))
    names = (name for file in files if "aws_cdk" in file.read_text() for name in imports(file))

    found = {".".join(name.split(".")[:2]) for name in names if name.split(".")[0] == "aws_cdk"}
    modules = {name for name in found if name.islower()}

    assert modules - {*read} == set()
    assert modules == {*read} or not all(map(is_there, OPTIONAL))
