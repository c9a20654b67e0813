"""Simulates the relay of events, whose batches of stream records fail, repeat and are halved.

It runs after the world's history. The bus's reader keeps one event per identity. A person replays settlements
with spoilt records.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest import mock

from botocore.exceptions import ReadTimeoutError

from handlers import _dependencies
from settlement.aws import queues as _queues
from settlement.core.model.errors import SettlementError
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.events import ordered_topic as _ordered_topic
from settlement.events import outcome_bus as _outcome_bus
from settlement.events.changes import event
from tests.simulation.seeded.facts import (
    LABELS,
    POISON,
    demand,
    is_swept_later,
    labels_of,
    number,
    text,
)
from tests.world.contracts import checked_event
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.functions import HANDLERS, Context
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb, error
from tests.world.services import Died
from tests.world.stream import record

BATCH_MAX, ENTRIES_MAX = 25, 10
"""Maximum records per batch, and EventBridge's maximum events per call."""

FAULTS_MAX = 40
"""Maximum faults per world, because a batch might never end otherwise."""

SPOILT: tuple[dict[str, Any], ...] = (
    {"status": {"S": "NONSENSE"}},
    {"amount": {"S": "much"}},
    {"amount": {"N": "1.5"}},
    {"payee": {"B": b"bob"}},
    {"claimed_at": {"NEW": "type"}},
)
"""A foreign writer's changes to a settlement's row."""

Record = dict[str, Any]


