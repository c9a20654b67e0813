"""Simulates the path of a page: the bus calls SendPage, which publishes to a person's topic."""

import json
import os
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.chance import STARTS, Streams
from tests.simulation.seeded.facts import demand
from tests.simulation.seeded.services import Services

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY = 6
"""One world in this many uses SendPage; in others the bus reaches people directly."""

PAUSES_MS = (0, 60_000, 120_000)
"""Pauses before Lambda's tries of SendPage for one event, which goes to the queue after the last."""

WAIT_MS = 9_000
PAGE_TOPIC = os.environ["PAGE_TOPIC"]

Alert = tuple[str, int, int]
"""Settlement key, case and alert number."""


class Pager(Services):
    service = "sns"

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._random: Random | None = None
        self._ended: set[Alert] = set()
        self._published: set[Alert] = set()
        self._given_up: set[Alert] = set()

    def begin(self, seed: int) -> None:
        if seed % EVERY == EVERY - 2:
            self._random = Streams(f"pager {seed}", self._world.hub.place)

    def deliver(self, event: Any) -> None:
        if self._random is None:
            self._world.people.hear(event)
            return
        detail = event["Detail"]
        detail = json.loads(detail) if isinstance(detail, str) else detail
        delivered = {"source": event["Source"], "detail-type": event["DetailType"], "detail": detail}
        for _ in range(1 + (self._random.random() < 0.1)):
            later = self._random.choice((10, 2_000, 60_000))
            self._world.hub.spawn(partial(self._send, delivered), "the bus", self._random.randrange(later))

    def publish(self, **message: str) -> Any:
        return self.send("publish", STARTS, lambda: self._take(message))

    def at_the_end(self) -> None:
        """Check that each completed alert has paged, or is in the queue with an alarm."""
        lost = self._ended - self._published - self._given_up
        demand(not lost, "each alert pages a person, or is given up with an alarm", *sorted(map(str, lost)))

    def _send(self, event: dict[str, Any]) -> None:
        world, alerts = self._world, {*_alerts(event["detail"])}
        for pause in PAUSES_MS:
            world.hub.sleep(pause)
            call = world.cloud.call("SendPage", event)
            if world.hub.wait(call.answer, WAIT_MS) and not isinstance(call.answer.value, Exception):
                break
        else:
            self._given_up |= alerts
        self._ended |= alerts

    def _take(self, message: dict[str, str]) -> dict[str, str]:
        detail = json.loads(message["Message"].rpartition("\n")[2])
        if message["TopicArn"] == PAGE_TOPIC:
            self._published |= {*_alerts(detail)}
            self._world.people.hear({"DetailType": "LimboEntered", "Detail": detail})
        return {"MessageId": "1"}


def _alerts(detail: dict[str, Any]) -> list[Alert]:
    return [(detail["key"], detail["case"], detail["alert"])] if "alert" in detail else []
