import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.consumers import wake_parent
from tests.consumers.events import CHANGES, HISTORIES, PAID, Change, event
from tests.consumers.faults import Killed
from tests.world.ledger import Ledger
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.templates import PROJECT

KEY = "order-2026-000101"
FAULTS = ("none", "none", "dies before the send", "dies after the send")
EXAMPLES = [*(PROJECT / "examples" / "consumers").glob("*.[jp]*")]


class Waits:
    """A Step Functions client whose tokens are valid for one answer."""

    exceptions = boto3.client("stepfunctions").exceptions

    def __init__(self, *open_tokens: str) -> None:
        self.open, self.woken = set(open_tokens), dict[str, dict[str, Any]]()
        self.faults: list[str] = []

    def send_task_success(self, *, taskToken: str, output: str) -> None:  # noqa: N803
        fault = self.faults.pop(0) if self.faults else "none"
        if fault == "dies before the send":
            raise Killed
        if taskToken not in self.open:
            raise self.exceptions.TaskTimedOut({"Error": {"Code": "TaskTimedOut"}}, "SendTaskSuccess")
        self.open.remove(taskToken)
        self.woken[taskToken] = json.loads(output)
        if fault == "dies after the send":
            raise Killed


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    waits = Waits("token-1", "token-2")
    monkeypatch.setenv("WAITING_TABLE", "waiting")
    monkeypatch.setattr(wake_parent, "dynamodb", MemoryDynamoDb())
    monkeypatch.setattr(wake_parent, "step_functions", waits)
    return waits


def wait(token: str) -> dict[str, str]:
    return {"key": KEY, "token": token}


def call(given: dict[str, Any]) -> None:
    wake_parent.handler(given, None)


@given(
    statuses=st.sampled_from(HISTORIES),
    tokens=st.integers(1, 3),
    faults=st.lists(st.sampled_from(FAULTS), max_size=8),
    draw=st.data(),
)
@settings(deadline=None, database=None, print_blob=True, max_examples=300)
def test_a_final_outcome_wakes_the_parents_latest_wait(
    statuses: tuple[str, ...], tokens: int, faults: list[str], draw: st.DataObject
) -> None:
    """A parent waits again after a timeout: only its latest token is open."""
    finals = [event(KEY, n, status) for n, status in enumerate(statuses, start=1) if status in PAID]
    again = draw.draw(st.lists(st.sampled_from(finals), max_size=3)) if finals else []
    events: list[dict[str, Any]] = draw.draw(st.permutations(finals + again))
    places = sorted(draw.draw(st.lists(st.integers(0, len(events)), min_size=tokens, max_size=tokens)))
    calls: list[dict[str, Any]] = list(events)
    for number, place in enumerate(places):
        calls.insert(place + number, wait(f"token-{number}"))
    waits = Waits()
    waits.faults = faults

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WAITING_TABLE", "waiting")
        patched.setattr(wake_parent, "dynamodb", MemoryDynamoDb())
        patched.setattr(wake_parent, "step_functions", waits)
        for one in calls:
            if "token" in one:
                waits.open = {one["token"]}
            while True:
                try:
                    call(one)
                except Killed:
                    continue  # by Lambda's retry, or that of the parent's state
                break

    heard = [outcome["status"] for outcome in waits.woken.values()]
    assert set(heard) <= {final["detail"]["data"]["status"] for final in finals}
    assert waits.open == (set() if finals else {f"token-{tokens - 1}"})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["waits first", "outcome first"])
@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATED"])
def test_the_parent_wakes_once_both_wait_and_outcome_have_come(
    waits: Waits, status: str, order: tuple[int, int]
) -> None:
    both: list[dict[str, Any]] = [wait("token-1"), event(KEY, 4, status)]

    call(both[order[0]])
    between = dict(waits.woken)
    call(both[order[1]])

    assert between == {}
    assert waits.woken == {"token-1": both[1]["detail"]["data"]}


def test_a_late_older_outcome_does_not_replace_the_newer_one(waits: Waits) -> None:
    for one in (event(KEY, 8, "COMPENSATED"), event(KEY, 4, "SETTLED"), wait("token-1")):
        call(one)

    assert waits.woken["token-1"]["status"] == "COMPENSATED"


@pytest.mark.parametrize("name", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_waking_a_parent_whose_wait_has_ended_raises_nothing(
    waits: Waits, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    gone = getattr(waits.exceptions, name)({"Error": {"Code": name}}, "SendTaskSuccess")
    monkeypatch.setattr(waits, "send_task_success", raising(gone))
    call(wait("token-1"))

    call(event(KEY, 4, "SETTLED"))


def test_any_other_aws_error_is_raised_and_a_retry_succeeds(
    waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ClientError({"Error": {"Code": "ThrottlingException"}}, "SendTaskSuccess")
    call(wait("token-1"))

    with monkeypatch.context() as patched:
        patched.setattr(waits, "send_task_success", raising(refused))
        with pytest.raises(ClientError):
            call(event(KEY, 4, "SETTLED"))
    call(event(KEY, 4, "SETTLED"))

    assert waits.woken["token-1"]["status"] == "SETTLED"


LIMBO: tuple[Change, str] = (lambda detail: detail["data"].update(status="LIMBO"), "data.status: must match ")


@pytest.mark.parametrize(("change", "words"), [*CHANGES, LIMBO], ids=count())
def test_a_malformed_event_is_named_and_wakes_no_parent(waits: Waits, change: Change, words: str) -> None:
    bad = event(KEY, 4, "SETTLED")
    change(bad["detail"])
    call(wait("token-1"))

    with pytest.raises(wake_parent.BadEvent) as told:
        call(bad)

    assert str(told.value).startswith(words)
    assert waits.woken == {}


@pytest.mark.server
def test_dynamodb_itself_accepts_the_same_writes(
    ledger: Ledger, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAITING_TABLE", ledger.table_name)
    monkeypatch.setattr(wake_parent, "dynamodb", ledger.client)

    for one in (event(KEY, 8, "COMPENSATED"), event(KEY, 4, "SETTLED"), wait("token-1"), wait("token-2")):
        call(one)

    assert [waits.woken[token]["status"] for token in ("token-1", "token-2")] == ["COMPENSATED"] * 2


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_has_at_most_90_lines(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 90


def raising(error: Exception) -> Callable[..., None]:
    def call(**_: Any) -> None:
        raise error

    return call
