from datetime import UTC, datetime, timedelta, timezone

import pytest

from settle import instants
from settle.exit_codes import CommandFailed, Exit
from tests.world.environment import NOW


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0s", NOW),
        ("45s", NOW - timedelta(seconds=45)),
        ("90m", NOW - timedelta(minutes=90)),
        ("2h", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("2026-11-20T09:30:00Z", datetime(2026, 11, 20, 9, 30, tzinfo=UTC)),
        ("2026-11-20T09:30+01:00", datetime(2026, 11, 20, 8, 30, tzinfo=UTC)),
        ("2026-11-20T09:30:00.123456Z", datetime(2026, 11, 20, 9, 30, 0, 123456, tzinfo=UTC)),
    ],
)
def test_a_time_or_an_age_is_parsed(text: str, meant: datetime) -> None:
    found = instants.parse(text, NOW)

    assert (found, found.tzinfo) == (meant, UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "m", "90", "-3d", "1.5h", "3 d", "3D", "1h30m", "1w", "yesterday", "٣d"),
        *("2026-11-20", "2026-11-20T09:30:00", "2026-13-01T00:00:00Z", "09:30Z"),
        *("9999999999d", "99999999999999999999d", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_an_invalid_instant_or_age_is_refused_with_examples(text: str) -> None:
    with pytest.raises(CommandFailed) as told:
        instants.parse(text, NOW)

    assert told.value.code is Exit.USAGE
    assert "such as 2026-11-20T09:30:00Z, its offset included, or an age such as 90m" in str(told.value)


def test_a_future_time_is_refused_whatever_its_utc_offset() -> None:
    later = (NOW + timedelta(milliseconds=1)).astimezone(timezone(timedelta(hours=-9)))

    assert instants.parse(NOW.isoformat(), NOW) == NOW
    with pytest.raises(CommandFailed) as told:
        instants.parse(later.isoformat(), NOW)

    assert (told.value.code, "is in the future" in str(told.value)) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s ago"),
        (59, "59s ago"),
        (60, "1m ago"),
        (200, "3m 20s ago"),
        (3_605, "1h ago"),
        (93_720, "1d 2h ago"),
        (-1, "in 1s"),
        (-7_260, "in 2h 1m"),
    ],
)
def test_an_age_is_shown_in_its_two_greatest_units(seconds: int, text: str) -> None:
    assert instants.distance((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_605, "1 h"),
        (-7_260, "2 h 1 min"),
        (93_720, "1 d 2 h"),
        (86_460, "1 d"),
    ],
)
def test_a_duration_is_shown_in_readable_units(seconds: float, text: str) -> None:
    assert instants.lapse(seconds) == text
