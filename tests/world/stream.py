"""The records of the table's stream, as Lambda delivers those that a filter lets pass."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from settlement.journal import lines
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

_NUMBERS = count(1)

TIME_TO_LIVE = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
"""What a record says beside the change, if DynamoDB's time to live has deleted a row."""


def record(old: Item | None, new: Item | None, at: float) -> dict[str, Any]:
    """Return the record of a row's change, at a time in seconds."""
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
    """Yield the records of a commit that SealJournal gets."""
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
    """Return whether a payment that was not to be paid could be paid by a change of its status."""
    if old is None or new is None:
        return new is None
    unpaid = ("COMPENSATED", "REJECTED")
    return (old in unpaid and new not in unpaid) or (new == "PROCESSING" and old != new)
