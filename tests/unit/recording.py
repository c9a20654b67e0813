"""Golden vectors: results of the builders, recorded in golden/*.json and compared byte for byte.

To rewrite them: `UPDATE_GOLDEN=1 pytest tests/unit/test_vectors.py`. Each changed line is a changed write to
the table. A rewrite fails if CI is set.

A builder's file is `<module>.<function>[.<variant>].json`. A set is written as {"set": [...]}, sorted.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from settlement.core.ledger.transaction import Write
from settlement.core.policy.recovery import Takeover
from tests.unit.vectors import Built, writes_of

HERE = Path(__file__).parent


def text(built: Built) -> str:
    """Return the canonical text of a builder's result; a transaction keeps the order of its writes."""
    plain: Any
    if isinstance(built, Takeover):
        plain = {"starts": built.action.value, "execution": built.execution, "input": _plain(built.input)}
        plain |= {"write": _write(built.write)}
    else:
        plain = _write(built) if isinstance(built, Write) else [_write(write) for write in writes_of(built)]
    return json.dumps(plain, indent=2, sort_keys=True) + "\n"


def folder_of(builder: Callable[..., Any]) -> Path:
    """Return the folder of a builder's vectors: its room's if that has vectors, else tests/unit/golden."""
    room = HERE / builder.__module__.split(".")[1]
    return (room if (room / "vectors.py").exists() else HERE) / "golden"


def recorded(name: str, current: str, folder: Path) -> str:
    """Return a vector's recorded text. With UPDATE_GOLDEN set, record `current` first; in CI, fail."""
    path = folder / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        if os.environ.get("CI"):
            pytest.fail("UPDATE_GOLDEN is set in CI, where golden vectors are compared and never rewritten")
        path.write_text(current)
    if not path.exists():
        pytest.fail(f"{name} has no golden vector: run with UPDATE_GOLDEN=1 and read what it records")
    return path.read_text()


def _write(write: Write) -> dict[str, Any]:
    return {"action": write.action, "parameters": _plain(write.parameters)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        assert "set" not in value, "an attribute called `set` could not be told from a set"
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, set):
        return {"set": sorted(value)}
    assert isinstance(value, str) or type(value) is int, f"no write may hold the {type(value)} {value!r}"
    return value
