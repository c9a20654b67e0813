"""Outcome events of payments in the bus's form."""

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
"""A payment's statuses by event, from sequence 1."""

PAID = {"SETTLED": "PAID", "REJECTED": "NOT_PAID", "COMPENSATED": "NOT_PAID"}
"""An order's state after a final event; otherwise it is PENDING."""

_SETTLED, _REJECTED, _ = json.loads((CONTRACTS / f"{OUTCOME}.schema.json").read_text())["examples"]


def event(key: str, sequence: int, status: str) -> dict[str, Any]:
    """Return an EventBridge event: an envelope with the CloudEvent as detail."""
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
    return [json.dumps(event(key, number, status)) for number, status in enumerate(statuses, start=1)]
