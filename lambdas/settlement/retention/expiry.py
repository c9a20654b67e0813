"""Expiry of entries by DynamoDB's time to live.

An entry expires only if the settlement's row has all its facts. This row is the idempotency record, and
stays. Evidence and persons' orders stay, too.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.saga import REVERSIBLE
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp

EXPIRES = "expires_at"
"""DynamoDB's time-to-live attribute, in seconds since 1970."""

STEPS = frozenset(name for step in REVERSIBLE for name in (step.value, step.reversal))
"""Steps whose entries expire. The settlement's row has a slot for each."""

DAY_SECONDS = 86_400

_SLACK = timedelta(days=1)
"""Margin for expiry during a table scan. A scan takes less time, and clocks differ by less."""


def gone_until(now: datetime) -> datetime:
    """The full minute up to which entries may expire during a scan that begins now."""
    return (now + _SLACK).replace(second=0, microsecond=0)


def kept_from(now: datetime, days: int) -> str:
    """The earliest time of posting from which no entry has expired. `days` is the shortest retention."""
    return timestamp(gone_until(now) - timedelta(days=days))


def adds(config: StageConfig) -> Callable[[Row], Row]:
    return partial(with_expiry, retention_days=config.retention_days)


def with_expiry(row: Row, retention_days: int | None) -> Row:
    if retention_days is None or not (keys.is_entry(row) and row["step"] in STEPS):
        return row
    return {**row, EXPIRES: _second(row["posted_at"]) + retention_days * DAY_SECONDS}


def may_expire(row: Row, least_days: int | None) -> bool:
    """Whether an entry's expiry is valid: whole days after posting, and not before the shortest retention."""
    expires, posted_at, step = row.get(EXPIRES), row.get("posted_at"), row.get("step")
    if not (type(expires) is int and isinstance(posted_at, str) and isinstance(step, str)):
        return False
    if least_days is None or not keys.is_entry(row) or step not in STEPS:
        return False
    try:
        kept_seconds = expires - _second(posted_at)
    except ValueError:
        return False
    return kept_seconds >= least_days * DAY_SECONDS and kept_seconds % DAY_SECONDS == 0


def _second(posted_at: str) -> int:
    return int(datetime.fromisoformat(posted_at).timestamp())
