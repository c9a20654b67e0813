"""A settlement in LIMBO on the embedded AWS, whose payee has spent the money."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from settle.orders import reversal
from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, new_account, new_key

REASON = "approved by the tests"


@dataclass(frozen=True)
class Stuck:
    """A settlement of 48.20 EUR (0.48 of it the fee) whose payee has 7.72 EUR left."""

    embedded: Embedded
    key: str
    payer: str
    payee: str
    shop: str

    def row(self) -> dict[str, Any]:
        return self.embedded.settlement(self.key)

    def balances(self) -> tuple[str, str]:
        return self.embedded.available(self.payer), self.embedded.available(self.payee)

    def pay_back(self) -> None:
        other = new_account(self.embedded, "rich", "100.00")
        outcome = pay(self.embedded, other, self.payee, "41.00")
        assert outcome["status"] == "SETTLED"


def pay(
    embedded: Embedded, payer: str, payee: str, amount: str, machine: Machine = Machine.EXPRESS
) -> dict[str, Any]:
    request = {"key": new_key("pay"), "payer": payer, "payee": payee, "amount": amount, "currency": "EUR"}
    ended = start(embedded.stack, machine, json.dumps(request))
    assert ended.outcome is not None, ended
    return ended.outcome


def settled(embedded: Embedded) -> Stuck:
    """Return the settlement before its ordered reversal."""
    payer, payee = new_account(embedded, "gina", "100.00"), new_account(embedded, "hugo")
    shop = new_account(embedded, "shop")
    key = pay(embedded, payer, payee, "48.20")["key"]
    assert pay(embedded, payee, shop, "40.00")["status"] == "SETTLED"
    return Stuck(embedded, key, payer, payee, shop)


def stuck(embedded: Embedded) -> Stuck:
    """Return the settlement in LIMBO, with an execution waiting for a decision."""
    one = settled(embedded)
    assert reversal.reverse(embedded.stack, one.key, "the goods came back")["status"] == "LIMBO"
    embedded.wait_for(lambda: bool(embedded.waiting(one.key)))
    return one


def insolvent(embedded: Embedded, count: int) -> list[Stuck]:
    """Return LIMBO settlements of one payee, who has 3.00 EUR left of their total."""
    payer, payee = new_account(embedded, "gina", f"{50 * count}.00"), new_account(embedded, "hugo")
    shop = new_account(embedded, "shop")
    cases = [
        Stuck(embedded, pay(embedded, payer, payee, "48.20")["key"], payer, payee, shop) for _ in range(count)
    ]
    spent = Decimal("47.72") * count - 3
    assert pay(embedded, payee, shop, str(spent))["status"] == "SETTLED"
    for one in cases:
        assert reversal.reverse(embedded.stack, one.key, "the goods came back")["status"] == "LIMBO"
    embedded.wait_for(lambda: all(embedded.waiting(one.key) for one in cases))
    return cases
