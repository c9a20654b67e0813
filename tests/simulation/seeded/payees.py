"""Checks that holds, and their refusals, follow the state of the payee's account."""

from typing import TYPE_CHECKING

from tests.simulation.seeded.facts import demand, settlement_in, text
from tests.simulation.seeded.rules import Asking
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

if TYPE_CHECKING:
    from tests.simulation.seeded.cloud import Call

LAG_MS_MAX = 2_000
"""Maximum lag of an eventually consistent read."""

REMEMBERED_MS = 60_000
"""How long an environment may still place holds for a payee that has been closed."""


class Payees:
    """Each account's currency, and when it was opened and closed, in milliseconds."""

    def __init__(self) -> None:
        self._currencies: dict[str, str | None] = {}
        self._opened: dict[str, int] = {}
        self._closed: dict[str, int] = {}

    def copy(self) -> "Payees":
        other = Payees()
        other._currencies, other._opened = self._currencies.copy(), self._opened.copy()
        other._closed = self._closed.copy()
        return other

    def committed(self, changes: Changes, asking: Asking) -> None:
        for old, new in changes:
            kind, _, name = (new or {"pk": {"S": ""}})["pk"]["S"].partition("#")
            if kind == "ACCOUNT" and old is None:
                self._currencies[name], self._opened[name] = text(new, "currency"), asking.now
            if kind == "ACCOUNT" and text(new, "closed_at"):
                self._closed.setdefault(name, asking.now)
        for old, new in changes:
            if new and new["sk"]["S"] == "SETTLEMENT" and "hold_at" in new and "hold_at" not in (old or {}):
                self._can_receive(new, asking)

    def _can_receive(self, row: Item, asking: Asking) -> None:
        payee = row["payee"]["S"]
        demand(payee in self._opened, "no money is held for a payee who does not exist", payee)
        same = self._currencies[payee] == text(row, "currency")
        demand(same, "no money is held for a payee in another currency", payee)
        closed = self._closed.get(payee, asking.since)
        in_time = asking.since - closed <= REMEMBERED_MS + LAG_MS_MAX
        demand(in_time, "no money is held for a payee who was closed a minute ago", payee, closed)

    def refused(self, call: "Call", error: str, told: str) -> None:
        if call.function != "HoldFunds" or not told.startswith("payee: "):
            return
        settlement = settlement_in(call.payload)
        payee = settlement["payee"]
        if error == "AccountNotFound":
            is_late = self._opened.get(payee, call.since) >= call.since
            demand(is_late, "no payee who exists is refused as missing", payee)
        elif error == "CurrencyMismatch":
            other = self._currencies[payee] != settlement["currency"]
            demand(other, "no payee is refused for the currency of its account", payee)
        elif error == "AccountClosed":
            demand(payee in self._closed, "no payee who is open is refused as closed", payee)
