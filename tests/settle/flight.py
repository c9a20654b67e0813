"""Settlements in flight, put into the table without conditions."""

from datetime import timedelta
from typing import Any

from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from tests.settle.desk import Desk
from tests.world.environment import NOW


def at(seconds: int) -> str:
    return timestamp(NOW + timedelta(seconds=seconds))


def key_of(number: int) -> str:
    return f"order-2026-{number:06}"


def claimed(desk: Desk, number: int = 1, *, due: int = 30, ago: int = 0, **extra: Any) -> Row:
    """Put a settlement claimed `ago` seconds before NOW and due `due` seconds after NOW."""
    settlement = Settlement(
        key=key_of(number), payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
    )
    claim = forward.claim(settlement, f"{settlement.key}-1", NOW - timedelta(seconds=ago), desk.stack.config)
    row: Row = {**claim.parameters["Item"], "gsi1sk": at(due), **extra}
    desk.ledger.put(row)
    return row


def finished(desk: Desk, number: int = 1, *, status: str = "SETTLED", **extra: Any) -> Row:
    """Put a finished settlement, which is not in the index."""
    row = claimed(desk, number, status=status, finished_at=at(1), **extra)
    row = {name: value for name, value in row.items() if name not in ("gsi1pk", "gsi1sk")}
    desk.ledger.put(row)
    return row


def stuck(desk: Desk, number: int = 1, *, since: int = 0, **extra: Any) -> Row:
    """Put a settlement in LIMBO, `since` seconds after NOW, because Bob has spent 47.72 EUR."""
    return claimed(
        *(desk, number),
        **{
            "status": Status.LIMBO,
            **{f"{step}_at": at(since - 1) for step in ("hold", "verify", "release")},
            "escrow": 48,
            "stuck_step": "compensate:release",
            "failure": {"step": "compensate:release", "error": "InsufficientFunds", "cause": "spent"},
            **keys.limbo_index(at(since)),
            **extra,
        },
    )