class Relay:
    """The stream's records, ordered only per row, and the services that get their events."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"relay {seed}")
        self._records: dict[str, list[Record]] = {}
        self._faults = 0
        self._told: dict[str, list[dict[str, Any]]] = {}
        self._put: list[tuple[str, int]] = []
        self._has_topic = self._random.random() < 0.3
        """Whether a topic orders each settlement's events."""

        self._in_order: dict[str, list[int]] = {}
        self._swept: set[tuple[str, str]] = set()
        self._aside: set[str] = set()

    def committed(self, changes: Changes, config: StageConfig) -> None:
        for old, new in changes:
            row = new or old
            if not row or old == new or POISON in row["pk"]["S"]:
                continue
            if row["sk"]["S"] == "SETTLEMENT":
                demand(new, "no settlement's row is deleted", row["pk"]["S"])
                _check_change(old, new, config)
            elif old is not None or not is_swept_later(new):
                continue
            self._records.setdefault(row["pk"]["S"], []).append(record(old, new, at=0))

    def play(self, table: MemoryDynamoDb, moved: Mapping[str, Mapping[str, int]]) -> None:
        store = Store(table, "simulated")
        with ExitStack() as stack:
            for place, name, part in (
                (_outcome_bus, "_client", self),
                (_ordered_topic, "_client", self),
                (_queues, "_client", self),
                (_dependencies, "store", store),
                (_dependencies, "now", lambda: NOW),
            ):
                stack.enter_context(mock.patch.object(place, name, part))
            if self._has_topic:
                stack.enter_context(mock.patch.dict(os.environ, {"ORDERED_TOPIC": "ordered.fifo"}))
            poisoned = self._poison()
            self._relay_all()
            keys = {pk.partition("#")[2] for pk in poisoned}
            demand(self._aside == keys, "what can never be told is put aside", *self._aside ^ keys)
            if keys:
                answer = _until_answered({"replay": sorted(keys)})
                demand(answer == {"told": sorted(keys), "untold": {}}, "a replay tells of each", answer)
        self._check_releases()
        for key, numbers in self._in_order.items():
            demand(numbers == sorted(numbers), "the topic keeps a settlement's events in order", key, numbers)
        for (pk, sk), row in table.items.items():
            if pk in self._records and sk == "SETTLEMENT":
                self._check(row, is_poisoned=pk in poisoned)
                self._check_new_key(row, moved)

    def put_events(self, Entries: list[dict[str, str]]) -> Any:  # noqa: N803
        """Take events as EventBridge does: perhaps only some of them, perhaps without an answer."""
        demand(0 < len(Entries) <= ENTRIES_MAX, "a call has one to ten events", len(Entries))
        fault = self._fault("died before", "died after", "throttled", "in part", "lost")
        _before(fault)
        found = [checked_event(json.loads(entry["Detail"])) for entry in Entries]
        self._put += [(one["subject"], int(one["sequence"])) for one in found]
        answers: list[dict[str, str]] = []
        for one in found:
            if fault == "in part" and self._random.random() < 0.5:
                answers.append({"ErrorCode": "ThrottlingException"})
            else:
                self._told.setdefault(one["subject"], []).append(one)
                answers.append({"EventId": "1"})
        _after(fault)
        return {"FailedEntryCount": sum("ErrorCode" in one for one in answers), "Entries": answers}

    def publish(self, Message: str, MessageGroupId: str, **_: Any) -> None:  # noqa: N803
        """Take an event as a FIFO topic does; its reader drops duplicates."""
        fault = self._fault("died before", "died after", "throttled", "lost")
        _before(fault)
        if "replayed" not in (event := json.loads(Message)):
            group = self._in_order.setdefault(MessageGroupId, [])
            if int(event["sequence"]) not in group:
                group.append(int(event["sequence"]))
        _after(fault)

    def send_message(self, QueueUrl: str, MessageBody: str, **_: Any) -> None:  # noqa: N803
        fault = self._fault("died before", "died after", "throttled", "lost")
        _before(fault)
        content = json.loads(MessageBody)
        if QueueUrl == os.environ["SWEEPS"]:
            self._swept |= {(pk, sk) for pk, sk in content}
        else:
            demand(QueueUrl == os.environ["EVENTS_PUT_ASIDE"], "no message goes elsewhere", QueueUrl)
            demand(content["reason"], "what is put aside has a reason", content["key"])
            self._aside.add(content["key"])
        _after(fault)

    def _fault(self, *kinds: str) -> str | None:
        if self._faults >= FAULTS_MAX or self._random.random() > 0.15:
            return None
        self._faults += 1
        return self._random.choice(kinds)

    def _poison(self) -> set[str]:
        if self._random.random() > 0.1:
            return set()
        pk = self._random.choice(sorted(self._records)) if self._records else ""
        if not pk.startswith("SETTLEMENT#"):
            return set()
        spoilt = self._random.choice(self._records[pk])["dynamodb"]
        spoilt["NewImage"] = spoilt["NewImage"] | self._random.choice(SPOILT)
        return {pk}

    def _relay_all(self) -> None:
        left = {pk: list(records) for pk, records in self._records.items()}
        while left:
            batch: list[Record] = []
            for _ in range(self._random.randint(1, BATCH_MAX)):
                if left:
                    pk = self._random.choice(sorted(left))
                    batch.append(left[pk].pop(0))
                    left = {one: records for one, records in left.items() if records}
            self._deliver(batch)

    def _deliver(self, batch: list[Record]) -> None:
        """Deliver a batch, whole or in halves, until the function takes it; sometimes again."""
        for _ in range(2 * FAULTS_MAX):
            self._put.clear()
            try:
                answer = HANDLERS["PublishEvents"]({"Records": batch}, Context())
            except (Died, SettlementError):
                if len(batch) > 1 and self._random.random() < 0.5:
                    self._deliver(batch[: len(batch) // 2])
                    self._deliver(batch[len(batch) // 2 :])
                    return
                continue
            finally:
                _check_order(self._put)
            demand(answer is None, "a batch has no answer", answer)
            if self._random.random() > 0.1:
                return
        demand(False, "a batch ends once the faults are over", [one["dynamodb"]["Keys"] for one in batch])

    def _check_releases(self) -> None:
        wanted = {
            (pk, one["dynamodb"]["Keys"]["sk"]["S"])
            for pk, records in self._records.items()
            for one in records
            if not pk.startswith("SETTLEMENT#")
        }
        demand(self._swept == wanted, "each release to a merchant reaches its sweep", wanted ^ self._swept)

    def _check(self, row: Item, *, is_poisoned: bool) -> None:
        key = row["pk"]["S"].partition("#")[2]
        by_number: dict[int, dict[str, Any]] = {}
        for one in self._told.get(key, ()):
            sequence = int(one["sequence"])
            known = by_number.setdefault(sequence, one)
            demand(one["id"] == f"{key}:{sequence}", "an event's identity is its settlement's and its number")
            is_same = (
                known["data"] == one["data"] if "replayed" in one or "replayed" in known else known == one
            )
            demand(is_same, "an event that is sent again is the same", one["id"])
        first = number(from_image(self._records[row["pk"]["S"]][0]), "sequence") + 1
        latest = number(row, "sequence")
        dense = {*range(first, latest + 1)}
        if is_poisoned:
            demand(latest in by_number, "a replay has the number of the latest event", key, *by_number)
            demand(by_number.keys() <= dense | {latest}, "a settlement has no event of another number", key)
        else:
            demand(by_number.keys() == dense, "a settlement's events are dense", key, *by_number)
            in_order = self._in_order.get(key, [])
            demand(not self._has_topic or {*in_order} == dense, "the topic has each event", key, *in_order)
        for sequence, one in by_number.items():
            is_last = sequence == latest or one["data"]["next"]["action"] != "new_key"
            demand(is_last, "an event tells of a new key once this one can never pay", one["id"])
        if not dense:  # a life that begins within another
            return
        _check_data(key, by_number[latest]["data"], row)

    def _check_new_key(self, row: Item, moved: Mapping[str, Mapping[str, int]]) -> None:
        """Check that readers are told to pay with a new key only if the payee kept no money."""
        key = row["pk"]["S"].partition("#")[2]
        told = max(self._told.get(key, ()), key=lambda one: int(one["sequence"]), default=None)
        if told and told["data"]["next"]["action"] == "new_key":
            kept = moved.get(key, {}).get(row["payee"]["S"], 0)
            demand(not kept, "a new key is told while the payee keeps nothing of this one", key, kept)


def from_image(one: Record) -> Item | None:
    image: Item | None = one["dynamodb"].get("OldImage")
    return image


def _check_order(put: Iterable[tuple[str, int]]) -> None:
    latest: dict[str, int] = {}
    for key, sequence in put:
        demand(latest.get(key, 0) < sequence, "a call puts a settlement's events in order", key, sequence)
        latest[key] = sequence


def _check_data(key: str, data: dict[str, Any], row: Item) -> None:
    shown: dict[str, Any] = {name: text(row, name) for name in ("status", "finished_at", "claimed_at")}
    demand({name: data[name] for name in shown} == shown, "the last event is as the row", key, shown)
    said = {name: data[name] for name in LABELS if name in data}
    demand(said == labels_of(row), "the last event has the caller's own words", key, said)
    steps = [step for step in ("hold", "verify", "release", "fee") if f"{step}_at" in row]
    undone = sorted(step for step in ("hold", "release", "fee") if f"{step}_reversed_at" in row)
    told = (data["steps"], data["reversed"])
    demand(told == (steps, undone), "the last event has the steps of the row", key, told)
    failure = {name: value["S"] for name, value in row["failure"]["M"].items()} if "failure" in row else None
    demand(data["failure"] == failure, "the last event has the failure of the row", key)


def _check_change(old: Item | None, new: Item | None, config: StageConfig) -> None:
    assert new
    try:
        event(from_wire(old) if old else None, from_wire(new), config)
    except MalformedRow as wrong:
        demand(False, "each change of a settlement is an event or none", wrong)


def _until_answered(called: dict[str, Any]) -> Any:
    for _ in range(2 * FAULTS_MAX):
        try:
            return HANDLERS["PublishEvents"](called, Context())
        except (Died, SettlementError):
            continue
    return None


def _before(fault: str | None) -> None:
    if fault == "died before":
        raise Died
    if fault == "throttled":
        raise error("Call", "ThrottlingException", "Rate exceeded")


def _after(fault: str | None) -> None:
    if fault == "died after":
        raise Died
    if fault == "lost":
        raise ReadTimeoutError(endpoint_url="https://service.invalid")
