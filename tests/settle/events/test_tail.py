import json
import os
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.events.models import EventPattern

from settle import stack
from settle.events import tail
from settlement.core.model.state import SettlementState
from tests.settle.conftest import Command, raising
from tests.unit import states
from tests.unit.contracts import EVENT, PAYOUT_EVENT, PAYRUN_EVENT, SCHEMAS
from tests.world.step_functions import client_error

SETTLED: dict[str, Any] = SCHEMAS[EVENT]["examples"][0]
HELD = SETTLED | {
    "type": "settlement.held",
    "sequence": "1",
    "data": SETTLED["data"] | {"status": "PROCESSING"},
}
KEY = SETTLED["subject"]
OTHER = SETTLED | {"subject": "order-2026-000999"}
BUS = "under-test-outcomes"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[stack.Stack]:
    monkeypatch.setattr(tail, "_WAIT_SECONDS", 0)
    monkeypatch.setattr(tail, "_NEW_QUEUE_SECONDS", 0)
    with mock_aws():
        session = boto3.Session(region_name="eu-west-1")
        session.client("events").create_event_bus(Name=BUS)
        outputs = {
            "EventBusName": "under-test",
            "OutcomeBusName": BUS,
            "StageConfig": os.environ["STAGE_CONFIG"],
        }
        found = stack.Stack("under-test", outputs, session)
        monkeypatch.setattr(stack.Stack, "store", Ledger())
        monkeypatch.setattr(stack, "find", lambda name: found)
        yield found


class Ledger:
    def __init__(self) -> None:
        self.states: dict[str, SettlementState] = {}

    def settlement(self, key: str) -> SettlementState | None:
        return self.states.get(key)


def left(account: stack.Stack) -> tuple[list[str], list[str]]:
    rules = account.client("events").list_rules(EventBusName=BUS)["Rules"]
    return [rule["Name"] for rule in rules], account.client("sqs").list_queues().get("QueueUrls", [])


@pytest.fixture
def coming(account: stack.Stack, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Events put on the bus once the command listens."""
    events: list[dict[str, Any]] = []
    listen = tail._listen

    def then_put(*arguments: Any) -> str:
        url = listen(*arguments)
        (rule,) = account.client("events").list_rules(EventBusName=BUS)["Rules"]
        pattern = EventPattern(None, json.loads(rule["EventPattern"]))
        for one in events:
            told: Any = {"source": one["type"].partition(".")[0], "detail": one}
            if pattern.matches_event(told):
                account.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(told))
        return url

    monkeypatch.setattr(tail, "_listen", then_put)
    return events


def test_the_events_of_a_payment_are_shown_until_its_end(
    account: stack.Stack, coming: list[dict[str, Any]], settle: Command
) -> None:
    coming += [HELD, OTHER, SETTLED, HELD]

    code, out, _ = settle("events", "tail", "--key", KEY)

    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        f"2026-11-20T12:00:01.456Z {KEY} 1 held PROCESSING 48.20 EUR",
        f"2026-11-20T12:00:01.456Z {KEY} 4 settled SETTLED 48.20 EUR",
    ]
    assert left(account) == ([], [])


def test_tail_shows_a_payment_that_has_already_ended(account: stack.Stack, settle: Command) -> None:
    """Its events came before the command listened, so waiting would never end."""
    account.store.states[KEY] = states.found(states.row() | {"status": "REJECTED", "sequence": 1})  # type: ignore[attr-defined]

    code, out, _ = settle("events", "tail", "--key", KEY)

    assert code == 0
    assert " ".join(out.split()[1:]) == f"{KEY} 1 snapshot REJECTED 48.20 EUR"


def test_tail_notices_an_end_before_its_event_rule_took_effect(
    account: stack.Stack, settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new rule takes effect late, so it misses the payment's last event."""
    states_of = account.store.states  # type: ignore[attr-defined]
    listen = tail._listen

    def then_end(*arguments: Any) -> str:
        states_of[KEY] = states.found(states.row() | {"status": "PROCESSING", "sequence": 1})
        return listen(*arguments)

    def without_a_message(*_: Any) -> Iterator[None]:
        states_of[KEY] = states.found(states.row() | {"status": "REJECTED", "sequence": 2})
        yield None

    monkeypatch.setattr(tail, "_listen", then_end)
    monkeypatch.setattr(tail, "_events", without_a_message)

    code, out, _ = settle("events", "tail", "--key", KEY)

    assert code == 0
    assert [line.split()[2:5] for line in out.splitlines()] == [
        ["1", "snapshot", "PROCESSING"],
        ["2", "snapshot", "REJECTED"],
    ]


def test_tail_json_prints_events_exactly_as_on_the_bus(
    account: stack.Stack, coming: list[dict[str, Any]], settle: Command
) -> None:
    coming += [OTHER, SETTLED]

    code, out, _ = settle("events", "tail", "--timeout", "1", "--json")

    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [OTHER, SETTLED]
    assert left(account) == ([], [])


@pytest.mark.parametrize(
    ("contract", "shown"),
    [
        (EVENT, "order-2026-000101 4 settled SETTLED 48.20 EUR"),
        (PAYOUT_EVENT, "payout-2026-000101 4 payout.paid PAID 48.20 EUR"),
        (PAYRUN_EVENT, "8607d3a888c03079a5244c953c958046 4 payrun.finished FINISHED 3 of 3 lines ended"),
    ],
)
def test_tail_shows_the_events_of_each_source(
    account: stack.Stack, coming: list[dict[str, Any]], settle: Command, contract: str, shown: str
) -> None:
    coming.append(SCHEMAS[contract]["examples"][0])

    code, out, _ = settle("events", "tail", "--timeout", "1")

    assert (code, out.split()[1:]) == (0, shown.split())


def test_an_interrupted_tail_leaves_no_rule_or_queue(
    account: stack.Stack, settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_events", raising(KeyboardInterrupt))

    assert settle("events", "tail")[0] == 0

    assert left(account) == ([], [])


def test_tail_removes_only_day_old_leftovers_of_killed_commands(
    account: stack.Stack, settle: Command
) -> None:
    events, now = account.client("events"), int(time.time())
    old, young = f"under-test-tail-{now - 90_000}-aaaaaa", f"under-test-tail-{now - 60}-bbbbbb"
    for name in (old, young, "under-test-tail-of-others", "a-readers-rule"):
        events.put_rule(Name=name, EventBusName=BUS, EventPattern='{"source": ["settlement"]}')
    account.client("sqs").create_queue(QueueName=old)

    assert settle("events", "tail", "--timeout", "1")[0] == 0

    rules, queues = left(account)
    assert ({*rules}, queues) == ({"a-readers-rule", young, "under-test-tail-of-others"}, [])


def test_a_tail_without_permission_prints_one_line_and_leaves_nothing(
    account: stack.Stack, settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = account.client("events")

    def reached(found: stack.Stack, service: str, attempts: int = 5) -> Any:
        return client if service == "events" else found.session.client(service)

    monkeypatch.setattr(client, "put_rule", raising(client_error("PutRule", "AccessDeniedException")))
    monkeypatch.setattr(stack.Stack, "client", reached)

    code, out, said = settle("events", "tail")

    assert (code, out) == (1, "")
    assert "PutRule" in said
    assert len(said.splitlines()) == 1
    assert left(account) == ([], [])
