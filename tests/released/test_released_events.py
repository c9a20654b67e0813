"""Checks events of earlier releases against today's contract and code.

Per event type, the file has a settlement's row before and after a change, and the event. Readers keep events
for years, so today's contract must accept them.
To record an unpublished release's file:

    RECORD_RELEASE=0.1.0 pytest tests/released
"""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.store.wire import from_wire, to_wire
from settlement.events import changes as events
from tests.released.moments import put_back
from tests.released.test_released import RECORDED, RELEASES
from tests.settle import ways
from tests.settle.desk import Desk
from tests.settle.ways import Way
from tests.world.constants import KEY
from tests.world.contracts import checked_event

WAYS: list[Way] = [
    *(ways.reversed_before_the_hold, ways.approved_in_review, ways.lacks_funds, ways.rejected),
    *(ways.reversed_on_order, ways.reversed_in_part, ways.reversed_in_part_and_migrated),
    ways.decided("release", Decision.RETRY),
]

HERE = Path(__file__).parent
EVENTS, TIME = "events.json", "2026-11-24T12:00:00.000Z"
WRITES = ("PutItem", "UpdateItem", "TransactWriteItems")
TYPES = {f"settlement.{name}" for name in (*events.EventType, events.SNAPSHOT)}

Change = dict[str, Any]
"""A change, with the DynamoDB images `old` and `new`."""


def changes(release: str) -> list[Change]:
    found: list[Change] = json.loads((HERE / release / EVENTS).read_text())
    return found


def made(desk: Desk, change: Change) -> Any:
    old, new = (from_wire(change[name]) if change[name] else None for name in ("old", "new"))
    config, source = desk.stack.config, change["event"]["source"]
    if change["event"].get("replayed"):
        assert new
        return events.snapshot(SettlementState.from_row(new), config, source=source, time=TIME)
    found = events.event(old, new, config)
    return events.cloud_event(found, source=source, time=TIME) if found else None


def record(desk: Desk, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not os.environ.get("CI"), "CI compares with what is recorded"
    beginning = {"rows": [to_wire(row) for row in desk.ledger.rows()], "executions": []}
    found: dict[str, Change] = {}
    for way in WAYS:
        put_back(desk, beginning, monkeypatch)
        for old, new in written(desk, way):
            change: Change = {
                "old": old and to_wire(old),
                "new": to_wire(new),
                "event": {"source": "settlement-prod"},
            }
            if event := made(desk, change):
                found.setdefault(event["type"], change | {"event": event})
    change["event"]["replayed"] = True
    found["settlement.snapshot"] = change | {"event": made(desk, change)}
    lines = ",\n".join(json.dumps(found[name], sort_keys=True) for name in sorted(found))
    path.write_text(f"[\n{lines}\n]\n")


def written(desk: Desk, way: Way) -> Iterator[tuple[Row | None, Row]]:
    """Play a scripted payment; yield its row before and after each write."""
    rows: list[Row | None] = [None]

    def look(**_: Any) -> None:
        if (row := desk.ledger.row(keys.settlement(KEY))) != rows[-1]:
            rows.append(row)

    bus = desk.ledger.client.meta.events
    for operation in WRITES:
        bus.register(f"after-call.dynamodb.{operation}", look)
    way(desk)
    for operation in WRITES:
        bus.unregister(f"after-call.dynamodb.{operation}", look)
    for old, new in pairwise(rows):
        assert new
        yield old, new


@pytest.mark.parametrize("release", RELEASES)
def test_each_event_of_an_earlier_release_keeps_todays_contract(
    desk: Desk, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if release == RECORDED:
        record(desk, HERE / release / EVENTS, monkeypatch)
    found = changes(release)

    assert {change["event"]["type"] for change in found} <= TYPES, "a type that was told stays"
    assert len(found) >= 16
    for change in found:
        checked_event(change["event"])


@pytest.mark.parametrize("release", RELEASES)
def test_todays_code_publishes_an_earlier_releases_events_as_recorded(desk: Desk, release: str) -> None:
    for change in changes(release):
        told, today = change["event"], made(desk, change)

        assert {name: today[name] for name in told} | {"data": None} == told | {"data": None}
        kept = {name: today["data"].get(name) for name in told["data"]}
        assert kept == told["data"], "a field that was told stays, with its meaning"


def test_the_newest_releases_files_contain_each_event_type() -> None:
    assert {change["event"]["type"] for change in changes(RELEASES[-1])} == TYPES
