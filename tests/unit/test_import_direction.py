"""The folders import in one direction, and the code that decides about money is pure."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
OURS = {"app", "handlers", "infra", "settle", "settlement", "tests"}
MODEL, LEDGER, POLICY, SEALING, RECONCILIATION, ADAPTERS = (
    f"settlement.{name}" for name in ("model", "ledger", "policy", "sealing", "reconciliation", "adapters")
)
MAY_IMPORT = {
    "lambdas/settlement/model": (MODEL,),
    "lambdas/settlement/ledger": (MODEL, LEDGER),
    "lambdas/settlement/policy": (MODEL, LEDGER, POLICY),
    "lambdas/settlement/sealing": (MODEL, LEDGER, SEALING),
    "lambdas/settlement/reconciliation": (MODEL, LEDGER, SEALING, RECONCILIATION),
    "lambdas/settlement/adapters": (MODEL, LEDGER, SEALING, RECONCILIATION, ADAPTERS),
    "lambdas/handlers": (MODEL, LEDGER, POLICY, SEALING, ADAPTERS, "handlers"),
    "infra": ("infra",),
}
PURE_FOLDERS = {"model", "ledger", "policy", "sealing", "reconciliation"}
ON_DISK = {"spool", "sealed_spool"}
"""The modules of those folders that keep what does not fit into memory in SQLite."""

PURE_ADAPTERS = {"kyc_opensanctions", "kyc_verifications", "webhook_signature"}
HARMLESS = {
    *("base64", "collections", "contextlib", "dataclasses", "datetime", "enum", "functools"),
    *(
        "hashlib",
        "hmac",
        "itertools",
        "json",
        "operator",
        "re",
        "shlex",
        "settlement",
        "typing",
        "unicodedata",
        "zlib",
    ),
}
"""The imports of pure code: no clock, no randomness, no environment, no service."""

FILES = sorted(path for path in (PROJECT / "lambdas").rglob("*.py") if path.name != "__init__.py")


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute, so that this test can read them"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_the_folders_that_it_may(folder: str) -> None:
    allowed = tuple(f"{package}." for package in MAY_IMPORT[folder])
    files = sorted((PROJECT / folder).glob("*.py"))
    ours = {name for path in files for name in imports(path) if name.partition(".")[0] in OURS}

    assert files
    assert [name for name in ours if not name.startswith(allowed)] == []
    assert {path.parent.relative_to(PROJECT).as_posix() for path in FILES} <= MAY_IMPORT.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_pure_code_is_pure_and_only_adapters_and_shared_modules_call_services(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imports(path)}
    is_pure = path.parent.name in PURE_FOLDERS and path.stem not in ON_DISK
    if is_pure or path.stem in PURE_ADAPTERS:
        nodes = ast.walk(ast.parse(path.read_text()))
        assert packages <= HARMLESS
        assert not {"__import__", "eval", "exec", "open"} & {getattr(node, "id", None) for node in nodes}
    if path.stem in PURE_ADAPTERS:
        assert not [name for name in imports(path) if name.startswith((LEDGER, ADAPTERS))]
    if path.parent.name != "adapters" and not path.stem.startswith("_"):
        assert not packages & {"boto3", "botocore", "os", "random", "time", "urllib3", "uuid"}


def test_seven_modules_read_a_clock() -> None:
    """One for the handlers, which pass the time down; one for what an environment knows of payees; two for
    the age of the provider's connection and the end of an exchange; one for the circuit; and one for the
    start of a scan, which may miss the orders that are given after it.
    """
    assert {path.stem for path in FILES if _reads_clock(path)} == {
        *("_dependencies", "_payee", "kyc_circuit", "kyc_client", "kyc_connection", "table_scan"),
        "_long_poll",
    }


def _reads_clock(path: Path) -> bool:
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    names = {ast.unparse(node) for node in nodes} - {"_dependencies.now", "time.sleep"} | imports(path)
    return any(name.startswith("time.") or name.endswith((".now", ".today", ".utcnow")) for name in names)


SHARED = "shared"
LOOKS = {SHARED, "queries"}
LAYERS = {
    SHARED: {SHARED},
    "queries": LOOKS,
    "actions": {*LOOKS, "actions"},
    "output": {*LOOKS, "output"},
    "migrations": {SHARED, "migrations"},
    "books": {*LOOKS, "books"},
    "local": {*LOOKS, "actions", "output", "books", "local"},
    "console": {*LOOKS, "actions", "output", "console"},
    "acceptance": {*LOOKS, "actions", "output", "acceptance"},
    "commands": {
        *(*LOOKS, "actions", "output", "migrations", "books", "local", "console", "acceptance", "commands"),
    },
}
"""The parts of `settle`, each with those that it may import. `shared` are the modules beside the rooms."""

NAMED = {
    "*_command": "commands",
    "settle.orders.completion": "commands",
    "*_output": "output",
    "settle.reports.page*": "output",
    "settle.order": "actions",
    "settle.accounts.accounts": "actions",
    "settle.events.*": "actions",
    "settle.journal.fill_journal": "actions",
    "settle.kyc.probe": "actions",
    "settle.merchants.sweep": "actions",
    "settle.orders.many": "actions",
    "settle.orders.partial_reversal": "actions",
    "settle.orders.proposing": "actions",
    "settle.orders.resolution": "actions",
    "settle.orders.reversal": "actions",
    "settle.settlements.recovery": "actions",
    "settle.settlements.start": "actions",
}
"""The modules that belong to a part by their names; an action gives an order, or starts something."""

EXCEPTIONS = {
    "settle.cli": {"*_command", "settle.commands.words", "settle.output.*"},
    "settle.stack": {"settle.local.presence", "settle.local.record"},
    "settle.local.grants": {"infra.trials"},
    "settle.local.preflight": {"infra.*"},
    "settle.migrations.migration_output": {"settle.migrations.rows"},
    "settle.acceptance.denials": {"settle.local.grants"},
    "settle.acceptance.load": {"settle.local.demo.cost"},
    "settle.acceptance.ringing": {"settle.local.demo.stuck_reversal"},
    "settle.acceptance.trouble": {"settle.local.demo.stuck_reversal"},
    "settle.acceptance.watching": {"settle.local.demo.cost"},
}
"""The modules of `settle` that import more than their part may."""

REACHES = {
    "alembic": {"settle.books.*"},
    "boto3": {"settle.stack", "settle.door", "settle.local.kyc_provider", "settle.migrations.reach"},
    "jinja2": {"settle.reports.page.render"},
    "multiprocessing": {"settle.proof.segments"},
    "psutil": {"settle.local.processes"},
    "psycopg": {"settle.books.*"},
    "rich": {"settle.output.*"},
    "sqlalchemy": {"settle.books.schema"},
    "starlette": {"settle.console.*"},
    "subprocess": {"settle.local.*"},
    "typer": {
        "*_command",
        "settle.commands.*",
        "settle.orders.completion",
        "settle.cli",
        "settle.output.console",
    },
    "uvicorn": {"settle.console.server"},
}
"""Packages that reach out of the process, or draw; each with the modules of `settle` that use it."""


def _modules() -> dict[str, Path]:
    """Return the modules of production by their names."""
    return {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        .removeprefix("lambdas.")
        .removesuffix(".__init__"): path
        for folder in ("infra", "lambdas", "settle")
        for path in (PROJECT / folder).rglob("*.py")
    }


MODULES = _modules()
OPERATING = sorted(name for name in MODULES if name.startswith("settle."))


def _imported(name: str) -> Iterator[str]:
    """Yield the modules of production that a module imports, those within its functions included."""
    for found in imports(MODULES[name]):
        module = found if found in MODULES else found.rpartition(".")[0]
        if module in MODULES and module != name:
            yield module


def _layer(name: str) -> str:
    """Return the part of a module of `settle`, by its name or its folder. A room's others are queries."""
    named = [layer for pattern, layer in NAMED.items() if fnmatchcase(name, pattern)]
    folder, *within = name.split(".")[1:]
    by_folder = SHARED if not within else folder if folder in LAYERS else "queries"
    return named[0] if named else by_folder


def _is_allowed(name: str, found: str) -> bool:
    if found.startswith("settle."):
        return _layer(found) in LAYERS[_layer(name)]
    return found.startswith("settlement")


@pytest.mark.parametrize("name", OPERATING)
def test_a_module_of_the_command_imports_only_the_parts_that_it_may(name: str) -> None:
    beyond = {found for found in _imported(name) if not _is_allowed(name, found)}
    used = {one: {found for found in beyond if fnmatchcase(found, one)} for one in EXCEPTIONS.get(name, ())}

    assert beyond == set().union(*used.values())
    assert all(used.values()), "each exception is needed"


@pytest.mark.parametrize("package", REACHES)
def test_a_package_that_reaches_out_is_imported_by_named_parts_alone(package: str) -> None:
    users = {
        name
        for name in OPERATING
        if any(found.partition(".")[0] == package for found in imports(MODULES[name]))
    }
    named = [{name for name in users if fnmatchcase(name, pattern)} for pattern in REACHES[package]]

    assert users == set().union(*named)
    assert all(named), "each of the named modules uses it"


def test_no_module_is_part_of_a_circle_of_imports() -> None:
    TopologicalSorter({name: set(_imported(name)) for name in MODULES}).prepare()
