"""The composition root: what a function gets from its deployment."""

import gc
import os
from contextlib import suppress
from datetime import UTC, datetime
from random import SystemRandom, seed
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

from settlement.adapters.dynamodb import CLIENT_CONFIG, Store
from settlement.model.stage_config import StageConfig
from settlement.policy.pager import PagerConfig
from settlement.sealing.signature import RowKeys

session = boto3.Session()
_making = Lock()
"""A session makes one client at a time."""


class LazyClient:
    """A client of AWS that is made when it is first used: most calls need no other than DynamoDB's."""

    def __init__(self, service: str, config: Config) -> None:
        self._service, self._config = service, config
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the client."""
        with _making:
            if self._client is None:
                self._client = session.client(self._service, config=self._config)
        return getattr(self._client, name)


config = StageConfig.from_json(os.environ["STAGE_CONFIG"])
pager = PagerConfig.from_json(os.environ["PAGER"])
random = SystemRandom()  # a snapshot clones seeds
dynamodb = session.client("dynamodb", config=CLIENT_CONFIG)
row_keys = RowKeys.from_text(os.environ.get("ROW_KEYS", ""))
store = Store(dynamodb, os.environ["TABLE_NAME"], row_keys=row_keys, retention_days=config.retention_days)


def now() -> datetime:
    """Return the current instant. Handlers read the clock and pass it down; nothing below them does."""
    return datetime.now(UTC)


def nonce() -> str:
    """Return eight hexadecimal digits for the name of an execution, which no caller can predict."""
    return f"{random.getrandbits(32):08x}"


def restored() -> None:
    """Renew what SnapStart clones into each environment: the seed of botocore's jitter, and connections."""
    seed()
    dynamodb.close()


with suppress(ImportError):  # it is part of Lambda's Python, and of the runtime client elsewhere
    from snapshot_restore_py import register_after_restore  # type: ignore[import-untyped, unused-ignore]

    register_after_restore(restored)

gc.freeze()
gc.enable()
