"""Tests that each write equals its recorded vector (see recording.py) and is valid for DynamoDB."""

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import settlement
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import StepTransaction, Write
from settlement.core.model.status import Step
from tests.unit import recording, states, vectors
from tests.unit.conditions import applied
from tests.world import expressions, wire

WRITES = [pytest.param(write, id=name) for name, write in vectors.named_writes().items()]
MODULES = vectors.BUILDERS | vectors.POSTERS
WITHOUT_VECTORS = {"transaction"}
"""A module without own vectors: its `put` and `update` form the writes of all vectors."""


# The vectors


@pytest.mark.parametrize("vector", vectors.ALL, ids=lambda vector: vector.name)
def test_each_write_equals_its_recorded_vector(vector: vectors.Vector) -> None:
    built = recording.text(vector.build())

    assert built == recording.recorded(vector.name, built, recording.folder_of(vector.builder))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_builder_has_a_vector(module: ModuleType) -> None:
    assert {vector.builder.__name__ for vector in MODULES[module]} == vectors.builders(module)


def test_every_module_with_a_builder_is_examined() -> None:
    found = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(settlement.__path__, "settlement.")
    ]

    building = {module for module in found if vectors.builders(module)}

    assert {module.__name__.rpartition(".")[2] for module in building - MODULES.keys()} == WITHOUT_VECTORS
    assert building >= MODULES.keys()


def test_every_recorded_vector_is_still_compared() -> None:
    names = [vector.name for vector in vectors.ALL]

    assert len(names) == len(set(names))
    assert {*recording.HERE.rglob("golden/*.json")} == {
        recording.folder_of(vector.builder) / f"{vector.name}.json" for vector in vectors.ALL
    }


def test_vectors_are_rewritten_on_request_and_never_in_ci(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI"):
        recording.recorded("forward.claim", "anything", tmp_path)
    assert not list(tmp_path.iterdir())

    monkeypatch.delenv("CI")
    assert recording.recorded("forward.claim", "new", tmp_path) == "new"

    monkeypatch.delenv("UPDATE_GOLDEN")
    assert recording.recorded("forward.claim", "newer", tmp_path) == "new"
    with pytest.raises(pytest.fail.Exception, match="no golden vector"):
        recording.recorded("forward.unknown", "anything", tmp_path)


# Every write


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_conditional_and_valid_for_dynamodb(write: Write) -> None:
    """DynamoDB refuses an unused or undefined placeholder, a path set twice, and an empty set."""
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
WEBHOOK = [param for param in TRANSACTIONS if str(param.id).startswith("steps.record_webhook")]
METRICS = {
    **dict.fromkeys(("steps.fee", "steps.fee.none", "compensation.resolve.complete.release"), "Settled"),
    "compensation.reverse_step.hold": "Compensated",
    "compensation.enter_limbo.fee": "LimboEntered",
    "compensation.enter_limbo.release": "LimboEntered",
    "compensation.enter_limbo.hold": "LimboEntered",
    "compensation.enter_limbo.hold.unblocked": "LimboEntered",
}


FRESH = states.row(resolutions=0, reversed_for=vectors.FAILURE)
"""A row to which updates are applied, ignoring their conditions."""


def key_of(write: Write) -> Row:
    key: Row = write.parameters.get("Key") or write.parameters["Item"]
    return key


@pytest.mark.parametrize("built", TRANSACTIONS)
def test_a_transaction_writes_no_row_twice(built: vectors.Built) -> None:
    """DynamoDB allows one action per row and transaction."""
    writes = vectors.writes_of(built)

    assert len({(key_of(write)["pk"], key_of(write)["sk"]) for write in writes}) == len(writes)


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_a_transactions_first_write_is_its_idempotency_check(
    transaction: StepTransaction,
) -> None:
    """The first cancellation reason decides, so a repeated step is a replay, not a refusal.

    The fence is on the settlement's row: an entry alone could be put at any time, as if by a step.
    """
    kinds = [keys.subject(key_of(write))[0] for write in transaction.writes]

    assert transaction.writes[0] is transaction.gate
    assert kinds == [kind for kind in ("EVIDENCE", "SETTLEMENT", "ENTRIES", "ACCOUNT") if kind in kinds]
    assert "SETTLEMENT" in kinds
    assert {"EVIDENCE", "ENTRIES"} & set(kinds)


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_all_writes_of_a_transaction_concern_its_settlement(transaction: StepTransaction) -> None:
    row = key_of(transaction.settlement)
    kind, key = keys.subject(row)

    assert (kind, row["sk"]) == ("SETTLEMENT", "SETTLEMENT")
    for write in (transaction.evidence, transaction.entry):
        if write:
            found = write.parameters["Item"]
            assert found["sk"].rpartition("#")[2] == f"{key}:{found['step']}"
            assert found["pk"].startswith("ENTRIES#") or keys.subject(found) == ("EVIDENCE", key)


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_an_entry_and_its_slot_have_the_same_time(transaction: StepTransaction) -> None:
    """The entry's key is computed from the slot. A person's decision has evidence instead of a slot."""
    if transaction.entry is None:
        assert transaction.evidence
        return
    entry, row = transaction.entry.parameters["Item"], applied(transaction.settlement, FRESH)
    step, at = entry["step"], entry["posted_at"]

    if step.startswith("resolve:"):
        assert transaction.evidence
        evidence = transaction.evidence.parameters["Item"]
        assert (evidence["step"], evidence["posted_at"], row["resolution"]["decided_at"]) == (step, at, at)
    else:
        reverses, _, name = step.rpartition(":")
        assert row[Step(name).reversal_slot if reverses else Step(name).slot] == at
        assert transaction.evidence is None


@pytest.mark.parametrize("writes", WEBHOOK)
def test_a_webhooks_transaction_writes_event_then_row_then_evidence(writes: tuple[Write, ...]) -> None:
    """The first cancellation reason decides: a repeated event is a replay, even if the row has moved on.

    The evidence of VerifyKyc's answer, `verify`, is separate and cannot block the webhook.
    """
    marker, fence, evidence = writes

    assert [write.action for write in writes] == ["Put", "Update", "Put"]
    assert marker.parameters["Item"]["pk"].startswith("KYC_EVENT#")
    assert fence.parameters["Key"] == keys.settlement(vectors.SETTLEMENT.key)
    assert keys.evidence(vectors.SETTLEMENT.key, "review").items() <= evidence.parameters["Item"].items()


@pytest.mark.parametrize("vector", [*vectors.STEPS, *vectors.COMPENSATION], ids=lambda vector: vector.name)
def test_each_transaction_that_ends_a_settlement_has_a_metric(vector: vectors.Vector) -> None:
    assert getattr(vector.build(), "metric", None) == METRICS.get(vector.name)
