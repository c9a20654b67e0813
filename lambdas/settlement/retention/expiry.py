"""The end of an entry's time in the table: DynamoDB deletes it, by an attribute that it is put with.

Only entries expire of which the settlement's row tells everything. The row stays: it is the idempotency
record. What a person has ordered (deposits, withdrawals, decisions on LIMBO) and evidence stay as well.
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
"""The attribute that DynamoDB's time to live goes by: seconds since 1970."""

STEPS = frozenset(name for step in REVERSIBLE for name in (step.value, step.reversal))
"""The steps whose entries expire: a slot of the settlement's row stands for each."""

DAY_SECONDS = 86_400

_SLACK = timedelta(days=1)
"""How much earlier than at its time an entry may be missing: longer than a reading of the table takes, and
than clocks differ. The stream names each deletion that is not DynamoDB's own.
"""


def gone_until(now: datetime) -> datetime:
    """Return the full minute up to which entries may be gone, for a reading that begins now."""
    return (now + _SLACK).replace(second=0, microsecond=0)


def kept_from(now: datetime, days: int) -> str:
    """Return the instant from which a stage with this shortest retention still has every entry."""
    return timestamp(gone_until(now) - timedelta(days=days))


def adds(config: StageConfig) -> Callable[[Row], Row]:
    """Return what gives a row that is put the end of its time on a stage."""
    return partial(with_expiry, retention_days=config.retention_days)


def with_expiry(row: Row, retention_days: int | None) -> Row:
    """Return a new row with the end of its time, or as it is if it stays for ever."""
    if retention_days is None or not (keys.is_entry(row) and row["step"] in STEPS):
        return row
    return {**row, EXPIRES: _second(row["posted_at"]) + retention_days * DAY_SECONDS}


def may_expire(row: Row, least_days: int | None) -> bool:
    """Return whether a row with an end of its time is an entry that may have this one.

    That is whole days after it was posted, and at least as many as the stage's shortest retention.
    """
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
