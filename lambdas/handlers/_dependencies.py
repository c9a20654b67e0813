"""The composition root: what a function gets from its deployment."""

import os
from datetime import UTC, datetime
from random import SystemRandom

import boto3

from settlement.adapters.dynamodb import CLIENT_CONFIG, Store
from settlement.model.stage_config import StageConfig
from settlement.policy.pager import PagerConfig

config = StageConfig.from_json(os.environ["STAGE_CONFIG"])
pager = PagerConfig.from_json(os.environ["PAGER"])
random = SystemRandom()  # a snapshot clones seeds
store = Store(boto3.client("dynamodb", config=CLIENT_CONFIG), os.environ["TABLE_NAME"])


def now() -> datetime:
    """Return the current instant. Handlers read the clock and pass it down; nothing below them does."""
    return datetime.now(UTC)
