"""One seed's world, from its first request to the last settlement's end."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from settlement import items, rows
from settlement.store import Store
from settlement.terms import Terms
from tests.simulation.seeded.chance import Chance, Fault
from tests.simulation.seeded.cloud import Cloud
from tests.simulation.seeded.facts import (
    FINISHED,
    HIGHEST_BALANCE,
    POISON,
    demand,
    number,
    text,
)
from tests.simulation.seeded.hub import Hub, Signal
from tests.simulation.seeded.oracle import Oracle
from tests.simulation.seeded.people import MINUTE_MS, People
from tests.simulation.seeded.rules import Asking
from tests.simulation.seeded.services import DynamoDb, Services, StepFunctions
from tests.support.environment import NOW
from tests.support.memory_dynamodb import MemoryDynamoDb

TERMS = Terms.from_json(os.environ["TERMS"])
UNCLAIMED = "unclaimed"
CALM_MS_MAX = 3 * 3_600_000
"""Simulated time in which everything ends once faults are over: deadline, review, backoff, retries."""

ACCOUNTS = {"alice": 12_000, "bob": 5_000, "carol": 4_000, "dave": 0}
"""Who pays and is paid, and what they have at first, in minor units: too little for everything at once."""


@dataclass
class World:
    """All that there is in one seed."""

    chance: Chance
    is_told: bool = False
    """Whether a history is kept, to be read by a person."""

    history: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    possible: set[tuple[str, Sequence[Fault]]] = field(default_factory=set)
    """Which faults could have befallen the functions and states that one has befallen."""

    frozen: dict[str | None, list[Signal]] = field(default_factory=dict)
    """The processes that stand still, by the settlement that they are about."""

    def __post_init__(self) -> None:
        self.hub = Hub(self.chance.random)
        self.oracle = Oracle()
        self.table = MemoryDynamoDb(self._committed, self._behind)
        self.terms = TERMS
        self.dynamodb, self.step_functions, self.provider = (
            DynamoDb(self),
            StepFunctions(self),
            Services(self),
        )
        self.store = Store(self.dynamodb, "simulated", pause=lambda failed_tries: self.hub.sleep(50))
        self.cloud = Cloud(self)
        self.people = People(self)

    def open_accounts(self, accounts: dict[str, int], in_dollars: str = "") -> None:
        """Open each account with its deposit."""
        store = Store(self.table, "simulated")
        for name, available in accounts.items():
            currency = "USD" if name == in_dollars else "EUR"
            opened = items.open_account(name, currency, available)
            deposit = items.deposit_entry(f"deposit-{name}-0001", name, available, currency, NOW)
            store.transact([opened, deposit])

    def poison(self) -> None:
        """Put rows in front of recovery of which nobody can make anything, in each shard one."""
        for shard in range(rows.IN_FLIGHT_SHARDS):
            row = {**rows.settlement_key(f"{shard}-{POISON}"), "status": "NONSENSE"}
            row |= {"gsi1pk": rows.in_flight_partition(shard), "gsi1sk": "2000"}
            item = {name: {"S": text} for name, text in row.items()}
            self.table.put_item(TableName="simulated", Item=item)

    def run(self) -> None:
        """Let faults happen for a while, then let everything end, and look at the whole. Raises Violated."""
        try:
            self.hub.run(self.hub.now + self.chance.chaos(), lambda: self.is_over)
            self.chance.faults_end = True
            self.note("all", "faults are over")
            self.hub.run(self.hub.now + CALM_MS_MAX, lambda: self.is_over)
            self.oracle.at_the_end(self.table.items, self.people.paged)
            demand(self._rests(), "every case of LIMBO has an execution that waits for its decision")
        finally:
            self.hub.close()

    @property
    def is_over(self) -> bool:
        """Whether every settlement rests, and nobody is at work who could still change it."""
        return not self.people.at_work and self.cloud.is_idle and self._rests()

    def _rests(self) -> bool:
        """Whether each settlement is finished, or in LIMBO where somebody is paged and an execution waits."""
        for key, row in self.oracle.settlements.items():
            status = row["status"]["S"]
            if status == "LIMBO":
                case = (key, number(row, "resolutions") + 1)
                is_paged = case in self.people.paged and not self.people.slept_through[case]
                token = row["waiting"]["M"]["token"]["S"] if "waiting" in row else ""
                if not (is_paged and self.cloud.is_awaited(token)):
                    return False
            elif status not in FINISHED:
                return False
        return True

    def is_due(self) -> bool:
        """Whether recovery would find anything."""
        now = rows.timestamp(NOW + timedelta(milliseconds=self.hub.now))
        for row in self.oracle.settlements.values():
            status = row["status"]["S"]
            if status == "LIMBO" or (status not in FINISHED and row["gsi1sk"]["S"] <= now):
                return True
        return False

    def skew(self) -> int:
        """How far the clock of a function's host is ahead, in milliseconds."""
        if not self.chance.skew_max or self.chance.faults_end or self.chance.happens(0.9):
            return 0
        return self.chance.within(-self.chance.skew_max, self.chance.skew_max)

    def freeze(self) -> None:
        """Let the process that runs stand still, until something happens to its settlement, or for long."""
        key, thaw = self.cloud.about(self.hub.process), Signal()
        self.frozen.setdefault(key, []).append(thaw)
        self.hub.wait(thaw, self.chance.frozen())
        self.frozen[key].remove(thaw)

    def thaw(self, key: str) -> None:
        """Something has happened to a settlement: a process that stood still may go on, now of all times."""
        for signal in self.frozen.get(key, ()):
            if self.chance.happens(0.5):
                self.hub.spawn(lambda signal=signal: self.hub.set(signal), "a thaw", self.chance.latency())

    def fault(
        self, kinds: Sequence[Fault], service: str, call: str = "", state: str | None = None
    ) -> Fault | None:
        """What befalls a call of a service, if anything; `state` is the machine's that makes it."""
        fault = self.chance.fault(kinds, service, self.hub.now)
        if fault:
            process = self.hub.process
            where = state or process.name
            self.counted[f"{fault} in {where}"] += 1
            self.possible.add((where, kinds))
            if key := self.cloud.about(process):
                status = text(self.oracle.settlements.get(key), "status")
                self.counted[f"{fault} while {status or UNCLAIMED}"] += 1
            self.note(process.name, f"meets: {fault}, at {call or service}")
        return fault

    def count(self, metric: str, value: int) -> None:
        """A function has counted a metric."""
        self.counted[metric] += 1

    def note(self, who: str, what: str, about: Any = None) -> None:
        """Put down what happens, if anybody wants to read it."""
        if self.is_told and not self.hub.is_closed:
            at = timedelta(milliseconds=self.hub.now)
            self.history.append(
                f"{at!s:>14.14}  {who:<32} {what}{'' if about is None else f' {about}'[:400]}"
            )

    def _committed(self, changes: Any) -> None:
        if self.is_told:
            for old, new in changes:
                self.note("the table", "has", difference(old, new))
        process, function, at = self.hub.process, "", ""
        if process:
            function, at = (
                process.name,
                rows.timestamp(NOW + timedelta(milliseconds=self.hub.now + process.skew)),
            )
        self.oracle.committed(changes, Asking(function, self.cloud.payload_of(process), at))
        for _, row in changes:
            if row and row["sk"]["S"] == "SETTLEMENT" and not self.chance.faults_end:
                key = row["pk"]["S"].partition("#")[2]
                self.thaw(key)
                self.people.notice(key)

    def _behind(self) -> int:
        return self.chance.within(0, 6) if self.chance.happens(0.2) and not self.chance.faults_end else 0


