"""Simulates people whose partial reversals are repeated, concurrent, excessive or beside full ones."""

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.chance import Streams
from tests.simulation.seeded.facts import counted_parts, demand, minor, number, text
from tests.simulation.seeded.persons import PERSONS
from tests.world.expressions import Item
from tests.world.orders import given, request

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EVERY = 48
RESIDUES = (12, 17, 18, 31, 36, 41, 42)
"""The seeds, modulo EVERY, with partial reversals; 31 has a merchant."""

TRIES_MAX = 4
MINUTE_MS = 60_000


def comes_back(seed: int) -> bool:
    return seed % EVERY in RESIDUES


class Returns:
    def __init__(self, world: "World", seed: int) -> None:
        self._world, self._random = world, Streams(f"returns {seed}", world.hub.place)

    def plan(self, key: str) -> None:
        chance, people = self._random, self._world.people
        within = chance.choice((20_000, 2 * MINUTE_MS, 10 * MINUTE_MS))
        for _ in range(chance.choice((1, 2, 3, 5))):
            people.spawn("a person", 4_000 + chance.randint(0, within), self._give_back, key)
        if chance.random() < 0.3:
            people.spawn("a person", 4_000 + chance.randint(0, within), people._reverse, key)

    def _give_back(self, key: str) -> None:
        world, chance = self._world, self._random
        for _ in range(chance.choice((0, 20, 20, 20))):
            if text(world.oracle.settlements.get(key), "status") == "SETTLED":
                break
            world.hub.sleep(MINUTE_MS // 2)
        row = world.oracle.settlements.get(key)
        if row is None and chance.random() < 0.8:  # this world has no such payment
            return
        released = number(row, "amount") - number(row, "fee") if row else 500
        rest = released - number(row, "reversed_in_part")
        wanted = chance.choice((1, 100, rest, rest, rest + 1, released, max(1, rest // 2)))
        part = counted_parts(row) + chance.choice((1, 1, 1, 1, 1, 2))
        decimals = {"CO2": 3}.get(world.currency, 2)
        amount = f"{Decimal(wanted).scaleb(-decimals):.{decimals}f}"
        order = {"key": key, "part": part, "amount": amount, "reason": "one came back", "by": "olga"}
        if chance.random() < 0.3:
            other = order | ({} if chance.random() < 0.5 else {"reason": "another", "by": "mallory"})
            world.people.spawn("a person", chance.choice((0, 5, 400)), self._order, other)
        self._order(order)

    def _order(self, order: dict[str, Any]) -> None:
        world = self._world
        for _ in range(TRIES_MAX):
            world.note("a person", "orders", order)
            call = world.cloud.call("TakeOrder", request("reverse-part", *given(order)))
            answered = world.hub.wait(call.answer, 30_000)
            answer = call.answer.value if answered else None
            if isinstance(answer, dict) and answer["statusCode"] < 500:
                content = json.loads(answer["body"])
                self._is_true(order, content, is_done=answer["statusCode"] == 200)
                if content.get("error") == "ApprovalNeeded":
                    self._agree(order)
                return
            world.hub.sleep(self._random.randint(100, 60_000))

    def _agree(self, order: dict[str, Any]) -> None:
        chance, body = self._random, given(order)[0]
        content = self._move("propose", body, chance.choice(PERSONS))
        if content is None or "proposal" not in content:
            return
        told = {"decision": "reverse-part", **content["proposal"]}
        for _ in range(chance.choice((2, 3, 5))):
            delay = chance.choice((0, 5, 400, 20_000, 6 * MINUTE_MS))
            move = "withdraw" if chance.random() < 0.05 else "approve"
            if chance.random() < 0.05:
                move, sent = "break-glass", body
            else:
                names = ("decision", "digest", *(("part", "amount") if move == "approve" else ()))
                sent = {"key": order["key"], **{name: told[name] for name in names}}
            self._world.people.spawn(
                "a person", delay, self._moved, move, sent, chance.choice(PERSONS), order
            )

    def _moved(self, move: str, body: dict[str, Any], who: tuple[str, str], order: dict[str, Any]) -> None:
        content = self._move(move, body, who)
        if content is not None and "part" in content:
            self._is_true(order, content, is_done=True)
            self._world.count("part reversed together", 1)

    def _move(self, move: str, body: dict[str, Any], who: tuple[str, str]) -> dict[str, Any] | None:
        world, (by, user_id) = self._world, who
        for _ in range(TRIES_MAX):
            world.note("a person", f"{move}s a part", body)
            asked = request(f"reverse-part/{move}", body, by, user_id=user_id)
            call = world.cloud.call("TakeOrder", asked)
            answer = call.answer.value if world.hub.wait(call.answer, 30_000) else None
            if isinstance(answer, dict) and answer["statusCode"] < 500:
                content: dict[str, Any] = json.loads(answer["body"])
                return content
            world.hub.sleep(self._random.randint(100, 60_000))
        return None

    def _is_true(self, order: dict[str, Any], content: dict[str, Any], *, is_done: bool) -> None:
        """Check that a completed part is recorded, and that a conflict is with other content."""
        world, key = self._world, order["key"]
        row = world.table.items.get((f"EVIDENCE#{key}", f"{key}:reverse-part:{order['part']}"))
        is_on_record = _is(order, row, text(world.oracle.settlements.get(key), "currency"))
        if is_done:
            demand(is_on_record, "an answered part is on record as it was ordered", order)
            counted = counted_parts(world.oracle.settlements.get(key)) >= order["part"]
            demand(counted, "an answered part is reversed", order)
            told = (content["part"], content["order"]["amount"])
            demand(told == (order["part"], order["amount"]), "an answer is about its part", content)
        elif content["error"] == "InsufficientFunds":
            demand(world.oracle.merchants.is_swept(key), "a part finds the money of its own release", key)
        elif content["error"] == "PartRefused" and "on record" in content["message"]:
            demand(row and not is_on_record, "a part on record is refused to other content alone", order)
        world.count("part reversed" if is_done else f"part refused: {content['error']}", 1)


def plan_returns(world: "World", seed: int) -> None:
    if not comes_back(seed):
        return
    returns = Returns(world, seed)
    for name in ("0000", "0001", "spent", "shop-0", "shop-1"):
        returns.plan(f"order-{seed % 1_000_000:06}-{name}")


def _is(order: dict[str, Any], row: Item | None, currency: str | None) -> bool:
    if row is None or currency is None:
        return False
    wanted = (order["reason"], minor(order["amount"], currency))
    return (text(row, "reason"), number(row, "amount")) == wanted
