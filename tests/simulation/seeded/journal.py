"""Simulates a world's sealed journal, from stream batches to seals in a faulty S3, and checks it.

It runs after the world's history, with its own clock and random stream.
"""

import gzip
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from botocore.exceptions import ClientError, ReadTimeoutError

from handlers import _dependencies
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import JournalUnavailable
from settlement.journal import bucket as _journal
from settlement.journal import lines
from settlement.journal.copy import Bucket
from settlement.proof import sealed
from settlement.proof.sealed import SealedFindings
from tests.simulation.seeded.facts import demand, key_of
from tests.simulation.seeded.journal_reader import JournalReader
from tests.simulation.seeded.lawful import retention_at
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.memory_dynamodb import Changes
from tests.world.memory_s3 import MemoryS3
from tests.world.stream import TIME_TO_LIVE, record, sealed_records

if TYPE_CHECKING:
    from tests.simulation.seeded.retention import Expired
    from tests.simulation.seeded.world import World

CALL_SECONDS_MAX = 60
"""A call's timeout. The stream then retries, and the first call may still take effect."""

PERIOD = timedelta(minutes=30)
"""A seal's period: half of the period on AWS, for more events at its edges."""

FROZEN_SECONDS_MAX = 1_500

_WITHHELD = ("reason", "by", "cause", "error", "reference", "metadata", "payer_name", "payee_name")
_CLAIM = ("payer", "payee", "amount", "fee", "currency", "deadline_seconds", "request_hash", "claimed_at")
_WHOLE = ("step", "posted_at", "debit", "credit", "side", "amount", "currency", "request_hash", "decision")
_COPIED = {
    "ENTRIES": _WHOLE,
    "EVIDENCE": _WHOLE,
    "SETTLEMENT": _CLAIM,
    "ACCOUNT": ("currency", "opened_at"),
    "ORDER": ("order", "account", "currency", "amount", "posted_at", "request_hash"),
}
"""By kind of row, the attributes that the journal copies, restated here from the rules."""


class Killed(BaseException): ...


