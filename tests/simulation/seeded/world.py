"""Simulates one seed's world, from its first request until all settlements rest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

from settlement.core.ledger import keys
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from tests.simulation.seeded import persons, stranger
from tests.simulation.seeded.acceptor import Acceptor, plan_posts
from tests.simulation.seeded.bank import Bank, administers, pays_in_an_asset
from tests.simulation.seeded.canceller import Canceller, plan_cancels
from tests.simulation.seeded.chance import Chance, Fault
from tests.simulation.seeded.checks import Checks
from tests.simulation.seeded.circuit import PAYERS, Circuits, is_troubled
from tests.simulation.seeded.circuit_rules import ROW as CIRCUIT_ROW
from tests.simulation.seeded.cloud import UNHEARD_OF, Cloud
from tests.simulation.seeded.deployments import (
    Deployments,
    begin_to_expire,
    begin_to_need_persons,
    fees_change,
    retains,
)
from tests.simulation.seeded.facts import (
    FINISHED,
    HIGHEST_BALANCE,
    POISON,
    demand,
    number,
    text,
)
from tests.simulation.seeded.hub import Hub, Signal
from tests.simulation.seeded.journal import Journal
from tests.simulation.seeded.lawful import EVERY, prove, retention_at
from tests.simulation.seeded.migrator import Migrator
from tests.simulation.seeded.oracle import Oracle
from tests.simulation.seeded.pager import Pager
from tests.simulation.seeded.people import MINUTE_MS, People
from tests.simulation.seeded.proof import Proof
from tests.simulation.seeded.reader import Reader
from tests.simulation.seeded.relay import Relay
from tests.simulation.seeded.returns import plan_returns
from tests.simulation.seeded.rules import Asking
from tests.simulation.seeded.services import DynamoDb, Lambda, Services, StepFunctions
from tests.simulation.seeded.stranger import Stranger
from tests.simulation.seeded.stream import Stream
from tests.simulation.seeded.unreadable import Unreadable
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.ledger import adds
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.openings import opening
from tests.world.rooms import is_there

UNCLAIMED = "unclaimed"
CALM_MS_MAX = 3 * 3_600_000
"""Time in which all deadlines, reviews, backoffs and retries end if no faults occur."""

ACCOUNTS = {"alice": 12_000, "bob": 5_000, "carol": 4_000, "dave": 0}
"""Opening balances in minor units, too small for all payments at once."""


SHOP = "merchant.shop"
MERCHANTS_EVERY = 4

FEES_CHANGE_EVERY = 6

NEWCOMERS_EVERY = 7
"""One world in this many pays an account opened late, in another currency, or never."""

JOURNAL_EVERY = 5

UNHEARD_OF_EVERY = 3
"""In one world of this many, functions die with unusual errors."""

PROVEN_EVERY = 9
"""One world in this many runs the scheduled proof during writes."""


@dataclass
class World:
    chance: Chance
    is_told: bool = False
    """Whether to record a readable history."""

    history: list[str] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    possible: set[tuple[str, Sequence[Fault]]] = field(default_factory=set)
    """Functions and states that met a fault, each with its possible faults."""

    frozen: dict[str | None, list[Signal]] = field(default_factory=dict)
    remembered: dict[tuple[str, str], int] = field(default_factory=dict)
    """Payees that HoldFunds remembers, by account and currency."""

    journal: Journal | None = None

    def __post_init__(self) -> None:
        self.hub = Hub(self.chance.random)
        self.chance.random.place = self.hub.place
        self.oracle, self.relay, self.reader = Oracle(), Relay(0), Reader(0)
        self.unreadable = Unreadable(0)
        self.table = MemoryDynamoDb(self._committed, self._behind)
        self.deployments, self.currency = Deployments(), "EUR"
        self.dynamodb, self.step_functions, self.provider = (
            DynamoDb(self),
            StepFunctions(self),
            Services(self),
        )
        self.functions = Lambda(self)
        self.store = Store(
            self.dynamodb, "simulated", pause=lambda failed_tries: self.hub.sleep(50), adds=adds()
        )
        self.cloud = Cloud(self)
        self.people, self.stream, self.bank = People(self), Stream(self), Bank(self)
        self.proof, self.circuit, self.pager = Proof(self), Circuits(self), Pager(self)
        self.stranger, self.canceller = Stranger(self, is_there=False), Canceller(self, 0)
        self.acceptor, self.migrator = Acceptor(self, 0), Migrator(self, 0)
        self.checks = Checks(self)

    def open_accounts(self, accounts: dict[str, int], in_dollars: str = "") -> None:
        """Open accounts with deposits; the two orders of an account share a commit."""
        store = Store(self.table, "simulated", adds=adds())
        for name, available in accounts.items():
            currency = "USD" if name == in_dollars else self.currency
            store.transact(opening(name, available, currency, NOW))

    @property
    def config(self) -> StageConfig:
        return self.deployments.config

    def poison(self) -> None:
        """Put an unreadable row at the head of each index shard."""
        for shard in range(keys.IN_FLIGHT_SHARDS):
            row = {**keys.settlement(f"{shard}-{POISON}"), "status": "NONSENSE"}
            row |= {"gsi1pk": keys.in_flight_partition(shard), "gsi1sk": "2000"}
            item = {name: {"S": text} for name, text in row.items()}
            self.table.put_item(TableName="simulated", Item=item)

    def run(self) -> None:
        """Run with faults, then without, until all ends."""
        try:
            self.hub.run(self.hub.now + self.chance.chaos(), lambda: self.is_over)
            self.chance.faults_end = True
            self.note("all", "faults are over")
            self.hub.run(self.hub.now + CALM_MS_MAX, lambda: self.is_over)
            self.oracle.at_the_end(self.table.items, self.people.alerted)
            prove(self.table.items, retention_at(self.config, self.hub.now))
            self.relay.play(self.table, self.oracle.moved)
            self.unreadable.play(self.table)
            self.reader.play()
            self.proof.at_the_end()
            self.circuit.rules.at_the_end()
            self.pager.at_the_end()
            self.canceller.at_the_end()
            self.migrator.at_the_end()
            demand(self._rests(), "every case of LIMBO has an execution that waits for its decision")
        finally:
            self.hub.close()

    @property
    def is_over(self) -> bool:
        """Whether every settlement rests, and no process can change one."""
        return not self.people.at_work and self.cloud.is_idle and self._rests()

    def _rests(self) -> bool:
        for key, row in self.oracle.settlements.items():
            status = row["status"]["S"]
            if status == "LIMBO":
                case = (key, number(row, "resolutions") + 1)
                is_alerted = case in self.people.alerted and not self.people.to_miss[case]
                waiting = self.table.items.get((f"WAITING#{key}", "WAITING"))
                token = text(waiting, "token") if number(waiting, "case") == case[1] else ""
                if not (is_alerted and self.cloud.is_awaited(token or "")):
                    return False
            elif status not in FINISHED:
                return False
        return True

    def is_due(self) -> bool:
        now = timestamp(NOW + timedelta(milliseconds=self.hub.now))
        for row in self.oracle.settlements.values():
            status = row["status"]["S"]
            if status == "LIMBO" or (status not in FINISHED and row["gsi1sk"]["S"] <= now):
                return True
        return False

    def skew(self) -> int:
        """Return a host's clock lead in milliseconds."""
        if not self.chance.skew_max or self.chance.faults_end or self.chance.happens(0.9):
            return 0
        return self.chance.within(-self.chance.skew_max, self.chance.skew_max)

    def freeze(self) -> None:
        """Freeze the running process until its settlement changes, or for up to 25 minutes."""
        key, thaw = self.cloud.about(self.hub.process), Signal()
        self.frozen.setdefault(key, []).append(thaw)
        self.hub.wait(thaw, self.chance.frozen())
        self.frozen[key].remove(thaw)

    def thaw(self, key: str) -> None:
        for signal in self.frozen.get(key, ()):
            if self.chance.happens(0.5):
                self.hub.spawn(partial(self.hub.set, signal), "a thaw", self.chance.latency())

    def fault(
        self, kinds: Sequence[Fault], service: str, call: str = "", state: str | None = None
    ) -> Fault | None:
        """Return a service call's fault, if any. `state` is the machine's state that makes the call."""
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
        self.counted[metric] += 1

    def note(self, who: str, what: str, about: Any = None) -> None:
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
        since, now = self.cloud.begun(process), self.hub.now
        stages = self.deployments.in_force(since)
        if process:
            function, at = (
                process.name,
                timestamp(NOW + timedelta(milliseconds=self.hub.now + process.skew)),
            )
        asked = self.cloud.payload_of(process)
        for _, row in changes:
            if row and row.get("step", {"S": ""})["S"].startswith("check:"):
                self.checks.recorded(row)
        self.oracle.committed(changes, Asking(function, asked, at, stages, since, now))
        if self.oracle.commits % EVERY == 0:
            prove(self.table.items, retention_at(self.config, self.hub.now))
        self._pass_on(changes)

    def _pass_on(self, changes: Any) -> None:
        self.canceller.committed(changes)
        self.acceptor.committed(changes)
        self.stream.committed(changes)
        self.relay.committed(changes, self.config)
        self.reader.committed(changes, self.config)
        if self.journal:
            self.journal.committed(changes, self.hub.now)
        for old, row in changes:
            if row and row["sk"]["S"] == "SETTLEMENT":
                self.checks.committed(old, row)
            if row and (row["pk"]["S"], row["sk"]["S"]) == CIRCUIT_ROW:
                self.circuit.committed(old, row)
            if row and row["sk"]["S"] == "BALANCE":
                self.bank.notice(row["pk"]["S"].partition("#")[2], row)
                self.dynamodb.changed(row, old)
            self._interfere(row)

    def _interfere(self, row: Item | None) -> None:
        if row and row["sk"]["S"] == "SETTLEMENT" and not self.chance.faults_end:
            key = row["pk"]["S"].partition("#")[2]
            self.thaw(key)
            self.people.notice(key)

    def _behind(self) -> int:
        return self.chance.within(0, 6) if self.chance.happens(0.2) and not self.chance.faults_end else 0


