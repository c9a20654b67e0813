from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from settle.instants import seconds_since
from settle.reports.timeline import duration

_BARS = "▁▂▃▄▅▆▇█"


def line(moments: Sequence[tuple[str, str]]) -> str:
    """Return bars for the gaps between instants. A malformed instant has no bar."""
    gaps = [
        (name, seconds)
        for (_, before), (name, at) in pairwise(moments)
        if (seconds := _between(before, at)) is not None
    ]
    if not gaps:
        return ""
    name, most = max(gaps, key=lambda gap: gap[1])
    bars = "".join(_bar(seconds, most) for _, seconds in gaps)
    return f"{bars}  {duration(sum(seconds for _, seconds in gaps))}, of which {duration(most)} before {name}"


def _bar(seconds: float, most: float) -> str:
    return _BARS[round((len(_BARS) - 1) * max(0.0, seconds) / most) if most > 0 else 0]


def _between(before: str, at: str) -> float | None:
    try:
        return seconds_since(before, datetime.fromisoformat(str(at)))
    except ValueError:
        return None
