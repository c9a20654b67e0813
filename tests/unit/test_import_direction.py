"""Data flows one way, handlers to steps to items to store, and what decides about money is pure."""

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
IMPURE = {"__init__", "breaker", "kyc", "store", "telemetry"}
PURE = sorted({path.stem for path in (PROJECT / "lambdas/settlement").glob("*.py")} - IMPURE)
HARMLESS = {
    *("collections", "contextlib", "dataclasses", "datetime", "enum"),
    *("hashlib", "json", "re", "typing", "zlib"),
}
"""All of the standard library that a pure module has needed: no clock, no chance, no environment, no I/O."""

OF_SIGNATURES = {"base64", "hmac"}
"""What one module needs besides, and no other has any business with."""

NEVER = {
    "lambdas/settlement/*.py": {"handlers", "settle", "infra", "app", "tests"},
    "lambdas/settlement/items.py": {
        *("settlement.steps", "settlement.store", "settlement.outcome"),
        *("settlement.compensation", "settlement.reversals", "settlement.limbo"),
    },
    "lambdas/settlement/reversals.py": {"settlement.items", "settlement.limbo", "settlement.compensation"},
    "lambdas/settlement/limbo.py": {"settlement.items", "settlement.compensation", "settlement.outcome"},
    "lambdas/settlement/compensation.py": {"settlement.steps", "settlement.store", "settlement.outcome"},
    "lambdas/settlement/verdict.py": {"settlement"},
    "lambdas/settlement/signature.py": {
        *("settlement.request", "settlement.rows", "settlement.store", "settlement.steps"),
        *("settlement.verdict", "settlement.telemetry"),
    },
    "lambdas/settlement/kyc_*.py": {
        *("settlement.kyc", "settlement.store", "settlement.breaker", "settlement.errors"),
        *("settlement.steps", "settlement.reviews", "settlement.telemetry", "settlement.rows"),
    },
    "lambdas/settlement/kyc.py": {
        *("settlement.store", "settlement.steps", "settlement.items", "settlement.reviews"),
        *("settlement.breaker", "settlement.signature", "boto3", "botocore"),
    },
    "lambdas/settlement/breaker.py": {
        *("settlement.store", "settlement.steps", "settlement.items", "settlement.reviews", "urllib3"),
        "settlement.signature",
    },
    "lambdas/settlement/reviews.py": {
        *("settlement.items", "settlement.reversals", "settlement.limbo", "settlement.compensation"),
        *("settlement.steps", "settlement.kyc", "settlement.breaker", "settlement.recovery"),
    },
    "lambdas/settlement/recovery.py": {
        *("settlement.items", "settlement.reversals", "settlement.limbo", "settlement.compensation"),
        *("settlement.steps", "settlement.kyc", "settlement.breaker", "settlement.reviews"),
    },
    "lambdas/settlement/steps.py": {
        *("settlement.store", "settlement.telemetry", "settlement.kyc", "settlement.breaker"),
    },
    "lambdas/settlement/store.py": {
        *("settlement.steps", "settlement.kyc", "settlement.breaker", "settlement.reviews", "handlers"),
    },
    "lambdas/handlers/*.py": {"settle", "infra", "app", "tests"},
    "lambdas/handlers/[a-z]*.py": {
        *("boto3", "botocore", "time", "os", "uuid", "random"),
        *("datetime.date", "datetime.UTC", "datetime.timezone", "datetime.timedelta"),
    },
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
        allowed = HARMLESS | {"settlement"} | (OF_SIGNATURES if name == "signature" else set())
        assert {each.split(".")[0] for each in found} <= allowed, name
        ours = {each.split(".")[1] for each in found if each.startswith("settlement.")}
        waiting |= ours - reached


def test_what_reads_and_writes_a_verdict_is_pure() -> None:
    """Named, so that none of them can leave the proof above by joining the impure."""
    adapters = {path.stem for path in (PROJECT / "lambdas/settlement").glob("kyc_*.py")}

    assert adapters == {"kyc_opensanctions", "kyc_verifications"}
    assert adapters | {"verdict", "reviews", "recovery", "signature", "refusals", "steps"} <= set(PURE)


def test_signatures_need_what_they_are_granted() -> None:
    """A grant that nothing uses would be one for whoever comes next."""
    found = imports(PROJECT / "lambdas/settlement/signature.py")

    assert found >= OF_SIGNATURES
    assert not OF_SIGNATURES & HARMLESS


@pytest.mark.parametrize("module", [*PURE, "breaker", "kyc", "store"])
def test_nothing_below_the_handlers_reads_the_wall_clock_or_imports_by_name(module: str) -> None:
    tree = ast.parse((PROJECT / f"lambdas/settlement/{module}.py").read_text())
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}), node.lineno
        assert not (isinstance(node, ast.Name) and node.id in {"__import__", "open", "eval", "exec"})


HANDLERS = sorted((PROJECT / "lambdas/handlers").glob("[a-z]*.py"))


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.stem)
def test_a_handler_knows_the_time_by_its_runtime_only(path: Path) -> None:
    """It may name the type of an instant and read one from text, but the clock is asked in one place."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "datetime"
        ):
            assert node.attr == "fromisoformat", node.lineno
        if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
            assert isinstance(node.value, ast.Name), node.lineno
            assert node.value.id == "_runtime", node.lineno
    assert "datetime" not in _imported_whole(path)


def _imported_whole(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
