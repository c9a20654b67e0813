"""The folders import in one direction, and the code that decides about money is pure."""

import ast
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