W = TypeVar("W", bound=World)


def play(seed: int, kind: type[W] = World, *, is_told: bool = False) -> W:  # type: ignore[assignment]
    chance = Chance(seed)
    world = kind(chance, is_told)
    world.stranger = Stranger(world, is_there=seed % stranger.EVERY == stranger.EVERY - 1)
    if seed % UNHEARD_OF_EVERY == UNHEARD_OF_EVERY - 1:
        world.cloud.killed = UNHEARD_OF
    world.checks = Checks(world, seed)
    world.relay, world.reader, world.unreadable = Relay(seed), Reader(seed), Unreadable(seed)
    world.journal = Journal(seed) if seed % JOURNAL_EVERY == JOURNAL_EVERY - 1 else None
    if retains(seed):
        begin_to_expire(world)
    begin_to_need_persons(world, persons.approvals(seed))
    in_dollars = chance.one_of(("alice", "bob")) if chance.happens(0.05) else ""
    opening = {name: chance.one_of((most, most // 4, 0)) for name, most in ACCOUNTS.items()}
    if pays_in_an_asset(seed):
        world.currency = "CO2"  # with three decimals
        opening = {name: available * 10 for name, available in opening.items()}
    if seed % FEES_CHANGE_EVERY == FEES_CHANGE_EVERY - 1:
        fees_change(world, Random(f"fees {seed}"))
    if chance.happens(0.05):
        opening["bob"] = HIGHEST_BALANCE - 500
    opening |= PAYERS if is_troubled(seed) else {}
    has_shop = seed % MERCHANTS_EVERY == MERCHANTS_EVERY - 1 and is_there("merchants")
    shop = _open_shop(world, opening) if has_shop else None
    world.open_accounts(opening, in_dollars)
    if chance.happens(0.05):
        world.poison()
    if chance.happens(0.3):
        world.people.spend_at_once(f"order-{seed % 1_000_000:06}-spent")
    _pay(world, seed, shop, 0.5 if in_dollars else 0.02)
    if shop:
        _pay_often(world, shop, f"order-{seed % 1_000_000:06}-shop")
    world.circuit.trouble(seed)
    world.pager.begin(seed)
    if administers(seed):
        world.bank.busy(sorted(opening), f"order-{seed % 1_000_000:06}-0000")
    if seed % NEWCOMERS_EVERY == NEWCOMERS_EVERY - 1:
        world.bank.welcome(f"order-{seed % 1_000_000:06}-new", Random(f"newcomer {seed}"))
    plan_returns(world, seed)
    plan_cancels(world, seed)
    plan_posts(world, seed)
    world.migrator = Migrator(world, seed)
    world.migrator.begin()
    for _ in range(chance.one_of((0, 0, 1, 3))):
        world.people.spawn("a stray call", chance.within(100, 30 * MINUTE_MS), world.people.call_again)
    world.hub.spawn(world.people.recover, "the schedule")
    if seed % PROVEN_EVERY == PROVEN_EVERY - 1:
        world.proof.begin()
    return world


def _pay(world: W, seed: int, shop: str | None, in_dollars: float) -> None:
    chance = world.chance
    for payment in range(chance.one_of((1, 1, 1, 2, 2, 3))):
        key = f"order-{seed % 1_000_000:06}-{payment:04}"
        request = labelled_request(chance, key, world.currency, in_dollars)
        if shop and chance.happens(0.8):
            request["payee"] = shop
        world.people.begin(request, 0)
        if chance.happens(0.4):  # the payee spends the amount, so it cannot be reclaimed
            other = min({"alice", "bob", "carol"} - {request["payer"], request["payee"]})
            spent = {**request, "key": f"{request['key']}-on", "payer": request["payee"], "payee": other}
            world.people.begin(spent, chance.within(5_000, 5 * MINUTE_MS))
            if chance.happens(0.6):
                world.people.order_reversal(request["key"])


def _open_shop(world: W, opening: dict[str, int]) -> str:
    opening |= {SHOP: world.chance.one_of((0, 0, 2_000)), "dora": 6_000}
    world.table.page_rows = world.chance.one_of((1, 2, 1_000))
    return SHOP


def _pay_often(world: W, shop: str, key: str) -> None:
    chance = world.chance
    within = chance.one_of((200, 2_000, 10_000, MINUTE_MS))
    for payment in range(chance.one_of((2, 4, 7))):
        request = {"key": f"{key}-{payment}", "payee": shop, "currency": world.currency, "fee": "0.00"}
        request |= {
            "payer": chance.one_of(("dora", "dora", "bob")),
            "amount": chance.one_of(("1.00", "7.00")),
        }
        world.people.begin(request, chance.within(0, within))
    if chance.happens(0.5):
        spent = {"key": f"{key}-on", "payer": shop, "payee": "carol", "amount": "8.00"}
        spent["currency"] = world.currency
        world.people.begin(spent, chance.within(5_000, MINUTE_MS))


def labels(key: str) -> dict[str, Any]:
    random = Random(f"labels {key}")
    found: dict[str, Any] = {}
    if random.random() < 0.3:
        found["reference"] = random.choice(("invoice 1", "invoice 2", "Zoë's"))
    if random.random() < 0.15:
        found["metadata"] = {"cart": random.choice(("c-1", "c-2")), "shop": "web"}
    return found


def labelled_request(
    chance: Chance, key: str, currency: str = "EUR", dollars: float = 0.02
) -> dict[str, Any]:
    """Return a payment between two people, perhaps labelled."""
    payer, payee = chance.random.sample(["alice", "bob", "carol"], 2)
    request: dict[str, Any] = {
        "key": key,
        "payer": payer,
        "payee": payee,
        "currency": "USD" if chance.happens(dollars) else currency,
    }
    request["amount"] = chance.one_of(("1.00", "10.00", "30.00", "48.20"))
    if chance.happens(0.7):
        request["fee"] = chance.one_of(("0.00", "0.48"))
    if chance.happens(chance.hurry):
        request["deadline_seconds"] = chance.one_of((30, 30, 60, 600))
    return request | labels(key)


def difference(old: Any, new: Any) -> str:
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
