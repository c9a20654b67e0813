"""The sealed journal of the stage."""

import os
from datetime import timedelta

from botocore.config import Config

from settlement.aws import clients
from settlement.journal.copy import Bucket
from settlement.journal.sealed_journal import SealedJournal

_client = clients.LazyClient(
    "s3", Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 3, "mode": "standard"})
)

PERIOD = timedelta(seconds=int(os.environ.get("SEAL_SECONDS", "3600")))
"""The time that a seal covers."""

GRACE = PERIOD // 6
"""The time after a period until it is sealed: longer than a call that put its object in it may still run."""


def journal() -> SealedJournal:
    """Return the sealed journal."""
    return SealedJournal(_client, os.environ["JOURNAL_BUCKET"])


def copy() -> Bucket:
    """Return the sealed journal for those who read it."""
    return Bucket(_client, os.environ["JOURNAL_BUCKET"])
