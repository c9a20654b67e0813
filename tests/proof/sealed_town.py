"""A town with each kind of payment, and its sealed journal in small objects."""

import gzip
import random
from collections.abc import Iterator, Sequence
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.orders import Decision
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Step
from settlement.core.store.wire import from_wire
from settlement.journal import lines, seals
from tests.proof.shapes import PLAYS
from tests.proof.town import Payment, Town
from tests.world.sealed import inserted

SETTLES = ("claim", "hold", "verify", "release", "fee")


def new_town() -> Town:
    town = Town()
    for account, currency in (
        ("alice", "EUR"),
        ("bob", "EUR"),
        ("merchant.shop", "EUR"),
        ("ken", "JPY"),
        ("mio", "JPY"),
    ):
        town.open(account, 0 if account == "merchant.shop" else 100_000, currency)
    town.withdraw("withdrawal-of-bob-0001", "bob", 2_000)
    payment(town, 1).forward(*SETTLES)
    payment(town, 2, fee=0).forward(*SETTLES)
    payment(town, 3, payer="ken", payee="mio", currency="JPY").forward(*SETTLES)
    payment(town, 4, payee="merchant.shop").forward(*SETTLES, PLAYS.get("sweep", Payment.state))
    reversed_later = payment(town, 5)
    reversed_later.forward(*SETTLES, "order")
    reversed_later.reverse(Step.FEE, Step.RELEASE, Step.HOLD)
    returned = payment(town, 6)
    returned.forward(*SETTLES)
    returned.part(500, 1)
    stuck = payment(town, 7)
    stuck.forward(*SETTLES, "order")
    stuck.reverse(Step.FEE)
    stuck.limbo(Step.RELEASE)
    stuck.resolve(Decision.WRITE_OFF)
    payment(town, 8).forward("claim", "hold")
    return town


def payment(
    town: Town, number: int, payer: str = "alice", payee: str = "bob", currency: str = "EUR", fee: int = 48
) -> Payment:
    content = {"payer": payer, "payee": payee, "amount": 4_820, "currency": currency, "fee": fee}
    return Payment(town, Settlement(key=f"order-2026-{number:06}", **content))  # type: ignore[arg-type]


def rows(town: Town) -> Iterator[Row]:
    return (from_wire(row) for row in list(town.table.items.values()))


def entries(town: Town) -> list[Row]:
    return [row for row in rows(town) if row["pk"].startswith("ENTRIES#")]


def objects(town: Town, seed: int = 0, size: int = 5, more: Sequence[Any] = ()) -> dict[str, bytes]:
    """Return the journal's objects: all sealed rows and `more` lines, shuffled, `size` lines each.

    Some entries also have a line from a fill.
    """
    chance = random.Random(seed)
    told = [*(inserted(row) for row in rows(town) if lines.is_sealed(row)), *more]
    told += [lines.filled(row, 1) for row in entries(town) if chance.random() < 0.2]
    chance.shuffle(told)
    parts = (lines.content(told[start : start + size]) for start in range(0, len(told), size))
    return {seals.object_name(content, town.now): gzip.compress(content) for content in parts}