W = TypeVar("W", bound=World)


def play(seed: int, kind: type[W] = World, *, is_told: bool = False) -> W:  # type: ignore[assignment]
    """Make a seed's world, with a few payments among few people; it has yet to run."""
    chance = Chance(seed)
    world = kind(chance, is_told)
    in_dollars = chance.one_of(("alice", "bob")) if chance.happens(0.05) else ""
    opening = {name: chance.one_of((most, most // 4, 0)) for name, most in ACCOUNTS.items()}
    if chance.happens(0.05):
        opening["bob"] = HIGHEST_BALANCE - 500
    world.open_accounts(opening, in_dollars)
    if chance.happens(0.05):
        world.poison()
    if chance.happens(0.3):
        world.people.spend_at_once(f"order-{seed % 1_000_000:06}-spent")
    for payment in range(chance.one_of((1, 1, 1, 2, 2, 3))):
        request = _request(chance, f"order-{seed % 1_000_000:06}-{payment:04}", 0.5 if in_dollars else 0.02)
        world.people.begin(request, 0)
        if chance.happens(0.4):  # the payee spends it, so that it cannot be reclaimed
            (other,) = {"alice", "bob", "carol"} - {request["payer"], request["payee"]}
            spent = {**request, "key": f"{request['key']}-on", "payer": request["payee"], "payee": other}
            world.people.begin(spent, chance.within(5_000, 5 * MINUTE_MS))
            if chance.happens(0.6):
                world.people.order_reversal(request["key"])
    for _ in range(chance.one_of((0, 0, 1, 3))):
        world.people.spawn("a stray call", chance.within(100, 30 * MINUTE_MS), world.people.call_again)
    world.hub.spawn(world.people.recover, "the schedule")
    return world


def _request(chance: Chance, key: str, dollars: float) -> dict[str, Any]:
    payer, payee = chance.random.sample(["alice", "bob", "carol"], 2)
    request = {
        "key": key,
        "payer": payer,
        "payee": payee,
        "currency": "USD" if chance.happens(dollars) else "EUR",
    }
    request["amount"] = chance.one_of(("1.00", "10.00", "30.00", "48.20"))
    if chance.happens(0.7):
        request["fee"] = chance.one_of(("0.00", "0.48"))
    if chance.happens(chance.hurry):
        request["deadline_seconds"] = chance.one_of((30, 30, 60, 600))
    return request


def difference(old: Any, new: Any) -> str:
    """What a commit has made of a row, as a person reads it."""
    row = new or old
    plain = {name: next(iter(value.values())) for name, value in row.items()}
    place = f"{plain['sk'] if ':' in plain['sk'] else plain['pk']}"
    before = {name: next(iter(value.values())) for name, value in (old or {}).items()}
    changes = [
        f"{name}={plain[name]}" + (f" (was {before[name]})" if name in before else "")
        for name in plain
        if name not in ("pk", "sk") and plain[name] != before.get(name)
    ]
    return f"{place}: {', '.join(changes + [f'no {name}' for name in before if name not in plain])}"
