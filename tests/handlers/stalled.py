"""Stalled settlements for the tests of RecoverStalled."""

import io
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import forward, keys
from settlement.core.model.request import parse_settlement
from tests.handlers.conftest import Calls, Later
from tests.world.constants import KEY, NONCE, REJECTED_BY_KYC, WIRE
from tests.world.definitions import STANDARD
from tests.world.environment import NOW
from tests.world.services import execution
from tests.world.step_functions import StepFunctions

FIRST = execution("compensation-1")
"""The execution that begins all reversals in these tests."""

ENDS = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]


OTHER_KEYS = [f"order-2026-0002{number:02}" for number in range(12)]
"""Keys in all partitions of the index."""

SHARDS = keys.IN_FLIGHT_SHARDS
AT_THE_HEAD = "2026-11-20T11:00:00.000Z"
"""A sort key before all due settlements."""


def resumed(number: int = 1, on: str = STANDARD) -> tuple[str, str, Any]:
    return (on, f"{KEY}-r{number}-{NONCE}", WIRE)


def compensated(number: int = 1, **more: Any) -> tuple[str, str, Any]:
    return ("Compensation", f"{KEY}-c{number}-{NONCE}", {"settlement": WIRE, **more})


def held(calls: Calls) -> None:
    calls.after("HoldFunds")


def reversing(calls: Calls) -> None:
    held(calls)
    calls.begin(error=REJECTED_BY_KYC)


def overdue(calls: Calls) -> None:
    """Hold the funds, and let recovery's next look be at the deadline, after 15 minutes."""
    held(calls)
    calls.alter(gsi1sk=calls.row()["deadline_at"])


def limbo(calls: Calls) -> None:
    calls.fall()


def recover_later(calls: Calls, **by: float) -> dict[str, float]:
    """Run recovery this much later; return its metrics."""
    calls.later(**by)
    calls.counted()
    calls.recover()
    return calls.counted()


def quietly(recover: Callable[[], None]) -> None:
    """Run without warnings, because the first of two runs publishes the metrics of both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recover()


def freeze_index(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeze the settlement's listing in the index, despite later writes."""
    stale = calls.row()

    def listed(partition: str, *, up_to: str, limit: int, since: str = "") -> Iterator[keys.Row]:
        is_there = partition == stale["gsi1pk"] and since <= stale["gsi1sk"] <= up_to
        return iter([stale] if is_there else [])

    monkeypatch.setattr(_dependencies.store, "listed", listed)


def claim(calls: Calls, key: str = KEY) -> keys.Row:
    """Claim a key like the start queue; return its row."""
    config = _dependencies.config
    settlement = parse_settlement(WIRE | {"key": key}, config)
    calls.ledger.store.claim(forward.claim(settlement, "execution-1", NOW, config))
    found = calls.ledger.row(keys.settlement(key))
    assert found
    return found


def all_overdue(calls: Calls, later: Later) -> None:
    """Claim a key in each partition and let all deadlines pass; recovery has looked in time."""
    for key in OTHER_KEYS:
        row = claim(calls, key)
        calls.ledger.put(row | {"gsi1sk": row["deadline_at"]})
    in_use = {row["gsi1pk"] for row in calls.ledger.rows() if keys.is_settlement(row)}
    assert len(in_use) == SHARDS
    later(minutes=15)


def recovered(step_functions: StepFunctions) -> bool:
    return {f"{key}-c1-{NONCE}" for key in OTHER_KEYS} <= set(step_functions.names)


def copies(calls: Calls, number: int, **attributes: Any) -> None:
    row = calls.row()
    for copy in range(number):
        calls.ledger.put(row | keys.settlement(f"order-2026-1{copy:05}") | attributes)


def not_recovered(log: io.StringIO) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [(line["what"], line["error"]) for line in lines if line["message"] == "not recovered"]
