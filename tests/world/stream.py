"""The records of the table's stream, as Lambda delivers those that a filter lets pass."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from settlement.sealing import lines
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

_NUMBERS = count(1)


def record(old: Item | None, new: Item | None, at: int) -> dict[str, Any]:
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
        kinds = lines.IMMUTABLE if one["eventName"] == "MODIFY" else lines.KINDS
        if one["dynamodb"]["Keys"]["pk"]["S"].startswith(kinds):
            yield one
