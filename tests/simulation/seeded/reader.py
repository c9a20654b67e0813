"""Simulates a reader of outcomes over HTTP, with long polls, while a world's commits are replayed."""

import json
from itertools import repeat
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from handlers import _dependencies
from handlers.reading import _long_poll
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.policy import outcome
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from tests.simulation.seeded.facts import POISON, demand, number
from tests.world import reading
from tests.world.contracts import checked_outcome
from tests.world.expressions import Item
from tests.world.functions import HANDLERS, Context
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb, error

READS_MAX = 12

UNKNOWN = "order-that-is-not-there"


class Reader:
    def __init__(self, seed: int) -> None:
        self._random = Random(f"reader {seed}")
        self._course: list[tuple[tuple[str, str], Item, StageConfig]] = []
        self._table = MemoryDynamoDb(lambda changes: demand(False, "a reader writes nothing", changes))
        self._position, self._clock = 0, 0.0

    def committed(self, changes: Changes, config: StageConfig) -> None:
        for _, new in changes:
            if new and new["sk"]["S"] == "SETTLEMENT" and POISON not in new["pk"]["S"]:
                self._course.append(((new["pk"]["S"], "SETTLEMENT"), new, config))

    def play(self) -> None:
        if not self._course:
            return
        clock = SimpleNamespace(monotonic=lambda: self._clock, sleep=self._sleep)
        with (
            mock.patch.object(_long_poll, "time", clock),
            mock.patch.object(_dependencies, "store", self._store()),
            mock.patch.object(_dependencies, "config", self._course[0][2]),
        ):
            keys = [pk.partition("#")[2] for (pk, _), _, _ in self._course]
            for _ in range(self._random.randint(1, READS_MAX)):
                self._commit(self._random.randint(0, 1 + len(self._course) // 6))
                self._ask(self._random.choice([*keys, UNKNOWN]))

    def _store(self) -> Store:
        table = _Faulty(self._table, self._random)
        return Store(table, "simulated", pause=lambda failed_tries: None)

    def _commit(self, count: int) -> None:
        for pk, row, config in self._course[self._position : self._position + count]:
            self._table.items[pk] = row
            _dependencies.config = config
        self._position = min(self._position + count, len(self._course))

    def _sleep(self, seconds: float) -> None:
        self._clock += seconds
        self._commit(self._random.choice((0, 0, 1, 2)))

    def _ask(self, key: str) -> None:
        chance, before, since = self._random, self._sequence(key), self._clock
        after, wait = before + chance.choice((-1, 0, 0, 0, 1)), chance.choice((0, 1, 3, 20))
        query = {"after": str(after), "wait": str(wait)} if after >= 0 and chance.random() < 0.7 else {}
        had = chance.choice((before, before + 1))
        headers = {"if_none_match": f'"{had}"'} if chance.random() < 0.3 else {}
        left_ms = chance.choice((9_000, 50_000))
        event, context = reading.outcome(key, query, **headers), Context(repeat(left_ms))
        told = reading.answer(HANDLERS["ReadSettlements"](event, context))
        now, waited = self._sequence(key), self._clock - since
        if told.status == 503:
            return
        if told.status == 404:
            demand(not now, "a settlement that is there is found", key)
            sequence = 0
        else:
            sequence = int(json.loads(told.headers["etag"]))
            demand(sequence == now, "a reader gets the row of the last look", key, sequence, now)
            is_had = bool(headers) and sequence == had
            demand((told.status == 304) == is_had, "a reader who has it is told so", key, had, sequence)
        if query and sequence <= after:
            least = min(wait, left_ms // 1_000 - _long_poll._RESERVED_SECONDS)
            demand(waited >= least, "a long poll waits for its time", key, waited)
        demand(waited <= wait, "a long poll ends with its time", key, waited)
        if told.status == 200:
            self._is_true(key, sequence, told.content)

    def _is_true(self, key: str, sequence: int, content: Any) -> None:
        """Check that an outcome matches the row with the same sequence number."""
        versions = [
            (row, config)
            for (pk, _), row, config in self._course[: self._position]
            if pk == f"SETTLEMENT#{key}" and number(row, "sequence") == sequence
        ]
        for row, config in versions:
            state = SettlementState.from_row(from_wire(row))
            wanted = outcome.of_state(state, config, replayed=True)
            demand(checked_outcome(content) == wanted, "one number is one outcome", key, sequence, content)

    def _sequence(self, key: str) -> int:
        row = self._table.items.get((f"SETTLEMENT#{key}", "SETTLEMENT"))
        return number(row, "sequence") if row else 0


class _Faulty:
    def __init__(self, table: MemoryDynamoDb, random: Random) -> None:
        self._table, self._random = table, random

    def get_item(self, **parameters: Any) -> Any:
        demand(parameters["ConsistentRead"], "an outcome is read consistently")
        if self._random.random() < 0.05:
            raise error("GetItem", "ThrottlingException", "")
        return self._table.get_item(**parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)