class Journal:
    def __init__(self, seed: int) -> None:
        self.random = Random(f"journal {seed}")
        self.s3 = MemoryS3(page=self.random.choice((1, 2, 1_000)))
        self.counted: Counter[str] = Counter()
        self.now = NOW
        self._records: list[tuple[int, dict[str, Any]]] = []
        self._faults = self.random.choice((0, 0.1, 0.3))
        self._depth, self._is_slow, self._may_freeze = 0, True, True
        self._waiting: list[deque[tuple[int, dict[str, Any]]]] = []
        self.reader = JournalReader(seed, self.s3, self._clock)

    def committed(self, changes: Changes, milliseconds: int) -> None:
        at = int(NOW.timestamp()) + milliseconds // 1_000
        self._records += ((milliseconds, record) for record in sealed_records(changes, at))

    def play(self, world: "World") -> None:
        self._waiting = self._shards()
        with self._in_force(), mock.patch.object(_dependencies, "config", world.config):
            while any(self._waiting):
                self._act()
                self.reader.may_read()
            self._faults, self._is_slow = 0, False
            self.now += 3 * PERIOD
            self._seal_the_rest()
            self.reader.finish()
        self._check(world)
        demand(not world.counted["JournalTampered"], "no lawful history reports tampering")

    def expire(self, world: "World", expired: "Expired") -> None:
        """Check that the journal replaces expired entries."""
        self.now = max(self.now, NOW + timedelta(milliseconds=expired.moment.now))
        at, before = int(self.now.timestamp()), self._names()
        records = [record(entry, None, at) | TIME_TO_LIVE for entry in expired.gone]
        with self._in_force(timedelta(days=1)):
            demand(self._call({"Records": records}), "the end of an entry is no failure")
            demand(self._names() == before, "the end of an entry is not copied")
            self._seal_the_rest()
        demand(not world.counted["JournalTampered"], "the end of an entry is no tampering")
        rows = [lines.plain_row(row) for row in expired.moment.items.values()]
        found = self._compared(rows, world, expired.moment.now)
        demand(not found.faults, "what has expired is as it was sealed", found.faults[:3])
        demand(found.expired == len(expired.gone), "each entry that is gone is counted", found.expired)
        if expired.gone:
            self._misses_a_slot(rows, world, expired)

    def _misses_a_slot(self, rows: list[Row], world: "World", expired: "Expired") -> None:
        """Check that the journal contradicts a settlement's row that lost a step's slot."""
        entry = self.random.choice(expired.gone)
        step = entry["step"]["S"].partition("compensate:")
        slot = f"{step[2]}_reversed_at" if step[2] else f"{step[0]}_at"
        pk = f"SETTLEMENT#{key_of(entry)}"
        forged = [{**row, slot: None} if row["pk"] == pk else row for row in rows]
        found = self._compared(forged, world, expired.moment.now)
        demand(found.faults, "a slot without its entry is as the journal has it", pk, slot)

    def _compared(self, rows: list[Row], world: "World", now: int) -> SealedFindings:
        held = retention_at(world.config, now)
        return sealed.compare(Bucket(self.s3, "journal"), rows, self.now, retention=held)

    def _names(self) -> set[str]:
        return {name for name in self.s3.objects if name.startswith("journal/")}

    @contextmanager
    def _in_force(self, period: timedelta = PERIOD) -> Iterator[None]:
        with (
            mock.patch.object(_journal, "_client", FaultyS3(self)),
            mock.patch.object(_journal, "PERIOD", period),
            mock.patch.object(_journal, "GRACE", PERIOD // 6),
            mock.patch.object(_dependencies, "now", self._clock),
            mock.patch.dict(os.environ, {"JOURNAL_BUCKET": "journal"}),
        ):
            yield

    def _seal_the_rest(self) -> None:
        """Call the function until it makes no more seals, because one call makes only some."""
        known = -1
        while known < len(self.s3.objects):
            known = len(self.s3.objects)
            demand(self._call({}), "without faults a seal is made")

    def _clock(self) -> datetime:
        return self.now

    def between(self) -> None:
        """Let others run while a call waits for its answer."""
        self._pass(self.random.choice((0, 0, 0, 1, 20)) if self._is_slow else 0)
        if self._may_freeze and self.fails("frozen"):
            self._may_freeze = False
            self._pass(self.random.choice((60, 700, FROZEN_SECONDS_MAX)))
            if self._depth < 2 and self.random.random() < 0.5:
                self._meanwhile(lambda: self._call({}))
        if self._depth < 2 and any(self._waiting) and self.random.random() < self._faults:
            self._meanwhile(self._act)

    def _meanwhile(self, act: Callable[[], object]) -> None:
        self._depth += 1
        act()
        self._depth -= 1

    def fails(self, name: str) -> bool:
        happens = self.random.random() < self._faults / 3
        self.counted[name] += happens
        return happens

    def _shards(self) -> list[deque[tuple[int, dict[str, Any]]]]:
        """Return the records by shard. A row's records stay in one shard, in order."""
        number = self.random.choice((1, 2, 3))
        shards: list[deque[tuple[int, dict[str, Any]]]] = [deque() for _ in range(number)]
        places: dict[str, int] = {}
        for at, one in self._records:
            pk = one["dynamodb"]["Keys"]["pk"]["S"]
            shards[places.setdefault(pk, self.random.randrange(number))].append((at, one))
        return shards

    def _act(self) -> None:
        if not self._depth:
            self._may_freeze = True
            if self.random.random() < 0.05:
                self._pass(self.random.choice((60, 1_200, 4_000, 30_000)))
        if self.random.random() < 0.3:
            self._call({})
            return
        shard = self.random.choice([one for one in self._waiting if one])
        size = min(len(shard), self.random.choice((1, 2, 5, 100)))
        batch = [shard.popleft() for _ in range(size)]
        self.now = max(self.now, NOW + timedelta(milliseconds=batch[-1][0]))
        event = {"Records": [record for _, record in batch]}
        if not self._call(event) or self.fails("delivered again"):
            shard.extendleft(reversed(batch))  # whole, or in other batches

    def _call(self, event: dict[str, Any]) -> bool:
        timeout = self.now + timedelta(seconds=CALL_SECONDS_MAX)
        try:
            HANDLERS["SealJournal"](event, Context())
        except (JournalUnavailable, Killed) as failed:
            self.counted[type(failed).__name__] += 1
            return False
        return not self._is_slow or self.now <= timeout

    def _pass(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def _check(self, world: "World") -> None:
        """Compare the objects with the table, first here, then by the comparison that users run."""
        table = world.table.items
        wanted = {key: row for key, row in table.items() if key[0].startswith(lines.KINDS)}
        copied: dict[tuple[str, str], set[str]] = {}
        for name, content in self.s3.objects.items():
            if not name.startswith("journal/"):
                continue
            for line in gzip.decompress(content).decode().splitlines():
                told = json.loads(line)
                demand(told["event"] == "INSERT" and "old" not in told, "only what is new is copied", line)
                row = told["new"]["row"]
                key = (row["pk"], row["sk"])
                copied.setdefault(key, set()).add(json.dumps(told["new"], sort_keys=True))
                demand(key in wanted, "nothing is copied that the table has not", key)
                demand(not set(_WITHHELD) & row.keys(), "no free text and no name is copied", key)
                for attribute in _COPIED[key[0].partition("#")[0]]:
                    of_table = next(iter(wanted[key].get(attribute, {"-": None}).values()))
                    same = str(row.get(attribute)) == str(of_table)
                    demand(same, "a row is copied as it is", key, attribute)
        demand(copied.keys() == wanted.keys(), "every row is copied", wanted.keys() - copied.keys())
        demand(all(len(one) == 1 for one in copied.values()), "a row is copied as one and the same")
        once = all(len(versions) == 1 for versions in self.s3.versions.values())
        demand(once, "no object is ever put twice")
        rows = (lines.plain_row(row) for row in table.values())
        found = self._compared(list(rows), world, world.hub.now)
        demand(not found.faults, "no lawful history is found to be tampered with", found.faults[:3])
        demand(not (found.restored or found.young or found.before), "every row is sealed", vars(found))
        demand(found.rows == len(wanted), "every row is compared", found.rows, len(wanted))


class FaultyS3:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        journal = self._journal

        def call(**parameters: Any) -> Any:
            journal.between()
            if journal.fails("killed before"):
                raise Killed
            if journal.fails("unreached"):
                raise ReadTimeoutError(endpoint_url="s3")
            if journal.fails("conflict"):
                code = {"Code": "ConditionalRequestConflict", "Message": ""}
                raise ClientError({"Error": code}, operation)
            answer = getattr(journal.s3, operation)(**parameters)
            if operation == "put_object":
                journal.reader.came(parameters["Key"])
            if journal.fails("lost"):
                raise ReadTimeoutError(endpoint_url="s3")
            if journal.fails("killed after"):
                raise Killed
            return answer

        return call
