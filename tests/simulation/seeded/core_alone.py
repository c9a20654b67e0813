"""Simulates the core without rooms: no orders, reviews, webhook, queue, sweeps, events or pages.

The provider fills the verify step. No payment enters LIMBO here; `tests/core` covers it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from handlers import rooms
from handlers.core import _verification
from settlement.core.model.errors import KycRequestRefused
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.core.telemetry import observed
from tests.simulation.seeded.chance import Chance
from tests.simulation.seeded.cloud import Call
from tests.simulation.seeded.facts import demand, is_merchant
from tests.simulation.seeded.lawful import prove, retention_at
from tests.simulation.seeded.moments import Recorded
from tests.simulation.seeded.payees import Payees
from tests.simulation.seeded.people import MINUTE_MS, People
from tests.simulation.seeded.rules import REVIEW_SECONDS, Asking
from tests.simulation.seeded.stage import Current, plain
from tests.simulation.seeded.world import ACCOUNTS, CALM_MS_MAX, SHOP, World, labelled_request
from tests.world.definitions import EXPRESS
from tests.world.expressions import Item
from tests.world.functions import FILES, HANDLERS
from tests.world.memory_dynamodb import Changes

SHOP_EVERY = 3
"""One world in this many also pays a merchant, for whom no money is held, as no sweep exists."""


class CorePeople(People):
    def _send(self, request: dict[str, Any]) -> None:
        self._start(EXPRESS, f"{request['key']}-instead-of-a-message", request)

    def _reverse(self, key: str) -> None:
        pass

    def _resolve(self, key: str, case: int) -> None:
        pass

    def _tell(self, key: str, reference: str, decision: str, event: str) -> None:
        """Do nothing: without a webhook, a review ends at its deadline."""


class CorePayees(Payees):
    def _can_receive(self, row: Item, asking: Asking) -> None:
        demand(not is_merchant(row["payee"]["S"]), "without sweeps, no money is held for a merchant")
        super()._can_receive(row, asking)

    def refused(self, call: Call, error: str, told: str) -> None:
        if not is_merchant(call.payload["settlement"]["payee"] if call.function == "HoldFunds" else ""):
            super().refused(call, error, told)


class CoreWorld(Recorded):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.people, self.oracle.payees = CorePeople(self), CorePayees()

    def run(self) -> None:
        try:
            self.hub.run(self.hub.now + self.chance.chaos(), lambda: self.is_over)
            self.chance.faults_end = True
            self.hub.run(self.hub.now + CALM_MS_MAX, lambda: self.is_over)
            self.oracle.at_the_end(self.table.items, self.people.alerted)
            prove(self.table.items, retention_at(self.config, self.hub.now))
            demand(self._rests(), "every case of LIMBO has an execution that waits for its decision")
        finally:
            self.hub.close()

    def _pass_on(self, changes: Changes) -> None:
        for _, row in changes:
            self._interfere(row)


class Provider:
    def __init__(self, world: Callable[[], World]) -> None:
        self._world = world

    def ask(self, settlement: Settlement, context: Any) -> Verdict:
        said = self._world().people.exchange(settlement, "no key")
        if not isinstance(said, Verdict):
            raise KycRequestRefused(f"kyc: refused with {said.http_status}")
        return said

    def review_ends(self, now: datetime) -> datetime:
        return now + timedelta(seconds=REVIEW_SECONDS)


def play(seed: int, *, is_told: bool = False) -> CoreWorld:
    chance = Chance(seed)
    world = CoreWorld(chance, is_told)
    has_shop = seed % SHOP_EVERY == SHOP_EVERY - 1
    opening = {name: chance.one_of((most, most // 4, 0)) for name, most in ACCOUNTS.items()}
    world.open_accounts(opening | ({SHOP: 0} if has_shop else {}))
    if chance.happens(0.05):
        world.poison()
    for payment in range(chance.one_of((1, 2, 3, 5))):
        request = labelled_request(chance, f"order-{seed % 1_000_000:06}-{payment:04}")
        if has_shop and chance.happens(0.5):
            request["payee"] = SHOP
        world.people.begin(request, 0)
    for _ in range(chance.one_of((0, 0, 1, 3))):
        world.people.spawn("a stray call", chance.within(100, 30 * MINUTE_MS), world.people.call_again)
    world.hub.spawn(world.people.recover, "the schedule")
    return world


def histories(current: Current, seed: int, *, is_told: bool = False) -> Iterator[Recorded]:
    with without_rooms(lambda: current.world):
        world = play(seed, is_told=is_told)
        current.world = world
        world.run()
    yield world


@contextmanager
def without_rooms(world: Callable[[], World]) -> Iterator[None]:
    core = {"".join(map(str.title, file.stem.split("_"))) for file in FILES if file.parent.name == "core"}
    functions = {name: handler for name, handler in HANDLERS.items() if name in core}
    provider = Provider(world)
    functions["VerifyKyc"] = plain(
        observed("verify")(lambda event, context: _verification.verify(event, context, provider))
    )
    with mock.patch.object(rooms, "ROOMS", ()), mock.patch.dict(HANDLERS, functions, clear=True):
        yield
