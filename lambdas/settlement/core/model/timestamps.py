"""UTC instants as the table stores them."""

from datetime import UTC, datetime, timedelta


def timestamp(moment: datetime) -> str:
    """Return a UTC instant as text of fixed width: the order of the texts is the order of the instants."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(stored: str, now: datetime) -> int:
    """Return the age of a stored instant in whole seconds; 0 for one that lies ahead of this clock."""
    return max(0, (now - datetime.fromisoformat(stored)) // timedelta(seconds=1))
