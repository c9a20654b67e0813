"""ProjectEntries: take what the sealed journal has, and the books lack, into Aurora, on a schedule."""

from typing import Any

from handlers import _dependencies
from handlers.books import _stage as _books
from settlement.books.rounds import Progress, Round, catch_up
from settlement.core.telemetry import gauge, logger, note, observed

RESERVED_MS = 60_000
"""The least time left to begin an object, or to wait for the database: a statement may take 45 s. One that is
cut off is rolled back, and comes again.
"""

RESUMING_SECONDS = 5
"""The pause between two calls of a database that comes back from its own pause, which takes 15 s and more."""

LINES_MAX = 100
"""Most objects that are named in the log. The metric counts all of them."""

_progress = Progress()
"""What this environment knows to be in the books. Without it, a round asks them."""


@observed("project")
def handler(event: Any, context: Any) -> None:
    """Take each object of the journal that is not in the books, once, and tell how far behind they are.

    Two rounds at once do no harm. A round that dies leaves all of an object in the books, or nothing. What a
    round cannot read, or the books refuse, is left out, counted, and tried again by the next one. Raises
    BooksUnavailable or JournalUnavailable if one of them is away: then the next round takes what waits.
    """

    def has_time() -> bool:
        return bool(context.get_remaining_time_in_millis() >= RESERVED_MS)

    def waits() -> bool:
        if has_time():
            _books.pause(RESUMING_SECONDS)
        return has_time()

    done = Round()
    try:
        catch_up(_books.books(waits), _books.Journal(), _progress, done, _dependencies.now(), has_time)
    finally:
        _tell(done)


def _tell(done: Round) -> None:
    """Publish what a round has done. An unknown level is not published: 0 would end an alarm."""
    now = _dependencies.now()
    behind = done.behind_seconds(now)
    if behind is not None:
        gauge("BooksBehindSeconds", behind)
    left_out = len(done.left_out) + _progress.put_aside_lately(now)
    if left_out or done.has_ended:
        gauge("BooksLeftOut", left_out)
    if _progress.whole is not None:
        gauge("BooksLate", done.late)
    for name in ("objects", "entries", "put_aside", "late"):
        note(name, getattr(done, name))
    for fault in done.left_out[:LINES_MAX]:
        name, _, reason = fault.partition(": ")
        logger.error("object left out", object=name, reason=reason)
