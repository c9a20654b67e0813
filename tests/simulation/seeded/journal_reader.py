"""A reader of the journal over HTTP, paging from a cursor while objects arrive."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError, ReadTimeoutError

from settlement.journal import bucket as _journal
from tests.simulation.seeded.facts import demand
from tests.world import reading
from tests.world.functions import HANDLERS, Context
from tests.world.memory_s3 import MemoryS3

READS_MAX = 8

Name = tuple[str, str, str]
"""An entry's name: debited account, time, and key with step."""


class JournalReader:
    def __init__(self, seed: int, s3: MemoryS3, clock: Callable[[], datetime]) -> None:
        self._random = Random(f"reader of the journal {seed}")
        self._s3, self._clock = s3, clock
        self._left = self._random.randint(0, READS_MAX)
        self._cursor: str | None = None
        self._known: Counter[Name] = Counter()
        self._came: dict[str, datetime] = {}

    def came(self, name: str) -> None:
        if name.startswith("journal/"):
            self._came.setdefault(name, self._clock())

    def may_read(self) -> None:
        if self._left and self._random.random() < 0.3:
            self._left -= 1
            self._read(faults=0.2)

    def finish(self) -> None:
        while self._read(faults=0):
            pass
        in_time = {name for name in self._came if self._is_in_time(name)}
        missing = self._entries(in_time) - self._known.keys()
        demand(not missing, "a reader who goes on from cursors gets every entry", sorted(missing)[:3])
        self._cursor, self._known = None, Counter()
        while self._read(faults=0):
            pass
        found, wanted = self._known.keys(), self._entries({*self._came})
        demand(found == wanted, "a reader gets the whole journal, and no more", sorted(found ^ wanted)[:3])

    def _read(self, faults: float) -> bool:
        query = {"limit": str(self._random.choice((1, 2, 100)))}
        if self._cursor:
            query["cursor"] = self._cursor
        with mock.patch.object(_journal, "_client", _Faulty(self._s3, self._random, faults)):
            event = reading.journal(**query)
            told = reading.answer(HANDLERS["ReadSettlements"](event, Context()))
        if told.status == 503 and faults:
            return False
        demand(told.status == 200, "a page of the journal is answered", told)
        demand(not told.content["skipped"], "no lawful line is skipped", told.content["skipped"][:1])
        for entry in told.content["entries"]:
            self._known[entry["debit"], entry["posted_at"], f"{entry['key']}:{entry['step']}"] += 1
        self._cursor = told.content["cursor"]
        return bool(told.content["more"])

    def _is_in_time(self, name: str) -> bool:
        """Return whether an object arrived before a page could pass its minute."""
        minute = datetime.strptime(name.split("/")[1], "%Y-%m-%dT%H%M").replace(tzinfo=UTC)
        return self._came[name] < minute + timedelta(minutes=1) + _journal.GRACE

    def _entries(self, names: set[str]) -> set[Name]:
        found = set()
        for name in names:
            for line in gzip.decompress(self._s3.objects[name]).splitlines():
                row: dict[str, Any] = json.loads(line)["new"]["row"]
                if row["pk"].startswith("ENTRIES#"):
                    posted_at, _, step = row["sk"].partition("#")
                    found.add((row["debit"], posted_at, step))
        return found


class _Faulty:
    def __init__(self, s3: MemoryS3, random: Random, faults: float) -> None:
        self._s3, self._random, self._faults = s3, random, faults

    def get_object(self, **parameters: Any) -> Any:
        if self._random.random() < self._faults:
            raise ReadTimeoutError(endpoint_url="s3")
        if self._random.random() < self._faults:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": ""}}, "GetObject")
        return self._s3.get_object(**parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._s3, name)
