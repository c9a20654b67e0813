"""Simulates a KYC provider's worst day, at a rate that one machine cannot play in real time.

It has the hours of `make worst-day`. `python -m tests.simulation.worst_day 20 600` prints how payments ended.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any
from unittest import mock

from benchmarks.worst_day.findings import Paid, Played
from benchmarks.worst_day.play import PAYERS
from benchmarks.worst_day.provider import DAY, Hours
from infra.config import STAGES
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.http.circuit import Thresholds
from tests.simulation.seeded import world as worlds
from tests.simulation.seeded.asking import EXCHANGE_MS
from tests.simulation.seeded.chance import Script
from tests.simulation.seeded.circuit_rules import CircuitRules
from tests.simulation.seeded.cloud import Cloud
from tests.simulation.seeded.lawful import prove, retention_at
from tests.simulation.seeded.people import People
from tests.simulation.seeded.stage import set_up
from tests.simulation.seeded.world import World
from tests.world.definitions import EXPRESS
from tests.world.environment import NOW
from tests.world.interpreter import TaskFailed

ANSWER_MS, LATENCY_MS_MAX, OVER_MS_MAX = 100, 20, 120_000
"""The provider's answer time, a service's maximum one-way latency, the last payments' time after the day."""

LIMITS_OF_CIRCUIT = Thresholds(failures=10, within_seconds=900, recovery_seconds=30)
"""A stage's default circuit limits."""

LIMITS: Mapping[str, int] = STAGES["prod"].concurrency.by_function

GARBAGE, PAYEE = "kyc-garbage", "payee"
CENTS_A_PAYMENT = 10


class Calm(Script):
    """Chance without faults beside the day's. Services still have latency, and retries have jitter."""

    def __init__(self) -> None:
        super().__init__({})

    def fault(self, kinds: Any, service: str, now: int) -> None:
        return None

    def latency(self) -> int:
        return self.within(1, LATENCY_MS_MAX)

    def within(self, low: int, high: int) -> int:
        return int(low + self.random.random() * (high - low))


class Reusing(Random):
    """Randomness that always reuses an idle environment, as Lambda does."""

    def random(self) -> float:
        return 0.0


class LimitedCloud(Cloud):
    """Functions with concurrency limits: Lambda refuses excess calls."""

    def __init__(self, world: World, limits: Mapping[str, int]) -> None:
        super().__init__(world)
        self._limits = limits
        self.throttled: Counter[str] = Counter()

    def _invoke(self, function: str, payload: Any) -> Any:
        running = sum(call.function == function for call in self._running.values())
        if running >= self._limits.get(function, running + 1):
            self.throttled[function] += 1
            raise TaskFailed("Lambda.TooManyRequestsException")
        return super()._invoke(function, payload)


