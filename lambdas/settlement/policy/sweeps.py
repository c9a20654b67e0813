"""What has to be swept: pure decisions."""

import re
from collections.abc import Iterable

from settlement.ledger import keys
from settlement.ledger.sweep import Span, minute_and_second
from settlement.model import accounts
from settlement.model.state import SettlementState
from settlement.model.status import Step

_ADDRESS = re.compile(r"ENTRIES#merchant\.[^#]+#\d+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.Z].*", re.DOTALL)
"""A partition of a merchant's entries and the sort key of one of them, as `keys.entry` makes them."""


def releases(message: object) -> list[tuple[str, str]]:
    """Return the partitions and sort keys of a message. Raises ValueError if it has anything else."""
    if type(message) is not list:
        raise ValueError("message: must be a list of releases")
    for one in message:
        if type(one) is not list or [type(name) for name in one] != [str, str]:
            raise ValueError("release: must be a partition and a sort key")
        if not _ADDRESS.fullmatch(" ".join(one)):
            raise ValueError("release: must be the place of a merchant's entry")
    return [(partition, sort_key) for partition, sort_key in message]


def spans(entries: Iterable[tuple[str, str]]) -> list[Span]:
    """Return the spans that cover these entries of merchants, each given by its partition and sort key.

    There is one for each partition and minute, however many entries it has.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for partition, sort_key in entries:
        minute, second = minute_and_second(sort_key)
        found.setdefault((partition, minute), set()).add(second)
    return sorted(Span(*bucket, min(seconds), max(seconds)) for bucket, seconds in found.items())


def before_refund(state: SettlementState | None) -> Span | None:
    """Return the second to sweep before a merchant gives a release back; None if there is nothing to take.

    The release follows from the settlement's row, as every entry does.
    """
    if state is None or not accounts.is_merchant(state.settlement.payee):
        return None
    if Step.RELEASE not in state.unreversed:
        return None
    posted_at = state.steps[Step.RELEASE]
    entry = keys.entry(state.settlement.payee, posted_at, state.key, Step.RELEASE)
    minute, second = minute_and_second(posted_at)
    return Span(entry["pk"], minute, second, second)
