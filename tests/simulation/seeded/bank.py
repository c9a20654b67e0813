"""Simulates people whose orders on accounts are repeated, concurrent, late or conflicting."""

import json
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.seeded.facts import demand, minor, number, text
from tests.world.expressions import Item
from tests.world.orders import given, request

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

TRIES_MAX = 4
OTHERWISE: tuple[tuple[str, str], ...] = (("reason", "another"), ("account", "carol"), ("by", "mallory"))


NEWCOMER = "erin"
"""An account that does not exist at first."""


def pays_in_an_asset(seed: int) -> bool:
    return seed % 10 == 9


def administers(seed: int) -> bool:
    """Return whether this world has orders on accounts, in euros and dollars.

    One world in four has them, a third of these with a merchant.
    """
    return seed % 12 in (4, 8, 11) and not pays_in_an_asset(seed)


class Bank:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._held: dict[str, set[int]] = {}
        """Each account's balances so far, in minor units."""

        self._orders = 0

    def notice(self, account: str, row: Item) -> None:
        self._held.setdefault(account, set()).add(number(row, "available"))

    def busy(self, accounts: list[str], prefix: str) -> None:
        chance = self._world.chance
        for _ in range(chance.one_of((2, 4, 8, 12))):
            within = chance.one_of((500, 5_000, 60_000, 900_000))
            self._plan(chance.one_of(accounts), prefix, chance.within(0, within))
        if chance.happens(0.6):
            self._empty_and_close(chance.one_of(accounts), prefix)

    def welcome(self, key: str, random: Random) -> None:
        """Perhaps open and close the newcomer's account, and pay it around these times."""
        people, currency = self._world.people, self._world.currency
        begins = random.choice((0, 1_000, 3_000, 60_000))
        about = {"account": NEWCOMER, "by": "olga", "reason": "as agreed"}
        if random.random() < 0.8:
            of = currency if random.random() < 0.8 else {"EUR": "USD"}.get(currency, "EUR")
            order = about | {"key": f"{key}-open-0001", "order": "open", "currency": of}
            people.spawn("a person", begins, self.give, order)
        if random.random() < 0.5:
            order = about | {"key": f"{key}-close-0001", "order": "close"}
            people.spawn("a person", begins + random.choice((0, 500, 90_000)), self.give, order)
        for payment in range(random.randint(1, 4)):
            request = {"key": f"{key}-{payment}", "payer": random.choice(("alice", "bob")), "fee": "0.00"}
            request |= {"payee": NEWCOMER, "amount": "1.00", "currency": currency}
            people.begin(request, max(0, begins + random.choice((-500, -5, 20, 500, 30_000, 150_000))))

    def _plan(self, account: str, prefix: str, at: int) -> None:
        chance = self._world.chance
        kinds = (
            "deposit",
            "deposit",
            "withdraw",
            "withdraw",
            "freeze",
            "freeze",
            "unfreeze",
            "close",
            "open",
        )
        self._send(self._order(chance.one_of(kinds), account, prefix), at)

    def _empty_and_close(self, account: str, prefix: str) -> None:
        chance, world = self._world.chance, self._world

        def empty() -> None:
            row = world.table.items.get((f"ACCOUNT#{account}", "BALANCE"))
            if left := number(row, "available"):
                order = self._order("withdraw", account, prefix)
                self.give({**order, "amount": f"{left // 100}.{left % 100:02}"})
            self.give(self._order("close", account, prefix))

        for _ in range(1 + chance.happens(0.3)):
            world.people.spawn("a person", chance.within(0, chance.one_of((2_000, 60_000))), empty)

    def _order(self, kind: str, account: str, prefix: str) -> dict[str, str]:
        chance = self._world.chance
        self._orders += 1
        # A settlement may have the same key.
        key = prefix if chance.happens(0.1) else f"{prefix}-{kind}-{self._orders:04}"
        order = {"key": key, "order": kind, "account": account, "by": "olga", "reason": "as agreed"}
        if kind == "open":
            return order | {"account": chance.one_of((account, NEWCOMER)), "currency": "EUR"}
        if kind not in ("deposit", "withdraw"):
            return order
        amount = chance.one_of(("1.00", "5.00", "30.00", "999990.00" if kind == "deposit" else "60.00"))
        currency = "USD" if chance.happens(0.05) else "EUR"
        return order | {"amount": amount, "currency": currency, "reference": "bank-0001"}

    def _send(self, order: dict[str, str], at: int) -> None:
        chance = self._world.chance
        for again in range(1 + chance.happens(0.5) + chance.happens(0.2)):
            sent = dict(order)
            if again and chance.happens(0.3):
                name, other = chance.one_of(
                    (*OTHERWISE, *((("amount", "7.00"),) if "amount" in sent else ()))
                )
                sent[name] = other
            later = chance.one_of((0, 0, 10, 5_000, 1_200_000)) if again else 0
            self._world.people.spawn("a person", at + later, self.give, sent)

    def give(self, order: dict[str, str]) -> None:
        world = self._world
        for _ in range(TRIES_MAX):
            world.note("a person", "orders", order)
            call = world.cloud.call("TakeOrder", request(order["order"], *given(order)))
            answered = world.hub.wait(call.answer, 30_000)
            answer = call.answer.value if answered else None
            if isinstance(answer, dict):
                content = json.loads(answer["body"])
                if answer["statusCode"] == 200:
                    self._is_true(order, content)
                    return
                if answer["statusCode"] < 500:
                    self._is_refused_rightly(order, content["error"])
                    return
            world.hub.sleep(world.chance.within(100, 60_000))

    def _recorded(self, order: dict[str, str]) -> Item | None:
        return self._world.table.items.get((f"ORDER#{order['key']}", "ORDER"))

    def _is_true(self, order: dict[str, str], answer: dict[str, Any]) -> None:
        """Check that an answered order is recorded, and that the account once had the answered balance."""
        row, account = self._recorded(order), answer["account"]
        demand(row and _same(order, row), "an answered order is on record as it was given", order)
        told = answer["order"]
        demand(told.pop("posted_at") == text(row, "posted_at"), "an answer has the time on record", order)
        demand(told == order, "an answer is about its order", told, order)
        held = self._held.get(account["account"], set())
        demand(account["account"] == order["account"], "an answer is about its account", order)
        demand(
            minor(account["available"], account["currency"]) in held,
            "an answer has a balance that there was",
            account,
        )
        self._world.count(f"{order['order']} ordered", 1)

    def _is_refused_rightly(self, order: dict[str, str], error: str) -> None:
        row = self._recorded(order)
        if error == "IdempotencyConflict":
            demand(row and not _same(order, row), "a conflict is with another order on record", order)
        self._world.count(f"{order['order']} refused", 1)


def _same(order: dict[str, str], row: Item) -> bool:
    amount = order.get("amount")
    texts = ("order", "account", "currency", "reference", "by", "reason")
    return all(order.get(name) == text(row, name) for name in texts) and (
        number(row, "amount") == (minor(amount, order["currency"]) if amount else 0)
    )
