from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")

STRIDE = 1000
"""Items between two calls of the watch: few calls are cheap, and still stop in time."""

Watch = Callable[[str, int], None]
"""Takes a phase, and the number of items done in it. May raise CutOff."""

READING, JUDGING, LOOKING = (
    "reading rows",
    "judging settlements and accounts",
    "looking again at a row of kind",
)


class CutOff(Exception):
    """Ends a reconciliation early. The message is the reason."""


class TooLong(CutOff):
    """Ends a single second look (a re-check of one difference). The reconciliation goes on."""


def looking_again(kind: str) -> str:
    """Name a second look's phase, whose items are rows."""
    return f"{LOOKING} {kind}"


def unwatched(phase: str, done: int) -> None:
    """A watch that never ends a reconciliation early."""


def watched(items: Iterable[_Item], phase: str, watch: Watch) -> Iterator[_Item]:
    """Yield the items, and report their number to the watch. Raises CutOff."""
    done = 0
    watch(phase, done)
    for done, item in enumerate(items, start=1):
        yield item
        if done % STRIDE == 0:
            watch(phase, done)
    watch(phase, done)
