"""The table's stream records, as Lambda delivers them after filtering."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from settlement.journal import lines
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

_NUMBERS = count(1)

TIME_TO_LIVE = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
"""The mark of a deletion by DynamoDB's time to live."""


def record(old: Item | None, new: Item | None, at: float) -> dict[str, Any]:
    event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    row = new or old
    assert row
    images = {name: dict(image) for name, image in (("NewImage", new), ("OldImage", old)) if image}
    return {
        "eventID": f"{next(_NUMBERS):032x}",
        "eventName": event,
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "ApproximateCreationDateTime": at,
            "Keys": {name: row[name] for name in ("pk", "sk")},
            "SequenceNumber": f"{next(_NUMBERS):021}",
            **images,
        },
    }


def sealed_records(changes: Changes, at: int) -> Iterator[dict[str, Any]]:
    for old, new in changes:
        if old == new:
            continue
        one = record(old, new, at)
        pk = one["dynamodb"]["Keys"]["pk"]["S"]
        if one["eventName"] != "MODIFY":
            passes = pk.startswith(lines.KINDS)
        else:
            passes = pk.startswith(lines.IMMUTABLE) or (
                pk.startswith("SETTLEMENT#") and is_unlawful(*map(status_of, (old, new)))
            )
        if passes:
            yield one


def status_of(row: Item | None) -> str | None:
    return (row or {}).get("status", {}).get("S")


def is_unlawful(old: str | None, new: str | None) -> bool:
    """Return whether a change revives a payment that must not be paid."""
    if old is None or new is None:
        return new is None
    unpaid = ("COMPENSATED", "REJECTED")
    return (old in unpaid and new not in unpaid) or (new == "PROCESSING" and old != new)
