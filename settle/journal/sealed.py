from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.journal.copy import Bucket, Directory
from settlement.journal.objects import Copy
from settlement.proof import CutOff, sealed_copy

OF_THE_STACK = "stack"
"""Command-line name of the stack's own bucket."""


def compare(stack: Stack, against: str, kept: str | None) -> dict[str, Any]:
    """Compare the table with a sealed journal: `stack`, `s3://BUCKET/PREFIX` or a directory.

    `kept` is the digest of an earlier seal, kept elsewhere. Raises CommandFailed if the disk is full.
    """
    with whole():
        found = sealed_copy.compare(
            stack.store,
            copy(stack, against),
            datetime.now(UTC),
            kept,
            shortest_retention_days=stack.config.shortest_retention_days,
        )
    return {"agrees": not found.faults, "against": against, **vars(found)}


@contextmanager
def whole() -> Iterator[None]:
    """Raise CommandFailed if something ends the block's comparison early."""
    try:
        yield
    except CutOff as reason:
        raise CommandFailed(Exit.FAILED, f"the sealed journal is not compared: {reason}") from None


def copy(stack: Stack, against: str, option: str = "against") -> Copy:
    """Return a sealed journal. Raises CommandFailed for an unknown place."""
    if against == OF_THE_STACK:
        return Bucket(stack.client("s3"), bucket(stack))
    if against.startswith("s3://"):
        name, _, prefix = against.removeprefix("s3://").partition("/")
        return Bucket(stack.client("s3"), name, prefix)
    if not Path(against).is_dir():
        raise CommandFailed(Exit.USAGE, f"{option}: must be stack, s3://BUCKET/PREFIX or a directory")
    return Directory(Path(against))


def bucket(stack: Stack) -> str:
    if "JournalBucket" not in stack.outputs:
        raise CommandFailed(Exit.NOT_FOUND, f"stack {stack.name}: has no sealed journal yet; deploy it")
    return stack.outputs["JournalBucket"]
