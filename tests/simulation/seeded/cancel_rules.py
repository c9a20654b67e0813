"""Checks that only a payment's starter cancels it, in time, and at the sequence that the starter saw."""

from decimal import Decimal
from typing import Any

from tests.simulation.seeded.facts import DECIMALS, demand, done, is_cancelled, labels_of, number, text
from tests.simulation.seeded.rules import Asking
from tests.world.expressions import Item

_CHANGED = {"status", "failure", "sequence", "finished_at", "gsi1pk", "gsi1sk"}
_BEGUN = _CHANGED | {"reversed_for", "resolutions", "in_flight_since"}


def by_right(key: str, old: Item | None, new: Item, posted: dict[str, Any], asking: Asking) -> None:
    if asking.function != "CancelSettlement":
        kept = is_cancelled(new) == is_cancelled(old)
        demand(
            kept or text(new, "status") == "SETTLED", "a starter's call alone cancels", key, asking.function
        )
        return
    demand(old is not None, "an unclaimed key is not cancelled", key)
    assert old
    demand(can_be_cancelled(old), "only a payment before its hold, or in review, is cancelled", key)
    demand(not posted and is_cancelled(new), "a cancellation moves no money", key, sorted(posted))
    seen = asking.payload["headers"].get("if-match")
    is_seen = seen in (None, f'"{number(old, "sequence")}"')
    demand(is_seen, "a cancellation is of the sequence that was seen", key, seen)
    held = "hold" in done(old)
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    demand(changed <= (_BEGUN if held else _CHANGED), "a cancellation changes nothing else", key, changed)
    demand(text(new, "status") == ("COMPENSATING" if held else "REJECTED"), "what is held is given back", key)
    if held:
        at = text(new, "in_flight_since") or ""
        demand(
            text(new, "gsi1sk") == at <= asking.at,
            "a cancelled review is due at once",
            key,
            text(new, "gsi1sk"),
        )


def request_of(row: Item) -> dict[str, Any]:
    decimals = DECIMALS[row["currency"]["S"]]
    amounts = {
        name: f"{Decimal(number(row, name)).scaleb(-decimals):.{decimals}f}" for name in ("amount", "fee")
    }
    request: dict[str, Any] = {name: row[name]["S"] for name in ("payer", "payee", "currency")} | amounts
    if "deadline_seconds" in row:
        request["deadline_seconds"] = number(row, "deadline_seconds")
    return request | labels_of(row)


def can_be_cancelled(row: Item | None) -> bool:
    if row is None or text(row, "status") != "PROCESSING":
        return False
    return not done(row) or "review" in row
