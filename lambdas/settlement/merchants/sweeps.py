"""What has to be swept: pure decisions."""

import re
from collections.abc import Iterable

from settlement.core.ledger import keys
from settlement.core.model import accounts
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step
from settlement.merchants.sweep import Span, minute_and_second

Release = tuple[str, str]
"""The partition and the sort key of a merchant's entry."""

NO_RELEASE = "release: must be the place of a merchant's entry"

_ADDRESS = re.compile(r"ENTRIES#merchant\.[^#]*#\d+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.Z].*", re.DOTALL)
"""A partition of a merchant's entries and the sort key of one of them, as `keys.entry` makes them."""


def releases(message: object) -> tuple[list[Release], list[object]]:
    """Return the releases of a message, and what else it has. Raises ValueError if it is no list."""
    if type(message) is not list:
        raise ValueError("message: must be a list of releases")
    return [(one[0], one[1]) for one in message if _is_release(one)], [
        one for one in message if not _is_release(one)
    ]


def _is_release(one: object) -> bool:
    is_pair = type(one) is list and [type(name) for name in one] == [str, str]
    return is_pair and bool(_ADDRESS.fullmatch(" ".join(one)))  # type: ignore[arg-type]


def bucket(release: Release) -> tuple[str, str]:
    """Return the partition and the minute of a release: those of its span."""
    partition, sort_key = release
    return partition, minute_and_second(sort_key)[0]


def spans(entries: Iterable[Release]) -> list[Span]:
    """Return the spans that cover these entries of merchants, each given by its partition and sort key.

    There is one for each partition and minute, however many entries it has.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for partition, sort_key in entries:
        minute, second = minute_and_second(sort_key)
        found.setdefault((partition, minute), set()).add(second)
    return sorted(Span(*place, min(seconds), max(seconds)) for place, seconds in found.items())


def before_refund(state: SettlementState) -> Span | None:
    """Return the second to sweep before a merchant gives a release back; None if there is nothing to take.

    The release follows from the settlement's row, as every entry does.
    """
    if not accounts.is_merchant(state.settlement.payee) or Step.RELEASE not in state.unreversed:
        return None
    posted_at = state.steps[Step.RELEASE]
    entry = keys.entry(state.settlement.payee, posted_at, state.key, Step.RELEASE)
    minute, second = minute_and_second(posted_at)
    return Span(entry["pk"], minute, second, second)
