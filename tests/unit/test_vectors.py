"""Every write to the table equals its recorded vector, and is valid for DynamoDB.

To rewrite the vectors after a wanted change: see recording.py.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import settlement.ledger
import settlement.policy
from settlement.ledger import takeover
from settlement.ledger.transaction import StepTransaction, Write
from settlement.model.status import Step
from settlement.policy import compensation, recovery, steps
from tests.unit import recording, vectors

WRITES = [pytest.param(write, id=name) for name, write in vectors.named_writes().items()]
MODULES = vectors.BUILDERS | vectors.POSTERS
BUILDING_NOTHING: dict[ModuleType, set[str]] = {
    takeover: {"sort_key"},
    recovery: {"is_due", "in_flight_since"},
    steps: {"settlement_for", "verify_same_request", "is_replay", "ensure_can_verify"},
    compensation: {
        *("failed_step", "failure_of", "about_to_begin", "machine_state", "case_to_resolve"),
        *("stuck_case", "case_of", "ensure_can_resolve"),
    },
}
"""The public functions of these modules that build no write; all others must have a vector."""

WITHOUT_VECTORS = {"transaction"}
"""Its `put` and `update` form the writes of all the builders, and so are in every vector."""


# The vectors


@pytest.mark.parametrize("vector", vectors.ALL, ids=lambda vector: vector.name)
def test_a_builder_builds_its_recorded_vector(vector: vectors.Vector) -> None:
    built = recording.text(vector.build())

    assert built == recording.recorded(vector.name, built)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_builder_has_a_vector(module: ModuleType) -> None:
    building = vectors.builders(module)

    assert vectors.built_by(MODULES[module]) == building
    assert vectors.public(module) - building == BUILDING_NOTHING.get(module, set())


def test_every_module_with_a_builder_is_examined() -> None:
    found = [
        importlib.import_module(f"{folder.__name__}.{module.name}")
        for folder in (settlement.ledger, settlement.policy)
        for module in pkgutil.iter_modules(folder.__path__)
    ]

    building = {module for module in found if vectors.builders(module)}

    assert {module.__name__.rpartition(".")[2] for module in building - MODULES.keys()} == WITHOUT_VECTORS
    assert building >= MODULES.keys()


def test_every_step_has_a_transaction() -> None:
    transactions = [vector for vector in vectors.STEPS if isinstance(vector.build(), StepTransaction)]

    assert vectors.built_by(transactions) == set(Step)
    others = [vector for vector in vectors.STEPS if vector not in transactions]
    assert vectors.built_by(others) == {"record_webhook_verdict"}


def test_every_recorded_vector_is_still_compared() -> None:
    names = [vector.name for vector in vectors.ALL]

    assert len(names) == len(set(names))
    assert {path.stem for path in recording.GOLDEN.iterdir()} == set(names)


def test_vectors_are_never_rewritten_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recording, "GOLDEN", tmp_path)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="CI"):
        recording.recorded("forward.claim", "anything")
    assert not list(tmp_path.iterdir())


def test_vectors_are_rewritten_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recording, "GOLDEN", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    assert recording.recorded("forward.claim", "new") == "new"

    monkeypatch.delenv("UPDATE_GOLDEN")
    assert recording.recorded("forward.claim", "newer") == "new"
    with pytest.raises(pytest.fail.Exception, match="no golden vector"):
        recording.recorded("forward.unknown", "anything")


# Every write


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_conditional(write: Write) -> None:
    assert write.parameters["ConditionExpression"]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("placeholder", "definitions"),
    [(r":\w+", "ExpressionAttributeValues"), (r"#\w+", "ExpressionAttributeNames")],
)
def test_placeholders_are_used_and_defined(write: Write, placeholder: str, definitions: str) -> None:
    """DynamoDB refuses an unused placeholder as well as an undefined one."""
    expressions = [text for name, text in write.parameters.items() if name.endswith("Expression")]

    assert set(re.findall(placeholder, " ".join(expressions))) == set(write.parameters.get(definitions, ()))


@pytest.mark.parametrize("write", WRITES)
def test_no_write_names_an_attribute_twice(write: Write) -> None:
    """DynamoDB refuses an update whose paths overlap, such as one that is set and removed."""
    sections = re.split(r" ?\b(?:SET|REMOVE|ADD|DELETE) ", write.parameters.get("UpdateExpression", ""))
    paths = [part.split(" ")[0] for section in sections[1:] for part in section.split(", ")]

    assert len(paths) == len(set(paths))
    assert bool(paths) == (write.action == "Update")


@pytest.mark.parametrize("write", WRITES)
def test_no_write_holds_a_float_or_an_empty_set(write: Write) -> None:
    def leaves(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for member in value.values():
                yield from leaves(member)
        else:
            yield value

    for leaf in leaves(dict(write.parameters)):
        assert isinstance(leaf, str) or type(leaf) is int or (isinstance(leaf, set) and leaf)


# Every transaction

TRANSACTIONS = [
    pytest.param(vector.build(), id=vector.name) for module in vectors.POSTERS.values() for vector in module
]
STEP_TRANSACTIONS = [param for param in TRANSACTIONS if isinstance(param.values[0], StepTransaction)]
WEBHOOK = [param for param in TRANSACTIONS if param not in STEP_TRANSACTIONS]


@pytest.mark.parametrize("built", TRANSACTIONS)
def test_a_transaction_writes_no_row_twice(built: vectors.Built) -> None:
    """DynamoDB allows one action per row and transaction."""
    writes = vectors.writes_of(built)
    keys = [write.parameters.get("Key") or write.parameters["Item"] for write in writes]

    assert len({(key["pk"], key["sk"]) for key in keys}) == len(writes)


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_a_replay_is_found_before_anything_else(transaction: StepTransaction) -> None:
    """The first reason decides, so the entry comes first: a repeated step is a replay, not a refusal."""
    expected = [write for write in (transaction.entry, transaction.settlement, transaction.balance) if write]

    assert list(transaction.writes) == expected
    assert transaction.entry.action == "Put"
    assert transaction.entry.parameters["ConditionExpression"] == "attribute_not_exists(pk)"


@pytest.mark.parametrize("writes", WEBHOOK)
def test_a_webhooks_event_and_its_verdict_are_found_before_the_fence(writes: tuple[Write, ...]) -> None:
    """The first reason decides: a repeated event is a replay, even if the settlement has moved on."""
    marker, entry, fence = writes

    assert [write.action for write in writes] == ["Put", "Put", "Update"]
    assert marker.parameters["Item"]["pk"].startswith("KYC_EVENT#")
    assert entry.parameters["Item"]["sk"] == f"{vectors.SETTLEMENT.key}:verify"
    assert fence.parameters["Key"]["sk"] == "SETTLEMENT"


@pytest.mark.parametrize("transaction", STEP_TRANSACTIONS)
def test_no_entry_is_written_without_the_settlements_row(transaction: StepTransaction) -> None:
    """Its fence is there: an entry alone could be put at any time, and pass for a step's own."""
    row = transaction.settlement.parameters["Key"]

    assert row == {"pk": transaction.entry.parameters["Item"]["pk"], "sk": "SETTLEMENT"}
