from typing import Any

from handlers import _dependencies
from settlement.books import stage
from settlement.books.rounds import Progress, Round, catch_up
from settlement.core.telemetry import gauge, logger, note, observed

RESERVED_MS = 60_000
"""Minimum time left to begin a journal object or to wait for the database. A statement may take 45 s."""

RESUMING_SECONDS = 5
"""Pause between tries while the database resumes. It takes 15 s or more."""

LINES_MAX = 100
"""Maximum faults logged. The metric counts all."""

_progress = Progress()


@observed("project")
def handler(event: Any, context: Any) -> None:
    """Project each journal object that the books lack, and publish the books' lag.

    The next round retries unreadable and refused objects. It also continues after BooksUnavailable or
    JournalUnavailable.
    """

    def has_time() -> bool:
        return bool(context.get_remaining_time_in_millis() >= RESERVED_MS)

    def waits() -> bool:
        if has_time():
            stage.pause(RESUMING_SECONDS)
        return has_time()

    done = Round()
    try:
        catch_up(stage.books(waits), stage.Journal(), _progress, done, _dependencies.now(), has_time)
    finally:
        _tell(done)


def _tell(done: Round) -> None:
    """Publish the known metrics. An unknown metric is left out, because a 0 would end an alarm."""
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
