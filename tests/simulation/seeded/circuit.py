"""Simulates VerifyKyc's environments, each with a real circuit; all share the circuit's row."""

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from handlers.kyc import _provider as _kyc
from handlers.kyc.verify_kyc import HEALTH
from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import Lease, NotAdmitted, SharedCircuit
from settlement.kyc import circuit as kyc_circuit
from tests.simulation.seeded.asking import EXCHANGE_MS
from tests.simulation.seeded.chance import STARTS, Streams
from tests.simulation.seeded.circuit_rules import CircuitRules, Knowledge
from tests.simulation.seeded.services import Services
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.memory_dynamodb import ConditionalCheckFailed, MemoryDynamoDb

if TYPE_CHECKING:
    from tests.simulation.seeded.hub import Process
    from tests.simulation.seeded.world import World

TROUBLE_EVERY = 8
"""One world in this many has a troubled provider and faulty circuit calls.

In other worlds, circuit calls take no time.
"""

PAYERS = {"dora": 60_000, "erin": 60_000}
"""Accounts and deposits for a troubled world's payments."""

POISONED = "erin"
MINUTE_MS = 60_000
_BEGUN = int(NOW.timestamp())


def is_troubled(seed: int) -> bool:
    return seed % TROUBLE_EVERY == TROUBLE_EVERY - 3


class Client:
    """A client that records the environment's knowledge of the circuit's row."""

    exceptions = MemoryDynamoDb.exceptions

    def __init__(self, client: Any, knowledge: Knowledge) -> None:
        self._client, self._knowledge = client, knowledge

    def get_item(self, **parameters: Any) -> Any:
        return self._call("get_item", parameters)

    def put_item(self, **parameters: Any) -> Any:
        return self._call("put_item", parameters)

    def _call(self, name: str, parameters: dict[str, Any]) -> Any:
        known = self._knowledge
        known.called(name)
        try:
            answer = getattr(self._client, name)(**parameters)
        except ConditionalCheckFailed as refused:
            known.learned(refused.response.get("Item"))
            raise
        known.learned(answer.get("Item") if name == "get_item" else parameters["Item"])
        return answer


class AtOnce:
    """The table without faults and latency, whose calls do not count as a late call's early calls."""

    def __init__(self, world: "World") -> None:
        self.get_item = partial(MemoryDynamoDb.get_item, world.table)
        self.put_item = partial(MemoryDynamoDb.put_item, world.table)


class Events(Services):
    service = "events"

    def put_events(self, *, Entries: list[dict[str, Any]], **_: Any) -> dict[str, int]:  # noqa: N803
        for entry in Entries:
            if entry["DetailType"] == "GlassBroken":
                page = partial(self._page, json.loads(entry["Detail"]))
                told: dict[str, int] = self.send("put_events", STARTS, page)
                return told
        if not self._world.circuit.is_troubled:
            return {"FailedEntryCount": 0}
        answer: dict[str, int] = self.send("put_events", STARTS, lambda: {"FailedEntryCount": 0})
        return answer

    def _page(self, detail: dict[str, Any]) -> dict[str, int]:
        self._world.oracle.together.page(detail)
        return {"FailedEntryCount": 0}


class Environment:
    def __init__(self, circuits: "Circuits", process: "Process") -> None:
        self.process, self.knowledge = process, Knowledge()
        client = Client(circuits.client, self.knowledge)
        self.circuit = SharedCircuit(
            kyc_circuit.CIRCUIT, client, "simulated", circuits.limits, _kyc._changed, circuits.clock
        )


