"""Every write to the table equals its recorded vector, and is valid for DynamoDB.

To rewrite the vectors after a wanted change: see recording.py.
"""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import settlement.ledger
import settlement.policy
from settlement.ledger.transaction import StepTransaction, Write
from tests.unit import recording, vectors
from tests.world import expressions, wire

WRITES = [pytest.param(write, id=name) for name, write in vectors.named_writes().items()]
MODULES = vectors.BUILDERS | vectors.POSTERS
WITHOUT_VECTORS = {"transaction"}
"""Its `put` and `update` form the writes of all the builders, and so are in every vector."""


# The vectors


@pytest.mark.parametrize("vector", vectors.ALL, ids=lambda vector: vector.name)
def test_a_builder_builds_its_recorded_vector(vector: vectors.Vector) -> None:
    built = recording.text(vector.build())

    assert built == recording.recorded(vector.name, built)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_builder_has_a_vector(module: ModuleType) -> None:
    assert {vector.builder.__name__ for vector in MODULES[module]} == vectors.builders(module)


def test_every_module_with_a_builder_is_examined() -> None:
    found = [
        importlib.import_module(f"{folder.__name__}.{module.name}")
        for folder in (settlement.ledger, settlement.policy)
        for module in pkgutil.iter_modules(folder.__path__)
    ]

    building = {module for module in found if vectors.builders(module)}

    assert {module.__name__.rpartition(".")[2] for module in building - MODULES.keys()} == WITHOUT_VECTORS
    assert building >= MODULES.keys()


def test_every_recorded_vector_is_still_compared() -> None:
    names = [vector.name for vector in vectors.ALL]

    assert len(names) == len(set(names))
    assert {path.stem for path in recording.GOLDEN.iterdir()} == set(names)


def test_vectors_are_rewritten_on_request_and_never_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(recording, "GOLDEN", tmp_path)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI"):
        recording.recorded("forward.claim", "anything")
    assert not list(tmp_path.iterdir())

    monkeypatch.delenv("CI")
    assert recording.recorded("forward.claim", "new") == "new"

    monkeypatch.delenv("UPDATE_GOLDEN")
    assert recording.recorded("forward.claim", "newer") == "new"
    with pytest.raises(pytest.fail.Exception, match="no golden vector"):
        recording.recorded("forward.unknown", "anything")


# Every write


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_conditional_and_valid_for_dynamodb(write: Write) -> None:
    """DynamoDB refuses an unused or undefined placeholder, a path that is set twice, and an empty set."""
    names = write.parameters.get("ExpressionAttributeNames", {})
    values = wire.normal(write.parameters.get("ExpressionAttributeValues", {}))
    condition, update = (write.parameters.get(f"{kind}Expression") for kind in ("Condition", "Update"))

    changed = expressions.check(names, values, asks=condition, changes=update)

    assert condition
    assert bool(changed) == (write.action == "Update")
    assert wire.normal(write.parameters.get("Item", {})).keys() == write.parameters.get("Item", {}).keys()


# Every transaction

TRANSACTIONS = [
    pytest.param(vector.build(), id=vector.name) for module in vectors.POSTERS.values() for vector in module
]
STEP_TRANSACTIONS = [param for param in TRANSACTIONS if isinstance(param.values[0], StepTransaction)]
WEBHOOK = [param for param in TRANSACTIONS if param not in STEP_TRANSACTIONS]
METRICS = {
    **dict.fromkeys(("steps.fee", "steps.fee.none", "compensation.resolve.complete.release"), "Settled"),
    "compensation.reverse_step.hold.reversed": "Compensated",
    "compensation.reverse_step.hold.skipped": "Compensated",
    "compensation.enter_limbo.fee": "LimboEntered",
    "compensation.enter_limbo.release": "LimboEntered",
    "compensation.enter_limbo.hold": "LimboEntered",
    "compensation.enter_limbo.hold.unblocked": "LimboEntered",
}


@pytest.mark.parametrize("built", TRANSACTIONS)
def test_a_transaction_writes_no_row_twice(built: vectors.Built) -> None:
    """DynamoDB allows one action per row and transaction."""
    writes = vectors.writes_of(built)
    keys = [write.parameters.get("Key") or write.parameters["Item"] for write in writes]

    assert len({(key["pk"], key["sk"]) for key in keys}) == len(writes)


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_an_entry_comes_first_and_never_without_the_settlements_row(transaction: StepTransaction) -> None:
    """The first reason decides, so a repeated step is a replay, not a refusal. The fence is on the row: an
    entry alone could be put at any time, and pass for a step's own.
    """
    expected = [write for write in (transaction.entry, transaction.settlement, transaction.balance) if write]

    assert list(transaction.writes) == expected
    assert transaction.entry.action == "Put"
    assert transaction.settlement.parameters["Key"] == {
        "pk": transaction.entry.parameters["Item"]["pk"],
        "sk": "SETTLEMENT",
    }


@pytest.mark.parametrize("writes", WEBHOOK)
def test_a_webhooks_event_and_its_verdict_are_found_before_the_fence(writes: tuple[Write, ...]) -> None:
    """The first reason decides: a repeated event is a replay, even if the settlement has moved on."""
    marker, entry, fence = writes

    assert [write.action for write in writes] == ["Put", "Put", "Update"]
    assert marker.parameters["Item"]["pk"].startswith("KYC_EVENT#")
    assert entry.parameters["Item"]["sk"] == f"{vectors.SETTLEMENT.key}:verify"
    assert fence.parameters["Key"]["sk"] == "SETTLEMENT"


@pytest.mark.parametrize("vector", [*vectors.STEPS, *vectors.COMPENSATION], ids=lambda vector: vector.name)
def test_a_transaction_that_finishes_a_settlement_or_enters_limbo_is_counted(vector: vectors.Vector) -> None:
    assert getattr(vector.build(), "metric", None) == METRICS.get(vector.name)
