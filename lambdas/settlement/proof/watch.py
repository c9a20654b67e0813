"""The watch over a reconciliation: how far it has come, and whether it goes on."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")

STRIDE = 1000
"""Items between two questions: often enough for a clock, and too seldom to count."""

Watch = Callable[[str, int], None]
"""A function that is told a phase (`READING`, `JUDGING`, or `looking_again`) and the items done in it.

May raise CutOff.
"""

READING, JUDGING, LOOKING = (
    "reading rows",
    "judging settlements and accounts",
    "looking again at a row of kind",
)


class CutOff(Exception):
    """The reconciliation ends before it has judged the whole table. The message is the reason."""


class TooLong(CutOff):
    """A second look ends before it is done; the reconciliation goes on. The message is the reason."""


def looking_again(kind: str) -> str:
    """Return the phase of a second look at a row of this kind: its items are the rows that it reads."""
    return f"{LOOKING} {kind}"


def unwatched(phase: str, done: int) -> None:
    """Let a reconciliation take the time that it needs."""


def watched(items: Iterable[_Item], phase: str, watch: Watch) -> Iterator[_Item]:
    """Yield the items, and tell the watch how many there were. Raises CutOff as the watch does."""
    done = 0
    watch(phase, done)
    for done, item in enumerate(items, start=1):
        yield item
        if done % STRIDE == 0:
            watch(phase, done)
    watch(phase, done)