class Circuits:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.limits = Thresholds(failures=2, within_seconds=900, recovery_seconds=30)
        self.rules = CircuitRules(world, self.limits)
        self.random, self.events = Random(0), Events(world)
        self._probing: Random | None = None
        self.is_troubled = self._lies = self._tells_health = False
        self._poisoned, self._dead = "", range(0)
        self._environments: list[Environment] = []
        self.ask = kyc_circuit.guarded(world.people.ask, self, _kyc._measure)  # type: ignore[arg-type]

    @property
    def client(self) -> Any:
        return self._world.dynamodb if self.is_troubled else AtOnce(self._world)

    def clock(self) -> int:
        """Return the host's time in seconds."""
        hub = self._world.hub
        milliseconds: int = hub.now + hub.process.skew
        return _BEGUN + milliseconds // 1000

    # The provider.

    def trouble(self, seed: int) -> None:
        if not is_troubled(seed):
            return
        world, random = self._world, Streams(f"circuit {seed}", self._world.hub.place)
        self.random, self.is_troubled = random, True
        self.limits = Thresholds(
            failures=random.choice((2, 3, 5)),
            within_seconds=random.choice((60, 900)),
            recovery_seconds=random.choice((10, 30)),
        )
        self.rules = CircuitRules(world, self.limits, clocks_agree=not world.chance.skew_max)
        trouble = random.choice(("dead", "dead", "poisoned", "dead and poisoned", "none"))
        if "dead" in trouble:
            begins = random.choice((0, 0, random.randrange(3 * MINUTE_MS)))
            self._dead = range(begins, begins + random.randrange(20_000, 12 * MINUTE_MS))
        self._poisoned = POISONED if "poisoned" in trouble else ""
        self._lies = random.random() < 0.2
        within = random.choice((1_000, MINUTE_MS, 6 * MINUTE_MS))
        for payment in range(random.choice((4, 8, 12))):
            request = {"key": f"order-{seed % 1_000_000:06}-kyc-{payment}", "currency": world.currency}
            request |= {"payer": random.choice(tuple(PAYERS)), "payee": random.choice(("alice", "bob"))}
            world.people.begin({**request, "amount": "1.00", "fee": "0.00"}, random.randrange(within))
        if random.random() < 0.5:
            self.rules.has_schedule = True
            world.hub.spawn(self._check_health, "the schedule of the health")
        probing = Random(f"probe {seed}")
        if probing.random() < 0.5:
            self._tells_health = self.rules.has_schedule or probing.random() < 0.5
            self._probing = probing

    def is_in_trouble(self, payer: str, since: int) -> bool:
        """Return whether the provider gives this payer no answer, perhaps after a delay."""
        if not self._is_dead and payer != self._poisoned:
            return False
        hub = self._world.hub
        left = since + EXCHANGE_MS - hub.now
        if left < 0:
            hub.kill(hub.process)  # it was frozen, so Lambda has ended it by now
        if self.random.random() < 0.3:
            hub.sleep(left)
        return True

    def is_healthy(self) -> bool:
        return self._lies or not self._is_dead

    @property
    def _is_dead(self) -> bool:
        return self._world.hub.now in self._dead and not self._world.chance.faults_end

    def _check_health(self) -> None:
        """Make the scheduled health check while the circuit is not closed, and rarely otherwise."""
        world = self._world
        while True:
            world.hub.sleep(MINUTE_MS - world.hub.now % MINUTE_MS)
            if not self.rules.is_closed or self.random.random() < 0.05:
                world.cloud.call("VerifyKyc", HEALTH)

    def _ask_for_probes(self) -> None:
        if self._probing and self._probing.random() < 0.3:
            within = self._probing.choice((4_000, MINUTE_MS))
            self._world.hub.spawn(
                self._world.people.probe, "a person who probes", self._probing.randrange(within)
            )

    def health_check(self) -> Callable[[], bool] | None:
        return self._world.people.is_healthy if self._tells_health else None

    # The running environment's circuit.

    def admit(self, payment: str) -> Lease:
        known = self._environment.knowledge
        with self.rules.during("admit", known):
            try:
                lease = self._environment.circuit.admit(payment)
            except NotAdmitted:
                self.rules.refused(known)
                raise
            self.rules.admitted(known, lease.probe)
        return lease

    def make_due(self) -> None:
        known = self._environment.knowledge
        with self.rules.during("make due", known):
            self._environment.circuit.make_due()
            self.rules.made_due()

    @property
    def state(self) -> State:
        return self._environment.circuit.state

    def failed(self, lease: Lease) -> None:
        known = self._environment.knowledge
        with self.rules.during("failed", known):
            self._environment.circuit.failed(lease)
            self.rules.failed(known, lease.probe)

    def answered(self, lease: Lease) -> None:
        known = self._environment.knowledge
        with self.rules.during("answered", known):
            self._environment.circuit.answered(lease)
            self.rules.answered(known, lease.probe)

    def died(self) -> None:
        process = self._world.hub.process
        self._environments = [one for one in self._environments if one.process is not process]

    def committed(self, old: Item | None, new: Item) -> None:
        self.rules.committed(old, new)
        self._ask_for_probes()

    @property
    def _environment(self) -> Environment:
        process = self._world.hub.process
        idle = []
        for one in self._environments:
            if one.process is process:
                return one
            if one.process.is_over:
                idle.append(one)
        if idle and self.random.random() < 0.9:
            found = self.random.choice(idle)
            found.process = process
            return found
        self._environments.append(Environment(self, process))
        return self._environments[-1]
