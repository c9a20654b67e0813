"""Readers of the oracle's facts: rows on the wire, payloads of calls, and the legal transitions."""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tests.world.expressions import Item

STATUSES = {
    "PROCESSING": {"SETTLED", "REJECTED", "COMPENSATING"},
    "SETTLED": {"COMPENSATING"},
    "REJECTED": set(),
    "COMPENSATING": {"COMPENSATED", "LIMBO"},
    "COMPENSATED": set(),
    "LIMBO": {"COMPENSATING", "SETTLED"},
}
FINISHED = {"SETTLED", "REJECTED", "COMPENSATED"}
HIGHEST_BALANCE = 100_000_000


POISON = "a-row-that-makes-no-sense"
"""The key of an unreadable row at the head of the index."""


class Violated(AssertionError):
    """A rule is broken."""


def demand(holds: object, rule: str, *about: object) -> None:
    if not holds:
        raise Violated(": ".join((rule, *map(str, about))))


def text(row: Item | None, name: str) -> str | None:
    return row[name]["S"] if row and name in row else None


def number(row: Item | None, name: str) -> int:
    return int(row[name]["N"]) if row and name in row else 0


def members(row: Item | None, name: str) -> set[str]:
    return set(row[name]["SS"]) if row and name in row else set()


@lru_cache
def minor(amount: str) -> int:
    """Return an amount in minor units: cents, in this world."""
    return int(Decimal(amount).scaleb(2))


def settlement_in(payload: Mapping[str, Any]) -> dict[str, str]:
    """Return the settlement in a call's payload; an empty one if it has none."""
    found: dict[str, str] = payload.get("state", payload).get("settlement", {})
    return found


def is_entry(row: Item | None) -> bool:
    return bool(row) and "posted_at" in row  # type: ignore[operator]


def has_row(account: str) -> bool:
    """Return whether an account has a row with its balance: a customer's does, and a settlement's escrow."""
    return ":" not in account or account.startswith("escrow:")


def resolutions(posted: dict[str, Any]) -> set[str]:
    return {name for name in posted if name.startswith("resolve:")}
