"""The retention of entries: how long a stage keeps them in its table."""

from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import aws_dynamodb as dynamodb

from infra.core import Added, Core, Room
from infra.settings import LOCK_DAYS_MAX, CoreSettings
from infra.table import EXPIRES

_DAYS_MIN = 400
"""Longer than a Standard execution may run (a year), than a redrive, and than a card's payment may be
disputed: no entry goes that a function, a sweep or a person may still need.
"""


@dataclass(frozen=True, kw_only=True)
class RetentionSettings(CoreSettings):
    """The retention of entries.

    An entry is deleted `retention_days` after it was posted; None keeps it for ever. The shortest time
    that the stage has ever given its entries is `shortest_retention_days`, which is `retention_days` if left
    out. It is never raised or taken away: see docs/decisions/2026-11-22-retention.md.
    """

    retention_days: int | None = None
    shortest_retention_days: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        days, shortest = self.retention_days, self.shortest_retention_days
        for name, value in (("retention_days", days), ("shortest_retention_days", shortest)):
            if value is not None and not _DAYS_MIN <= value <= LOCK_DAYS_MAX:
                raise ValueError(f"{name}: must be from {_DAYS_MIN} to {LOCK_DAYS_MAX}, or None")
        if days is not None and shortest is not None and shortest > days:
            raise ValueError("shortest_retention_days: must be at most retention_days")

    def rules(self) -> dict[str, Any]:
        """Add the business rules of this room."""
        found = {
            "retention_days": self.retention_days,
            "shortest_retention_days": self.shortest_retention_days or self.retention_days,
        }
        return super().rules() | found


def build(core: Core, settings: RetentionSettings) -> Added:
    """Let the entries of the stack's own table expire."""
    if settings.retention_days is not None:
        table = cast("dynamodb.CfnTable", core.ledger.own.node.default_child)
        table.time_to_live_specification = dynamodb.CfnTable.TimeToLiveSpecificationProperty(
            attribute_name=EXPIRES, enabled=True
        )
    return Added()


ROOM = Room(build=build)
