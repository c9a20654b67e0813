from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import aws_dynamodb as dynamodb

from .core import Added, Core, Room
from .settings import LOCK_DAYS_MAX, CoreSettings
from .table import EXPIRES

_DAYS_MIN = 400
"""Minimum: longer than a Standard execution (a year), a redrive, or a card payment's dispute."""


@dataclass(frozen=True, kw_only=True)
class RetentionSettings(CoreSettings):
    """Settings of the retention. See docs/decisions/2026-11-22-retention.md.

    - `retention_days`: the age at which entries are deleted. None: never.
    - `shortest_retention_days`: the stage's shortest retention ever, by default `retention_days`. Never raise
      or remove it.
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
        found = {
            "retention_days": self.retention_days,
            "shortest_retention_days": self.shortest_retention_days or self.retention_days,
        }
        return super().rules() | found


def build(core: Core, settings: RetentionSettings) -> Added:
    if settings.retention_days is not None:
        table = cast("dynamodb.CfnTable", core.ledger.own.node.default_child)
        table.time_to_live_specification = dynamodb.CfnTable.TimeToLiveSpecificationProperty(
            attribute_name=EXPIRES, enabled=True
        )
    return Added()


ROOM = Room(build=build)
