"""Golden vectors: what the builders build, recorded in golden/*.json and compared to the last character.

To rewrite them after a wanted change run `UPDATE_GOLDEN=1 pytest tests/unit/test_items.py
tests/unit/test_steps.py` and read the diff: each changed line is a changed write to the table. Where
CI is set, a rewrite fails the run instead: a vector that rewrites itself protects nothing.

A builder's file is `<module>.<function>[.<variant>].json`. A set is written as {"set": [...]}, sorted.
"""

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from settlement import items, steps
from settlement.kyc import Verdict
from settlement.request import Settlement
from settlement.status import Step
from settlement.terms import Terms
from settlement.writes import Posting, Transfer, Write
from tests.conftest import NOW

GOLDEN = Path(__file__).parent / "golden"

TERMS = Terms(
    currencies={"EUR": 2, "JPY": 0, "KWD": 3},
    highest_balances={"EUR": 100_000_000},
    fee_basis_points=100,
    deadline_seconds=900,
    recover_after_seconds=30,
)
"""Fixed here, so that a vector changes only where a builder does."""

SETTLEMENT = Settlement(
    key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
)
YEN = Settlement(key="order-2026-000102", payer="chiyo", payee="daiki", amount=12_000, currency="JPY", fee=0)
VERDICT = Verdict(decision="APPROVED", reference="ref-1", reason="known customers", provider="acme")
ESCROW = "escrow:order-2026-000101"


@dataclass(frozen=True)
class Vector:
    """One call of a builder. Its name says which builder and, where there are several, which variant."""

    builder: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    @property
    def name(self) -> str:
        module = self.builder.__module__.rpartition(".")[2]
        return ".".join(filter(None, (module, self.builder.__name__, self.variant)))

    def build(self) -> Any:
        return self.builder(*self.arguments, **self.options)


def _transfer(step: Step, debit: str, credit: str, amount: int) -> Vector:
    transfer = Transfer(debit=debit, credit=credit, amount=amount)
    return Vector(items.transfer_entry, (SETTLEMENT, step, transfer, NOW), variant=step.value)


def _advance(step: Step, escrow_change: int) -> Vector:
    options = {"escrow_change": escrow_change, "now": NOW}
    return Vector(items.advance, (SETTLEMENT, step), options, step.value)


ITEMS = (
    Vector(items.claim, (SETTLEMENT, "order-2026-000101-execution", NOW, TERMS)),
    Vector(
        items.reject,
        (SETTLEMENT, {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}, NOW),
    ),
    _transfer(Step.HOLD, "alice", ESCROW, 4820),
    _transfer(Step.RELEASE, ESCROW, "bob", 4772),
    _transfer(Step.FEE, ESCROW, "fees:EUR", 48),
    Vector(items.evidence_entry, (SETTLEMENT, Step.VERIFY, VERDICT.evidence(), NOW)),
    _advance(Step.HOLD, 4820),
    _advance(Step.VERIFY, 0),
    _advance(Step.RELEASE, -4772),
    _advance(Step.FEE, -48),
    Vector(items.debit_payer, (SETTLEMENT,)),
    Vector(items.credit_payee, (SETTLEMENT, 100_000_000), variant="capped"),
    Vector(items.credit_payee, (SETTLEMENT, None), variant="uncapped"),
    Vector(items.open_account, ("alice", "EUR", 10_000)),
    Vector(items.deposit_entry, ("open-alice", "alice", 10_000, "EUR", NOW)),
)

POSTINGS = (
    Vector(steps.hold, (SETTLEMENT, NOW)),
    Vector(steps.verify, (SETTLEMENT, VERDICT, NOW)),
    Vector(steps.release, (SETTLEMENT, TERMS, NOW), variant="capped"),
    Vector(steps.release, (YEN, TERMS, NOW), variant="uncapped"),
    Vector(steps.fee, (SETTLEMENT, NOW)),
    Vector(steps.fee, (YEN, NOW), variant="none"),
)


def writes() -> list[Any]:
    """Every write that any vector builds, as pytest's parameters."""
    found = [(vector.name, vector.build()) for vector in ITEMS]
    for vector in POSTINGS:
        parts = enumerate(vector.build().writes)
        found += [(f"{vector.name}[{position}]", write) for position, write in parts]
    return [pytest.param(write, id=name) for name, write in found]


def public_functions(module: ModuleType) -> set[str]:
    """The functions that a module itself defines for others."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {
        name
        for name, function in functions
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def built_by(vectors: tuple[Vector, ...]) -> set[str]:
    """The builders that have a vector."""
    return {vector.builder.__name__ for vector in vectors}


def text(built: Write | Posting) -> str:
    """The canonical text of what was built; a transaction's writes keep their order."""
    plain = [_write(write) for write in built.writes] if isinstance(built, Posting) else _write(built)
    return json.dumps(plain, indent=2, sort_keys=True) + "\n"


def recorded(name: str, current: str) -> str:
    """The recorded text; where a rewrite is asked for (and this is not CI), `current` becomes it."""
    path = GOLDEN / f"{name}.json"
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
