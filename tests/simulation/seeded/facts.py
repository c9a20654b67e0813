"""Reads wire rows and payloads for the oracle's rules, and lists the legal transitions."""

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from tests.world.expressions import Item

K = TypeVar("K")

STATUSES = {
    "PROCESSING": {"SETTLED", "REJECTED", "COMPENSATING"},
    "SETTLED": {"COMPENSATING"},
    "REJECTED": set(),
    "COMPENSATING": {"COMPENSATED", "LIMBO"},
    "COMPENSATED": set(),
    "LIMBO": {"COMPENSATING", "SETTLED"},
}
FINISHED = {"SETTLED", "REJECTED", "COMPENSATED"}
FORWARD = ("hold", "verify", "release", "fee")
HIGHEST_BALANCE = 100_000_000
LABELS = ("reference", "metadata")
_BOUNDED = ("CO2", "EUR")


DECIMALS = {"EUR": 2, "USD": 2, "CO2": 3}
"""Number of decimals of each currency, and of the asset."""

POISON = "a-row-that-makes-no-sense"
"""An unreadable row's key, at the head of the index."""


class Sums(dict[K, int]):
    """Sums by key, ten times faster to copy than a Counter."""

    def __missing__(self, key: K) -> int:
        return 0


class Violated(AssertionError): ...


def demand(holds: object, rule: str, *about: object) -> None:
    if not holds:
        raise Violated(": ".join((rule, *map(str, about))))


def text(row: Item | None, name: str) -> str | None:
    return row[name]["S"] if row and name in row else None


def number(row: Item | None, name: str) -> int:
    return int(row[name]["N"]) if row and name in row else 0


def keeps_to_its_bound(account: Item) -> bool:
    return text(account, "currency") not in _BOUNDED or number(account, "available") <= HIGHEST_BALANCE


@lru_cache
def minor(amount: str, currency: str) -> int:
    return int(Decimal(amount).scaleb(DECIMALS[currency]))


def labels_of(row: Item) -> dict[str, Any]:
    found: dict[str, Any] = {"reference": row["reference"]["S"]} if "reference" in row else {}
    if "metadata" in row:
        found["metadata"] = {name: value["S"] for name, value in row["metadata"]["M"].items()}
    return found


def done(row: Item | None) -> set[str]:
    return {step for step in FORWARD if row and f"{step}_at" in row}


def undone(row: Item | None) -> set[str]:
    return {step for step in FORWARD if row and f"{step}_reversed_at" in row}


def is_cancelled(row: Item | None) -> bool:
    """Return whether the starter's cancellation refused or reversed the settlement."""
    reason = (row or {}).get("reversed_for") or (row or {}).get("failure")
    return reason is not None and text(reason["M"], "error") == "Cancelled"


def settlement_in(payload: Mapping[str, Any]) -> dict[str, str]:
    route = payload.get("routeKey", "")
    if route.endswith("/cancel"):
        return {**payload["pathParameters"], **json.loads(payload["body"])}
    if route == "POST /settlements":
        return {"key": payload["headers"]["idempotency-key"], **json.loads(payload["body"])}
    found: dict[str, str] = payload.get("settlement") or payload.get("state", {}).get("settlement", {})
    return found


def order_in(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return an order from TakeOrder's payload, with its decision and the author that AWS proved."""
    body: dict[str, Any] = json.loads(payload["body"])
    decision = payload["routeKey"].partition("/orders/")[2].partition("/")[0]
    return {**body, "decision": decision, "by": payload["requestContext"]["authorizer"]["iam"]["userArn"]}


def is_entry(row: Item | None) -> bool:
    """Return whether a row is an entry or evidence."""
    return bool(row) and "posted_at" in row and row["sk"]["S"] != "ORDER"  # type: ignore[operator,index]


def key_of(row: Item) -> str:
    name: str = row["sk"]["S"].rpartition("#")[2]
    return name.partition(":")[0]


def is_merchant(account: str | None) -> bool:
    return (account or "").startswith("merchant.")


def is_swept_later(row: Item | None) -> bool:
    """Return whether a row is a release that needs a sweep."""
    return is_entry(row) and text(row, "step") == "release" and is_merchant(text(row, "credit"))


def has_row(account: str) -> bool:
    """Return whether an account has a balance row: a customer or an escrow."""
    return ":" not in account or account.startswith("escrow:")


def counted_parts(row: Item | None) -> int:
    """Return the number of a row's partial reversals, in either layout."""
    return number(row, "reversals_in_part") or number(row, "parts")


def parts(posted: dict[str, Any]) -> set[str]:
    return {name for name in posted if name.startswith("reverse-part:")}


def resolutions(posted: dict[str, Any]) -> set[str]:
    return {name for name in posted if name.startswith("resolve:")}
