"""Data flows one way, handlers to steps to items to store, and what decides about money is pure."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
IMPURE = {"__init__", "kyc", "store", "telemetry"}
PURE = sorted({path.stem for path in (PROJECT / "lambdas/settlement").glob("*.py")} - IMPURE)
HARMLESS = {
    *("collections", "contextlib", "dataclasses", "datetime", "enum"),
    *("hashlib", "json", "re", "typing", "zlib"),
}
"""All of the standard library that a pure module has needed: no clock, no chance, no environment, no I/O."""

NEVER = {
    "lambdas/settlement/*.py": {"handlers", "settle", "infra", "app", "tests"},
    "lambdas/settlement/items.py": {
        *("settlement.steps", "settlement.store", "settlement.outcome"),
        *("settlement.compensation", "settlement.reversals", "settlement.limbo"),
    },
    "lambdas/settlement/reversals.py": {"settlement.items", "settlement.limbo", "settlement.compensation"},
    "lambdas/settlement/limbo.py": {"settlement.items", "settlement.compensation", "settlement.outcome"},
    "lambdas/settlement/compensation.py": {"settlement.steps", "settlement.store", "settlement.outcome"},
    "lambdas/settlement/steps.py": {"settlement.store", "settlement.telemetry"},
    "lambdas/settlement/store.py": {"settlement.steps", "settlement.kyc", "handlers"},
    "lambdas/handlers/*.py": {"settle", "infra", "app", "tests"},
    "lambdas/handlers/[a-z]*.py": {"boto3", "botocore", "time", "datetime", "os", "uuid", "random"},
    "infra/*.py": {"settlement", "handlers", "settle", "tests"},
}


def imports(path: Path) -> set[str]:
    """Everything that the file imports, each package of a dotted name included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute, so that this test can read them"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[: end + 1]) for name in names for end in range(name.count(".") + 1)}


@pytest.mark.parametrize("pattern", NEVER)
def test_imports_point_one_way(pattern: str) -> None:
    paths = list(PROJECT.glob(pattern))
    assert paths
    for path in paths:
        assert not imports(path) & NEVER[pattern], path


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_needs_nothing_but_harmless_and_pure_modules(module: str) -> None:
    """Through everything of ours that it imports: a module is as pure as the least pure one below it."""
    reached, waiting = set(), {module}
    while waiting:
        reached.add(name := waiting.pop())
        found = imports(PROJECT / f"lambdas/settlement/{name}.py")
        assert {each.split(".")[0] for each in found} <= HARMLESS | {"settlement"}, name
        ours = {each.split(".")[1] for each in found if each.startswith("settlement.")}
        waiting |= ours - reached


@pytest.mark.parametrize("module", [*PURE, "kyc", "store"])
def test_nothing_below_the_handlers_reads_the_wall_clock_or_imports_by_name(module: str) -> None:
    tree = ast.parse((PROJECT / f"lambdas/settlement/{module}.py").read_text())
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}), node.lineno
        assert not (isinstance(node, ast.Name) and node.id in {"__import__", "open", "eval", "exec"})
