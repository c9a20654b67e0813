"""Every write to the table is the one that was recorded, and is one that DynamoDB takes.

To rewrite the vectors after a wanted change: see recording.py.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from settlement import compensation, recovery, reversals, steps
from settlement.status import Step
from settlement.writes import Posting, Write
from tests.unit import recording, vectors

WRITES = [pytest.param(write, id=name) for name, write in vectors.named_writes().items()]
MODULES = vectors.BUILDERS | vectors.POSTERS
BUILDING_NOTHING: dict[ModuleType, set[str]] = {
    reversals: {"fenced"},
    recovery: {"is_due", "seconds_since", "in_flight_since"},
    steps: {"requested", "admitted", "is_replay", "check_verifiable", "settled"},
    compensation: {"failed_step", "outstanding", "stuck", "case_of", "check"},
}
"""What these modules offer besides builders; all the rest must have a vector."""


# The vectors


@pytest.mark.parametrize("vector", vectors.ALL, ids=lambda vector: vector.name)
def test_a_builder_builds_what_was_recorded(vector: vectors.Vector) -> None:
    built = recording.text(vector.build())

    assert built == recording.recorded(vector.name, built)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_builder_has_a_vector(module: ModuleType) -> None:
    public = {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }

    assert vectors.built_by(MODULES[module]) == vectors.builders(module)
    assert public - vectors.builders(module) == BUILDING_NOTHING.get(module, set())


def test_every_step_has_a_posting() -> None:
    postings = [vector for vector in vectors.STEPS if isinstance(vector.build(), Posting)]

    assert vectors.built_by(postings) == set(Step)
    others = [vector for vector in vectors.STEPS if vector not in postings]
    assert vectors.built_by(others) == {"verdict_received"}


def test_every_recorded_vector_is_still_compared() -> None:
    names = [vector.name for vector in vectors.ALL]

    assert len(names) == len(set(names))
    assert {path.stem for path in recording.GOLDEN.iterdir()} == set(names)


def test_vectors_are_never_rewritten_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(recording, "GOLDEN", tmp_path)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")

    with pytest.raises(pytest.fail.Exception, match="CI"):
        recording.recorded("items.claim", "anything")
    assert not list(tmp_path.iterdir())


def test_vectors_are_rewritten_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(recording, "GOLDEN", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    assert recording.recorded("items.claim", "new") == "new"

    monkeypatch.delenv("UPDATE_GOLDEN")
    assert recording.recorded("items.claim", "newer") == "new"
    with pytest.raises(pytest.fail.Exception, match="no golden vector"):
        recording.recorded("items.unheard_of", "anything")


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
    """DynamoDB refuses a write with one too many as well as one too few."""
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
POSTINGS = [param for param in TRANSACTIONS if isinstance(param.values[0], Posting)]
RECEIVED = [param for param in TRANSACTIONS if param not in POSTINGS]


@pytest.mark.parametrize("built", TRANSACTIONS)
def test_a_transaction_writes_no_row_twice(built: vectors.Built) -> None:
    """DynamoDB takes one action per row and transaction."""
    writes = vectors.writes_of(built)
    keys = [write.parameters.get("Key") or write.parameters["Item"] for write in writes]

    assert len({(key["pk"], key["sk"]) for key in keys}) == len(writes)


@pytest.mark.parametrize("posting", POSTINGS)
def test_a_replay_is_found_before_anything_else(posting: Posting) -> None:
    """The first reason decides, so the entry stands in front: a repeated step is a replay, not a refusal."""
    expected = [write for write in (posting.entry, posting.settlement, posting.balance) if write]

    assert list(posting.writes) == expected
    assert posting.entry.action == "Put"
    assert posting.entry.parameters["ConditionExpression"] == "attribute_not_exists(pk)"


@pytest.mark.parametrize("writes", RECEIVED)
def test_a_webhooks_event_and_its_verdict_are_found_before_the_fence(writes: tuple[Write, ...]) -> None:
    """The first reason decides: an event that had its effect is a replay, however things stand since."""
    marker, entry, fence = writes

    assert [write.action for write in writes] == ["Put", "Put", "Update"]
    assert marker.parameters["Item"]["pk"].startswith("KYC_EVENT#")
    assert entry.parameters["Item"]["sk"] == f"{vectors.SETTLEMENT.key}:verify"
    assert fence.parameters["Key"]["sk"] == "SETTLEMENT"


@pytest.mark.parametrize("posting", POSTINGS)
def test_no_entry_goes_without_the_settlements_row(posting: Posting) -> None:
    """Its fence is there: an entry alone could be put at any time, and be taken for a step's own."""
    row = posting.settlement.parameters["Key"]

    assert row == {"pk": posting.entry.parameters["Item"]["pk"], "sk": "SETTLEMENT"}
