"""Orders on accounts take effect once, and only they change accounts."""

from tests.simulation.seeded.facts import (
    demand,
    is_merchant,
    keeps_to_its_bound,
    key_of,
    minor,
    number,
    order_in,
    text,
)
from tests.simulation.seeded.rules import Asking
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

EXTERNAL = ("deposit", "withdraw")
"""Orders that move money; their entries' steps have the same names."""

TIMES = ("opened_at", "frozen_at", "closed_at")
_KINDS = ("open", *EXTERNAL, "freeze", "unfreeze", "close")
_TEXTS = ("order", "account", "currency", "reference", "by", "reason")


def carried_out(changes: Changes, asking: Asking) -> None:
    """Check that orders take effect, and no account changes without one."""
    orders: list[Item] = []
    accounts: dict[str, tuple[Item | None, Item | None]] = {}
    entries: dict[tuple[str, str], Item] = {}
    for old, new in changes:
        kind, _, name = (new or old or {})["pk"]["S"].partition("#")
        if kind == "ORDER":
            demand(old is None and new, "an order is written once and never changed", name)
            orders.append(new or {})
        elif kind == "ACCOUNT":
            accounts[name] = (old, new)
        elif kind == "ENTRIES" and new and text(new, "step") in EXTERNAL:
            entries[key_of(new), new["step"]["S"]] = new
    times = {name: {at: text(old, at) for at in TIMES} for name, (old, _) in accounts.items()}
    for order in sorted(orders, key=lambda row: _KINDS.index(row["order"]["S"])):
        _is_as_asked(order, asking)
        account = order["account"]["S"]
        demand(account in accounts, "an order changes its account", account)
        old, new = accounts[account]
        _takes_effect(order, old, new or {}, times[account])
        if text(order, "order") in EXTERNAL:
            entry = entries.pop((order["pk"]["S"].partition("#")[2], order["order"]["S"]), None)
            _has_its_entry(order, entry)
    demand(not entries, "money comes from and goes to the outside by orders alone", sorted(entries))
    for account, (_, new) in accounts.items():
        demand(times[account]["opened_at"], "an account is opened by an order", account)
        now = {at: text(new, at) for at in TIMES}
        demand(now == times[account], "an account is frozen and closed by orders alone", account, now)


def _takes_effect(order: Item, old: Item | None, new: Item, times: dict[str, str | None]) -> None:
    kind, account, at = order["order"]["S"], order["account"]["S"], order["posted_at"]["S"]
    blocked = number(old, "limbo_cases") != 0
    if kind == "open":
        demand(old is None, "an account is opened once", account)
        demand(
            text(new, "currency") == text(order, "currency"), "an account has its order's currency", account
        )
        times["opened_at"] = at
    elif kind == "deposit":
        demand(not times["closed_at"], "a closed account gets no deposit", account)
        fits = is_merchant(account) or keeps_to_its_bound(new) or old is None
        demand(fits, "a deposit keeps to the highest balance", account)
    elif kind == "withdraw":
        demand(not times["frozen_at"], "a frozen account is not withdrawn from", account)
        demand(not blocked, "a blocked account is not withdrawn from", account)
    elif kind == "freeze":
        demand(not times["frozen_at"] and not times["closed_at"], "an account in use is frozen", account)
        times["frozen_at"] = at
    elif kind == "unfreeze":
        demand(times["frozen_at"], "a frozen account is unfrozen", account)
        times["frozen_at"] = None
    else:
        demand(number(old, "available") == 0, "an account is closed with nothing in it", account)
        is_in_use = not (times["frozen_at"] or times["closed_at"] or blocked)
        demand(is_in_use, "an account is closed once, neither frozen nor blocked", account)
        times["closed_at"] = at


def _has_its_entry(order: Item, entry: Item | None) -> None:
    key, kind, outside = order["pk"]["S"], order["order"]["S"], f"external:{text(order, 'currency')}"
    demand(entry, "moved money has its entry", key)
    parties = (outside, text(order, "account"))
    found = text(entry, "debit"), text(entry, "credit")
    demand(found == (parties if kind == "deposit" else parties[::-1]), "money moves as ordered", key, found)
    for name in ("amount", "currency", "posted_at", "request_hash"):
        same = entry and entry.get(name) == order.get(name)
        demand(same, "an entry is as its order", key, name)


def _is_as_asked(order: Item, asking: Asking) -> None:
    """Check that an order is recorded as asked. A world's opening orders are exempt."""
    if not asking.function:
        return
    demand(asking.function == "TakeOrder", "an order is given at the door alone", asking.function)
    asked = order_in(asking.payload)
    demand(order["pk"]["S"] == f"ORDER#{asked.get('key')}", "an order is recorded by its key", asked)
    for name in _TEXTS:
        demand(text(order, name) == asked.get(name), "an order is recorded as it was given", name, asked)
    amount = asked.get("amount")
    same = amount is None or minor(amount, asked["currency"]) == number(order, "amount")
    demand(same, "an order is recorded as it was given", "amount", asked)