class Provider(People):
    """The day's KYC provider. The hour decides how long an exchange takes, and how it ends."""

    _world: "WorstDay"

    def __init__(self, world: "WorstDay") -> None:
        super().__init__(world)
        self.calls: list[tuple[float, str]] = []
        self._known: set[tuple[int, str]] = set()

    def exchange(self, settlement: Settlement, api_key: str) -> Verdict:
        """Return the verdict on a payment.

        An environment's first try takes half the client's timeout longer, for a slow lookup.
        """
        world, hours = self._world, self._world.hours
        way = (id(world.circuit._environment), hours.name)
        if way not in self._known and (hours.lookup_seconds or hours.silent):
            world.hub.sleep(EXCHANGE_MS // 2)
            self._known.add(way)
        self.calls.append((world.hub.now / 1000, settlement.key))
        if hours.name == "dead":
            world.hub.sleep(EXCHANGE_MS)
            raise KycUnavailable("kyc: no answer in time")
        world.hub.sleep(ANSWER_MS)
        if hours.garbage and settlement.payer == GARBAGE:
            raise KycUnavailable("kyc: the answer is no JSON")
        return Verdict(
            decision=KycDecision.APPROVED, reference=f"ver_{settlement.key}", reason="", provider="p"
        )

    def is_healthy(self) -> bool:
        return self._world.hours.name != "dead"


class WorstDay(World):
    def __init__(self, rate: float, seconds: int, limits: Mapping[str, int]) -> None:
        self.rate, self.seconds = rate, seconds
        super().__init__(Calm())
        ends, self.began_at = 0.0, dict[str, float]()
        for hours in DAY:
            self.began_at[hours.name] = ends
            ends += hours.share * seconds
        self.limited = self.cloud = LimitedCloud(self, limits)
        self.provider_ = self.people = Provider(self)
        self.circuit.random = Reusing()
        self.circuit.limits, self.circuit.is_troubled = LIMITS_OF_CIRCUIT, True
        self.circuit.rules = CircuitRules(self, LIMITS_OF_CIRCUIT, clocks_agree=True)
        self.states: list[tuple[float, str]] = []
        self.sent: dict[str, tuple[float, Hours, bool]] = {}

    @property
    def hours(self) -> Hours:
        """Return the provider's behaviour at this time of the simulated day; after it, the last one stays."""
        begun = [hours for hours in DAY if self.began_at[hours.name] * 1000 <= self.hub.now]
        return begun[-1]

    def play(self) -> Played:
        payers = [f"payer{number}" for number in range(PAYERS)]
        payments = int(self.rate * self.seconds)
        self.open_accounts(dict.fromkeys([*payers, GARBAGE], payments * CENTS_A_PAYMENT) | {PAYEE: 0})
        for number in range(payments):
            self._send(number, payers)
        self.hub.spawn(self.people.recover, "the schedule")
        self.hub.spawn(self.circuit._check_health, "the schedule of the health")
        with mock.patch.object(worlds, "EVERY", 1 << 60):  # the table is proven once, at the end
            try:
                self.hub.run(self.seconds * 1000 + OVER_MS_MAX, lambda: False)
                self.oracle.at_the_end(self.table.items, self.people.alerted)
                prove(self.table.items, retention_at(self.config, self.hub.now))
                self.circuit.rules.at_the_end()
            finally:
                self.hub.close()
        return self._played()

    def _send(self, number: int, payers: list[str]) -> None:
        at, key = number / self.rate, f"worst-day-{number:06}"
        hours = [hours for hours in DAY if self.began_at[hours.name] <= at][-1]
        is_good = not hours.garbage or number % round(1 / hours.garbage) > 0
        payer = payers[number % PAYERS] if is_good else GARBAGE
        request = {"key": key, "payer": payer, "payee": PAYEE, "amount": "0.10", "currency": "EUR"}
        self.sent[key] = (at, hours, is_good)
        self.people.spawn("upstream", int(at * 1000), self.people._start, EXPRESS, key, request)

    def count(self, metric: str, value: int) -> None:
        super().count(metric, value)
        state = {"KycCircuit": "OPEN" if value else "CLOSED"}.get(metric)
        if state and (not self.states or self.states[-1][1] != state):
            self.states.append((self.hub.now / 1000, state))

    def _played(self) -> Played:
        rows = self.oracle.settlements
        return Played(
            rate=self.rate,
            seconds=self.seconds,
            began_at=self.began_at,
            payments=[_paid(*sent, rows.get(key, {})) for key, sent in self.sent.items()],
            calls=self.provider_.calls,
            circuit=self.states,
            throttled=self.limited.throttled,
            environments=len(self.circuit._environments),
            failures_to_open=LIMITS_OF_CIRCUIT.failures,
            is_conserved=True,
        )


def _paid(at: float, hours: Hours, is_good: bool, row: Any) -> Paid:
    finished_at = row.get("finished_at", {}).get("S")
    seconds = None
    if finished_at:
        seconds = (datetime.fromisoformat(finished_at) - NOW).total_seconds() - at
    return Paid(
        sent_at=at,
        hours=hours.name,
        is_good=is_good,
        status=row.get("status", {}).get("S", "never claimed"),
        error=row.get("failure", {}).get("M", {}).get("error", {}).get("S", ""),
        seconds=seconds,
    )


def played(rate: float, seconds: int, limits: Mapping[str, int] = LIMITS) -> Played:
    with set_up() as current:
        current.world = day = WorstDay(rate, seconds, limits)
        return day.play()


if __name__ == "__main__":
    limits = {"VerifyKyc": int(sys.argv[3])} if sys.argv[3:] else LIMITS
    result = played(float(sys.argv[1]), int(sys.argv[2]), limits)
    print(result.table())
    print(f"asked while dead: {result.asked_while_dead}, at most {result.asked_max}; {result.throttled}")
    print(result.circuit, *result.faults(), sep="\n")
