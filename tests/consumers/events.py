"""The outcome events of payments, as the bus hands them to its readers."""

import json
from typing import Any

from settlement.core.model.status import Status
from tests.unit.states import next_of
from tests.world.contracts import CONTRACTS, OUTCOME, checked_outcome

HISTORIES = (
    ("PROCESSING", "PROCESSING", "PROCESSING", "SETTLED"),
    ("REJECTED",),
    ("PROCESSING", "COMPENSATING", "COMPENSATED"),
    ("PROCESSING", "PROCESSING", "SETTLED", "COMPENSATING", "LIMBO", "COMPENSATING", "COMPENSATED"),
    ("PROCESSING", "COMPENSATING", "LIMBO", "SETTLED", "SETTLED"),
)
"""The statuses of a payment, event by event: sequence 1, 2, and so on."""

PAID = {"SETTLED": "PAID", "REJECTED": "NOT_PAID", "COMPENSATED": "NOT_PAID"}
"""What an order is after an event with a final status; after any other it is PENDING."""

_SETTLED, _REJECTED, _ = json.loads((CONTRACTS / f"{OUTCOME}.schema.json").read_text())["examples"]


def event(key: str, sequence: int, status: str) -> dict[str, Any]:
    """Return EventBridge's event: an envelope of its own, and the CloudEvent as its detail."""
    name = f"settlement.{status.lower()}"
    data = (_SETTLED if status in ("SETTLED", "PROCESSING") else _REJECTED) | {"key": key, "status": status}
    data |= {"next": next_of(Status(status), data["failure"])}
    data |= {} if status in PAID else {"finished_at": None}
    return {
        "version": "0",
        "id": f"envelope-{key}-{sequence}",
        "source": "settlement",
        "detail-type": name,
        "detail": {
            "specversion": "1.0",
            "id": f"{key}:{sequence}",
            "source": "settlement-dev",
            "type": name,
            "subject": key,
            "time": "2026-11-23T06:00:00Z",
            "datacontenttype": "application/json",
            "sequence": str(sequence),
            "sequencetype": "Integer",
            "data": checked_outcome(data),
        },
    }


def history(key: str, statuses: tuple[str, ...]) -> list[str]:
    """Return the bodies of a payment's messages, in the order of its events."""
    return [json.dumps(event(key, number, status)) for number, status in enumerate(statuses, start=1)]
