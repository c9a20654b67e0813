import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle import instants
from settle.books import project, schema
from settle.exit_codes import CommandFailed, Exit
from settlement.books.page import Projected
from settlement.core.model.errors import JournalUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.journal.objects import Copy


def rounds(url: str, copy: Copy, every_seconds: int) -> Iterator[dict[str, Any]]:
    """Copy new entries every `every_seconds`, for ever. Yield each round's result.

    `behind_seconds` counts from the start of the latest round that skipped no object. None: no such round
    yet. A failure of PostgreSQL or the journal is the round's `fault`; the next round catches up. Raises
    CommandFailed for a wrong URL or a missing schema.
    """
    whole_at: datetime | None = None
    while True:
        begun, done, fault = instants.now(), Projected(), None
        try:
            with schema.books(url) as connection:
                project.project_all(connection, copy, done)
            if not done.unreadable:
                whole_at = begun
        except CommandFailed as failed:
            if failed.code is not Exit.FAILED:
                raise
            fault = str(failed)
        except (ClientError, BotoCoreError, JournalUnavailable, OSError) as failed:
            fault = f"journal: {failed}"
        behind = None if whole_at is None else int((instants.now() - whole_at).total_seconds())
        yield {"at": timestamp(begun), **asdict(done), "behind_seconds": behind, "fault": fault}
        time.sleep(every_seconds)
