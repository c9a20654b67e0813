from datetime import UTC, datetime, timedelta


def timestamp(moment: datetime) -> str:
    """A time as UTC text. Its fixed width makes texts sort in time order."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(stored: str, now: datetime) -> int:
    """Whole seconds from `stored` to `now`. 0 if `stored` is later: clocks differ."""
    return max(0, (now - datetime.fromisoformat(stored)) // timedelta(seconds=1))
