from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.unit.test_import_direction import PROJECT, imports

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
        *(*LOOKS, "actions", "output", "migrations", "books", "local", "console", "acceptance", "commands")
    },
}
"""Parts of `settle`, each with its allowed imports. `shared` are the modules beside the rooms."""

NAMED = {
    "*_command": "commands",
    "settle.orders.completion": "commands",
    "*_output": "output",
    "settle.reports.page*": "output",
    "settle.order": "actions",
    "settle.accounts.accounts": "actions",
    "settle.bank.booking": "actions",
    "settle.events.*": "actions",
    "settle.journal.fill_journal": "actions",
    "settle.kyc.probe": "actions",
    "settle.merchants.sweep": "actions",
    "settle.orders.many": "actions",
    "settle.orders.partial_reversal": "actions",
    "settle.orders.proposing": "actions",
    "settle.orders.resolution": "actions",
    "settle.orders.reversal": "actions",
    "settle.payouts.deciding": "actions",
    "settle.payouts.payee_orders": "actions",
    "settle.payouts.paying": "actions",
    "settle.payruns.deciding": "actions",
    "settle.payruns.proposing": "actions",
    "settle.settlements.recovery": "actions",
    "settle.settlements.start": "actions",
}
"""Modules assigned to a part by name; an action gives an order or starts an execution."""

EXCEPTIONS = {
    "settle.cli": {"*_command", "settle.commands.words", "settle.output.*"},
    "settle.stack": {"settle.local.presence", "settle.local.record"},
    "settle.local.grants": {"infra.trials"},
    "settle.migrations.migration_output": {"settle.migrations.rows"},
    "settle.acceptance.denials": {"settle.local.grants"},
    "settle.acceptance.load": {"settle.local.demo.cost"},
    "settle.acceptance.ringing": {"settle.local.demo.stuck_reversal"},
    "settle.acceptance.trouble": {"settle.local.demo.stuck_reversal"},
    "settle.acceptance.watching": {"settle.local.demo.cost"},
}
"""Modules of `settle` that may import more than their part."""

REACHES = {
    "alembic": {"settle.books.*"},
    "boto3": {
        *("settle.stack", "settle.door", "settle.local.simulated", "settle.migrations.reach"),
        "settle.local.demo.persons",
    },
    "jinja2": {"settle.reports.page.render"},
    "multiprocessing": {"settle.proof.segments"},
    "platformdirs": {"settle.local.state"},
    "psutil": {"settle.local.processes", "settle.local.demo.payrun"},
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
"""Packages that reach outside the process or draw output, with the modules of `settle` that use them."""


def _modules() -> dict[str, Path]:
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
    """Yield the production modules that a module imports, also inside functions."""
    for found in imports(MODULES[name]):
        module = found if found in MODULES else found.rpartition(".")[0]
        if module in MODULES and module != name:
            yield module


def _layer(name: str) -> str:
    """Return the part of `settle` that a module belongs to; a room's other modules are queries."""
    named = [layer for pattern, layer in NAMED.items() if fnmatchcase(name, pattern)]
    folder, *within = name.split(".")[1:]
    by_folder = SHARED if not within else folder if folder in LAYERS else "queries"
    return named[0] if named else by_folder


def _is_allowed(name: str, found: str) -> bool:
    if found.startswith("settle."):
        return _layer(found) in LAYERS[_layer(name)]
    return found.startswith("settlement")


@pytest.mark.parametrize("name", OPERATING)
def test_a_module_of_the_command_imports_only_allowed_parts(name: str) -> None:
    beyond = {found for found in _imported(name) if not _is_allowed(name, found)}
    used = {one: {found for found in beyond if fnmatchcase(found, one)} for one in EXCEPTIONS.get(name, ())}

    assert beyond == set().union(*used.values())
    assert all(used.values()), "each exception is needed"


@pytest.mark.parametrize("package", REACHES)
def test_only_listed_modules_import_packages_that_reach_outside(package: str) -> None:
    users = {
        name
        for name in OPERATING
        if any(found.partition(".")[0] == package for found in imports(MODULES[name]))
    }
    named = [{name for name in users if fnmatchcase(name, pattern)} for pattern in REACHES[package]]

    assert users == set().union(*named)
    assert all(named), "each of the named modules uses it"


def test_no_modules_import_each_other_in_a_cycle() -> None:
    TopologicalSorter({name: set(_imported(name)) for name in MODULES}).prepare()
