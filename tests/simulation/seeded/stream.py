"""Delivers releases to merchants to the sweep: late, repeated, reordered or not at all."""

from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.exit_codes import CommandFailed
from settlement.core.model.errors import SettlementError
from settlement.core.store.wire import from_wire
from tests.simulation.seeded.facts import is_swept_later
from tests.world.memory_dynamodb import Changes
from tests.world.services import released

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

MINUTE_MS = 60_000


class Stream:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._records: list[Any] = []

    def committed(self, changes: Changes) -> None:
        """Deliver a commit's releases, but lose one in thirty, which a person sweeps later."""
        world, chance = self._world, self._world.chance
        for old, new in changes:
            if old is not None or not is_swept_later(new):
                continue
            assert new
            record = {name: new[name] for name in ("pk", "sk")}
            self._records.append(record)
            if not chance.faults_end and chance.happens(0.03):
                world.count("StreamRecordLost", 1)
                world.note("the stream", "loses", record)
                at = chance.within(MINUTE_MS, 20 * MINUTE_MS)
                world.people.spawn("a person", at, self._sweep_by_hand, new["credit"]["S"])
                continue
            for _ in range(1 + chance.happens(0.4) + chance.happens(0.2)):
                most = 10 * MINUTE_MS if chance.happens(0.15) else chance.one_of((20, 20, 500, 3_000))
                late = chance.within(0, most)
                world.people.spawn("the stream", late, self._deliver, record)

    def again(self, items: Any) -> None:
        for row in items.values():
            if is_swept_later(row):
                self._records.append({name: row[name] for name in ("pk", "sk")})
                self._world.people.spawn("the stream", 0, self._deliver, self._records[-1])

    def _deliver(self, record: Any) -> None:
        world, chance = self._world, self._world.chance
        batch = [record]
        if chance.happens(0.5):
            batch += [chance.one_of(self._records) for _ in range(chance.within(1, 5))]
            chance.random.shuffle(batch)
        while True:
            sent = released(*map(from_wire, batch))
            call = world.cloud.call("SweepMerchants", sent)
            if world.hub.wait(call.answer, MINUTE_MS) and isinstance(call.answer.value, dict):
                failed = {one["itemIdentifier"] for one in call.answer.value["batchItemFailures"]}
                named = (message["messageId"] for message in sent["Records"])
                batch = [one for one, name in zip(batch, named, strict=True) if name in failed]
                if not batch:
                    return
            world.hub.sleep(chance.within(500, 30_000))

    def _sweep_by_hand(self, merchant: str) -> None:
        world, done = self._world, list[Any]()
        while not done:
            command = world.hub.spawn(partial(self._command, merchant, done), "settle account sweep")
            world.hub.wait(command.ended, MINUTE_MS)
            world.hub.sleep(world.chance.within(1_000, MINUTE_MS))

    def _command(self, merchant: str, done: list[Any]) -> None:
        from settle.merchants.sweep import sweep  # noqa: PLC0415 (the room may be gone)

        try:
            done.append(sweep(self._world.people._stack, merchant))
            self._world.note("a person", f"has swept {merchant}", done)
        except (ClientError, BotoCoreError, SettlementError, CommandFailed) as failed:
            self._world.note("a person", "is told", failed)
