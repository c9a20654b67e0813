from datetime import UTC, datetime, timedelta


def timestamp(moment: datetime) -> str:
    """Fixed-width UTC text sorts in time order."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(stored: str, now: datetime) -> int:
    """Whole seconds; 0 if `stored` is ahead of this clock."""
    return max(0, (now - datetime.fromisoformat(stored)) // timedelta(seconds=1))
