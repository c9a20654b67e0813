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

GRACE = PERIOD // 6
"""Wait from a period's end to its seal. All calls that put the period's objects end within it."""


def journal() -> SealedJournal:
    return SealedJournal(_client, os.environ["JOURNAL_BUCKET"])


def copy() -> Bucket:
    return Bucket(_client, os.environ["JOURNAL_BUCKET"])
