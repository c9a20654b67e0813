import re
from datetime import UTC, datetime, timedelta

from settle.exit_codes import CommandFailed, Exit

_AGE = re.compile(r"([0-9]+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def now() -> datetime:
    return datetime.now(UTC)


def parse(text: str, at: datetime, name: str = "since") -> datetime:
    """Parse an instant: ISO 8601 with an offset, or an age before `at` such as 90m.

    Raises CommandFailed for other texts and future instants.
    """
    try:
        if age := _AGE.fullmatch(text):
            return at - timedelta(**{_UNITS[age[2]]: int(age[1])})
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            raise ValueError
        instant = instant.astimezone(UTC)
    except (ValueError, OverflowError):
        raise CommandFailed(
            Exit.USAGE,
            f"{name}: {text!r} must be an instant such as 2026-11-20T09:30:00Z, its offset included,"
            " or an age such as 90m, 2h or 3d",
        ) from None
    if instant > at:
        raise CommandFailed(Exit.USAGE, f"{name}: {text} is in the future")
    return instant


def between(since: str, until: str | None, at: datetime) -> tuple[datetime, datetime]:
    """Return `--since` (inclusive) and `--until` (exclusive, by default `at`). Raises CommandFailed."""
    begin = parse(since, at)
    end = parse(until, at, "until") if until is not None else at
    if end <= begin:
        raise CommandFailed(Exit.USAGE, f"until: {until or 'now'} must be after --since {since}")
    return begin, end


def distance(instant: str, at: datetime) -> str:
    seconds = int((at - datetime.fromisoformat(instant)).total_seconds())
    return f"in {span(-seconds)}" if seconds < 0 else f"{span(seconds)} ago"


def seconds_since(instant: object, at: datetime) -> float | None:
    try:
        return (at - datetime.fromisoformat(str(instant))).total_seconds()
    except (ValueError, TypeError):
        return None


def lapse(seconds: float) -> str:
    """Format a duration: "5 min", "2 h 10 min", "3 d 4 h"."""
    minutes, rest = divmod(int(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days or hours:
        parts = ((days, "d"), (hours, "h")) if days else ((hours, "h"), (minutes, "min"))
        return " ".join(f"{count} {unit}" for count, unit in parts if count)
    return f"{minutes} min" if minutes else f"{rest} s"


def span(seconds: int) -> str:
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        parts.append((count, name))
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    greatest = parts[first : first + 2]
    return " ".join(f"{count}{name}" for place, (count, name) in enumerate(greatest) if count or not place)
