"""Simulates starters over HTTP, whose posts are repeated, concurrent, late or conflicting."""

import json
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.chance import Streams
from tests.simulation.seeded.cloud import Call
from tests.simulation.seeded.facts import FINISHED, demand, done, minor, number, text
from tests.simulation.seeded.rules import is_refused_for_its_fee_alone
from tests.world import posting
from tests.world.contracts import checked_outcome
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes
from tests.world.rooms import is_there

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY = 48
RESIDUES = (24, 40, 47)

TRIES_MAX = 6
MINUTE_MS = 60_000
DOOR_MS_MAX = 30_000


def posts(seed: int) -> bool:
    return seed % EVERY in RESIDUES and is_there("doors")


class Acceptor:
    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._random = world, Streams(f"posts {seed}", world.hub.place)
        self._wrote: set[int] = set()
        """Identities of the calls that committed something."""

        self._calls: list[Call] = []
        self._owners: set[str] = set()

    def plan(self, key: str) -> None:
        """Schedule a payment's posts, mostly with equal content, and perhaps a queue message."""
        chance, people, world = self._random, self._world.people, self._world
        request: dict[str, Any] = {"payer": chance.choice(("alice", "bob")), "payee": "carol"}
        request |= {"amount": chance.choice(("2.00", "19.50", "400.00")), "currency": world.currency}
        at = chance.randint(0, 5 * MINUTE_MS)
        for _ in range(chance.choice((1, 2, 2, 3))):
            sent = request | ({"amount": "6.66"} if chance.random() < 0.15 else {})
            delay = at + chance.choice((0, 0, 30, 4_000, 20 * MINUTE_MS))
            people.spawn("a starter", delay, self._post, posting.asked(sent, key))
        if chance.random() < 0.3:
            people.spawn("a message", at + chance.randint(0, 200), people._send, request | {"key": key})

    def committed(self, changes: Changes) -> None:
        """Check that a start over HTTP commits only a claim."""
        for _, new in changes:
            if new and new["sk"]["S"] == "SETTLEMENT":
                self._owners.add(text(new, "owner") or "")
        call = self._world.cloud.call_of(self._world.hub.process)
        if call is None or call.function != "AcceptSettlements":
            return
        self._wrote.add(id(call))
        ((old, new),) = changes
        is_claim = old is None and new is not None and text(new, "status") == "PROCESSING" and not done(new)
        demand(is_claim, "a start over HTTP claims, and moves no money", new)

    def post(self, key: str, request: dict[str, Any]) -> None:
        self._post(posting.asked({name: value for name, value in request.items() if name != "key"}, key))

    def _post(self, asked: dict[str, Any]) -> None:
        world = self._world
        for _ in range(TRIES_MAX):
            world.note("a starter", "posts", asked)
            if self._send(asked):
                return
            world.hub.sleep(self._random.randint(100, MINUTE_MS))

    def _send(self, asked: dict[str, Any]) -> bool:
        world, key = self._world, asked["headers"]["idempotency-key"]
        before = world.oracle.settlements.get(key)
        call = world.cloud.call("AcceptSettlements", asked)
        self._calls.append(call)  # keeps the call alive, so its identity stays unique
        answered = world.hub.wait(call.answer, DOOR_MS_MAX)
        answer = call.answer.value if answered else None
        if not isinstance(answer, dict) or answer["statusCode"] >= 500:
            return False
        told, row = json.loads(answer["body"]), world.oracle.settlements.get(key)
        world.count(f"posted: {answer['statusCode']} {told.get('error', told.get('status'))}", 1)
        is_same = row is not None and _has_content(row, json.loads(asked["body"]))
        if answer["statusCode"] < 300:
            demand(row is not None, "what is accepted is claimed", key, told)
            demand(is_same, "what is accepted has that content", key, told)
            self._is_told(key, told, answer, before)
        else:
            demand(id(call) not in self._wrote, "a refused start changes nothing", key, told)
            self._is_refused(key, told, is_same=is_same, before=before)
        self._is_started_for_its_claim(asked)
        return True

    def _is_told(self, key: str, told: dict[str, Any], answer: dict[str, Any], before: Item | None) -> None:
        if "status" in told:
            outcome = checked_outcome(told)
            ended = outcome["status"] in FINISHED
            demand(
                answer["statusCode"] == (200 if ended else 202), "what is in flight is told by 202", key, told
            )
        else:
            demand(answer["statusCode"] == 202, "an accepted payment is told by 202", key, told)
        if text(before, "status") in FINISHED:
            demand(told.get("replayed") is True, "what was over before is told as replayed", key, told)

    @staticmethod
    def _is_refused(key: str, told: dict[str, Any], *, is_same: bool, before: Item | None) -> None:
        if told["error"] == "IdempotencyConflict":
            demand(not is_same, "the same content is no conflict", key, told)
            return
        demand(told["error"] == "InvalidRequest", "a start is refused for its content alone", key, told)
        message, was_claimed = told["message"], before is not None
        is_refused_for_its_fee_alone(
            "AcceptSettlements", told["error"], message, key, was_claimed=was_claimed
        )

    def _is_started_for_its_claim(self, asked: dict[str, Any]) -> None:
        """Check that this call's execution starts only if it owns the claim."""
        from settlement.doors.starting import parse_start  # noqa: PLC0415 (the room may be gone)

        name = parse_start(asked["headers"], json.loads(asked["body"]), self._world.config).execution
        is_started = any(one.name == name for one in self._world.cloud.machines.executions)
        demand(not is_started or name in self._owners, "a start over HTTP is that of its own claim", name)


def _has_content(row: Item, content: dict[str, Any]) -> bool:
    amount = minor(content["amount"], content["currency"])
    return amount == number(row, "amount") and all(
        content[name] == text(row, name) for name in ("payer", "payee", "currency")
    )


def plan_posts(world: "World", seed: int) -> None:
    if not posts(seed):
        return
    world.acceptor = Acceptor(world, seed)
    for payment in range(3):
        world.acceptor.plan(f"order-{seed % 1_000_000:06}-post-{payment}")
