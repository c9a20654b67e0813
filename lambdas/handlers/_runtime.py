"""What a function gets from its deployment: the stage's terms, how it pages, store, clock and chance."""

import os
from datetime import UTC, datetime
from random import SystemRandom

import boto3

from settlement.paging import Paging
from settlement.store import CLIENT_CONFIG, Store
from settlement.terms import Terms

terms = Terms.from_json(os.environ["TERMS"])
paging = Paging.from_json(os.environ["PAGING"])
random = SystemRandom()  # a snapshot clones seeds
store = Store(boto3.client("dynamodb", config=CLIENT_CONFIG), os.environ["TABLE_NAME"])


def now() -> datetime:
    """The current instant. Handlers read the clock and pass it down; nothing below them does."""
    return datetime.now(UTC)
