"""Outcome events of payments in the bus's form."""

import json
from collections.abc import Callable
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


Change = Callable[[dict[str, Any]], object]

CHANGES: list[tuple[Change, str]] = [
    (lambda detail: detail.pop("sequence"), "no outcome event: KeyError 'sequence'"),
    (lambda detail: detail.update(data=None), "no outcome event: TypeError "),
    *(
        (lambda detail, wrong=wrong: detail.update(sequence=wrong), "sequence: must match ")
        for wrong in (4, "0", "4\n", "٤")
    ),
    *(
        (lambda detail, wrong=wrong: detail.update(subject=wrong), "subject: must match ")
        for wrong in ("", "short", "x" * 65)
    ),
    *(
        (lambda detail, wrong=wrong: detail["data"].update(status=wrong), "data.status: must match ")
        for wrong in ("PAID", None)
    ),
]
"""Changes that make an event malformed, and the start of a reader's error."""

TEXTS = [
    ("{", "no outcome event: JSONDecodeError "),
    ("[]", "no outcome event: TypeError "),
    ('{"id": "1"}', "no outcome event: KeyError 'detail'"),
    ("[" * 100_000, "no outcome event: RecursionError "),
]


def bad_messages(key: str) -> list[tuple[str, str]]:
    """Return messages that are not outcome events, and the start of a reader's error for each."""
    unknown = "order-2026-000999"
    gone: tuple[Change, str] = (
        lambda detail: detail.update(subject=unknown),
        f"subject: no order has the payment {unknown}",
    )
    found = [*TEXTS]
    for change, words in (*CHANGES, gone):
        bad = event(key, 4, "SETTLED")
        change(bad["detail"])
        found.append((json.dumps(bad), words))
    return found
