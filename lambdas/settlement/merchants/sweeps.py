import re
from collections.abc import Iterable

from settlement.core.ledger import keys
from settlement.core.model import accounts
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step
from settlement.merchants.sweep import Span, minute_and_second

Release = tuple[str, str]

NO_RELEASE = "release: must be the place of a merchant's entry"

_ADDRESS = re.compile(r"ENTRIES#merchant\.[^#]*#\d+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.Z].*", re.DOTALL)
"""A release's partition and sort key (see `keys.entry`), joined by a blank."""


def releases(message: object) -> tuple[list[Release], list[object]]:
    """Split a message into releases and other content. Raises ValueError."""
    if type(message) is not list:
        raise ValueError("message: must be a list of releases")
    return [(one[0], one[1]) for one in message if _is_release(one)], [
        one for one in message if not _is_release(one)
    ]


def _is_release(one: object) -> bool:
    is_pair = type(one) is list and [type(name) for name in one] == [str, str]
    return is_pair and bool(_ADDRESS.fullmatch(" ".join(one)))  # type: ignore[arg-type]


def bucket(release: Release) -> tuple[str, str]:
    partition, sort_key = release
    return partition, minute_and_second(sort_key)[0]


def spans(entries: Iterable[Release]) -> list[Span]:
    found: dict[tuple[str, str], set[str]] = {}
    for partition, sort_key in entries:
        minute, second = minute_and_second(sort_key)
        found.setdefault((partition, minute), set()).add(second)
    return sorted(Span(*place, min(seconds), max(seconds)) for place, seconds in found.items())


def before_refund(state: SettlementState) -> Span | None:
    """The one-second span to sweep before a refund, or None."""
    if not accounts.is_merchant(state.settlement.payee) or Step.RELEASE not in state.unreversed:
        return None
    posted_at = state.steps[Step.RELEASE]
    entry = keys.entry(state.settlement.payee, posted_at, state.key, Step.RELEASE)
    minute, second = minute_and_second(posted_at)
    return Span(entry["pk"], minute, second, second)
