"""The folder of the embedded AWS: its record, its files, and the CDK CLI."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from platformdirs import user_state_path

from settle.exit_codes import CommandFailed, Exit
from settle.local import record
from settle.local.record import Running


def _home() -> Path:
    if named := os.environ.get("SETTLE_HOME"):
        return Path(named)
    return record.PROJECT / ".settle" if record.IN_CHECKOUT else user_state_path("settle", appauthor=False)


HOME = _home().resolve()

STATE = HOME / "local.json"
SCRATCH = HOME / "embedded"
"""The running embedded AWS's files, removed with it."""


@contextmanager
def usable() -> Iterator[None]:
    """Raise CommandFailed with the remedy if the folder cannot be used."""
    try:
        yield
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        told = f"{error.filename}: {error.strerror}; name a folder of yours by SETTLE_HOME"
        raise CommandFailed(Exit.FAILED, told) from error


def read() -> Running | None:
    try:
        with usable():
            return Running(**json.loads(STATE.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError, OverflowError):
        return None


def write(running: Running) -> None:
    """Write the record, which may have a password, atomically: a crash leaves the old record."""
    unfinished = STATE.with_suffix(".new")
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(asdict(running)))
    unfinished.replace(STATE)
