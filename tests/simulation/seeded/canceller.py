"""Simulates starters that cancel their payments: repeatedly, concurrently, too late, or by sequence."""

import json
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.cancel_rules import can_be_cancelled, request_of
from tests.simulation.seeded.chance import Streams
from tests.simulation.seeded.cloud import Call
from tests.simulation.seeded.facts import FINISHED, demand, is_cancelled, number, text
from tests.world import posting
from tests.world.contracts import checked_outcome
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes
from tests.world.rooms import is_there

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY = 48
RESIDUES = (22, 25, 33, 39, 43)

TRIES_MAX = 4
MINUTE_MS = 60_000
DOOR_MS_MAX = 30_000


def cancels(seed: int) -> bool:
    return seed % EVERY in RESIDUES and is_there("doors")


class Canceller:
    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._random = world, Streams(f"cancels {seed}", world.hub.place)
        self._wrote: set[int] = set()
        """Identities of the calls that committed something."""

        self._calls: list[Call] = []
        self.cancelled: set[str] = set()
        """The settlements that an answer confirmed as cancelled."""

    def plan(self, key: str) -> None:
        chance, people = self._random, self._world.people
        for _ in range(chance.choice((1, 1, 2, 3))):
            delay = chance.randint(0, chance.choice((50, 2_000, 30_000, 20 * MINUTE_MS)))
            people.spawn("a starter", delay, self._cancel, key, chance.choice((0, 0, 40, 200)))

    def send(self, key: str) -> None:
        """Send a payment by message, and cancel it around its claim."""
        chance, people, delay = self._random, self._world.people, self._random.randint(0, 5 * MINUTE_MS)
        request = {"key": key, "payer": "alice", "payee": "bob", "amount": "2.00", "fee": "0.00"}
        people.spawn("a message", delay, people._send, request | {"currency": self._world.currency})
        for _ in range(chance.choice((1, 2))):
            people.spawn("a starter", delay + chance.randint(0, 2_000), self._cancel, key, 200, 20)

    def committed(self, changes: Changes) -> None:
        call = self._world.cloud.call_of(self._world.hub.process)
        if call and call.function == "CancelSettlement":
            self._wrote.add(id(call))
        for _, new in changes:
            if new and new["sk"]["S"] == "SETTLEMENT":
                key = new["pk"]["S"].partition("#")[2]
                kept = key not in self.cancelled or is_cancelled(new)
                demand(kept, "a payment that was told to be cancelled stays so", key, text(new, "status"))

    def at_the_end(self) -> None:
        """Check that a confirmed cancellation holds no money and was not paid."""
        for key in self.cancelled:
            row = self._world.oracle.settlements[key]
            demand(is_cancelled(row), "a payment that was told to be cancelled stays so", key)
            ended = text(row, "status") in ("REJECTED", "COMPENSATED") and number(row, "escrow") == 0
            is_stuck = text(row, "status") == "LIMBO"
            demand(
                ended or is_stuck, "a cancelled payment holds no money in the end", key, text(row, "status")
            )

    def cancel(self, key: str, request: dict[str, Any]) -> None:
        self._send(key, posting.cancel(request, key))

    def _cancel(self, key: str, looks: int, pause_ms: int = 0) -> None:
        world, chance = self._world, self._random
        for _ in range(looks):
            if can_be_cancelled(world.oracle.settlements.get(key)):
                break
            world.hub.sleep(pause_ms or chance.choice((20, 300, 5_000)))
        row = world.oracle.settlements.get(key)
        if row is None and chance.random() < 0.95:  # this world has no such payment
            return
        asked = self._asked(key, row)
        for _ in range(TRIES_MAX):
            world.note("a starter", "cancels", asked)
            if chance.random() < 0.2:
                world.people.spawn("a starter", chance.choice((0, 5, 400)), self._send, key, asked)
            if self._send(key, asked):
                return
            world.hub.sleep(chance.randint(100, 60_000))

    def _asked(self, key: str, row: Item | None) -> dict[str, Any]:
        """Return a cancellation whose request and sequence are sometimes wrong."""
        chance, request = self._random, request_of(row) if row else dict(posting.NAMELESS)
        if chance.random() < 0.1:
            request["amount"] = "6.66"
        seen = number(row, "sequence") + chance.choice((0, 0, 0, 0, -1, 1))
        headers = {"if_match": f'"{max(0, seen)}"'} if chance.random() < 0.5 else {}
        return posting.cancel(request, key, **headers)

    def _send(self, key: str, asked: dict[str, Any]) -> bool:
        world = self._world
        before = world.oracle.settlements.get(key)
        call = world.cloud.call("CancelSettlement", asked)
        self._calls.append(call)  # keeps the call alive, so its identity stays unique
        answered = world.hub.wait(call.answer, DOOR_MS_MAX)
        answer = call.answer.value if answered else None
        if not isinstance(answer, dict) or answer["statusCode"] >= 500:
            return False
        told = json.loads(answer["body"])
        world.count(f"cancelled: {told.get('error', told.get('status'))}", 1)
        if answer["statusCode"] < 300:
            self._is_cancelled(key, told, answer)
        else:
            self._is_refused(key, asked, told, before, call)
        return True

    def _is_cancelled(self, key: str, told: dict[str, Any], answer: dict[str, Any]) -> None:
        outcome, row = checked_outcome(told), self._world.oracle.settlements[key]
        self.cancelled.add(key)
        demand(is_cancelled(row), "a cancellation that was answered is on the row", key, told)
        named = outcome["status"] == "LIMBO" or (outcome["failure"] or {}).get("error") == "Cancelled"
        demand(named, "a cancelled payment says so", key, told)
        ended = outcome["status"] in FINISHED
        demand(answer["statusCode"] == (200 if ended else 202), "a cancelled payment ends later by 202", key)
        demand(outcome["status"] != "SETTLED", "a cancelled payment is not paid", key)

    def _is_refused(
        self, key: str, asked: dict[str, Any], told: dict[str, Any], before: Item | None, call: Call
    ) -> None:
        demand(id(call) not in self._wrote, "a refused cancellation changes nothing", key, told)
        now, request = self._world.oracle.settlements.get(key), json.loads(asked["body"])
        if told["error"] == "SettlementNotFound":
            demand(before is None, "a claimed key is found", key)
        if before is None or before != now or request.items() != request_of(before).items():
            return
        seen = asked["headers"].get("if-match", f'"{number(before, "sequence")}"')
        is_right = seen == f'"{number(before, "sequence")}"'
        demand(not (can_be_cancelled(before) and is_right), "what can be cancelled is not refused", key, told)


def plan_cancels(world: "World", seed: int) -> None:
    if not cancels(seed):
        return
    world.canceller = Canceller(world, seed)
    for name in ("0000", "0001", "0002", "spent", "shop-0", "shop-1"):
        world.canceller.plan(f"order-{seed % 1_000_000:06}-{name}")
    for number_ in range(2):
        world.canceller.send(f"order-{seed % 1_000_000:06}-sent-{number_}")
