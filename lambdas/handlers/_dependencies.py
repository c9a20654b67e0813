import gc
import os
from contextlib import suppress
from datetime import UTC, datetime
from random import SystemRandom, seed

from handlers import rooms
from settlement.aws.clients import session
from settlement.core.model.stage_config import StageConfig
from settlement.core.policy.pager import PagerConfig
from settlement.core.store.dynamodb import CLIENT_CONFIG, Store

config = StageConfig.from_json(os.environ["STAGE_CONFIG"])
pager = PagerConfig.from_json(os.environ["PAGER"])
random = SystemRandom()  # a snapshot clones seeds
dynamodb = session.client("dynamodb", config=CLIENT_CONFIG)
store = Store(dynamodb, os.environ["TABLE_NAME"], adds=rooms.adds(config))


def now() -> datetime:
    """Return the current time. Only handlers read the clock. Other code gets the time, or this function."""
    return datetime.now(UTC)


def nonce() -> str:
    """A random text, unpredictable to callers."""
    return f"{random.getrandbits(32):08x}"


def restored() -> None:
    """Renew the state that SnapStart clones: the seed of botocore's jitter, and connections."""
    seed()
    dynamodb.close()


with suppress(ImportError):  # part of Lambda's Python; elsewhere, of its runtime client
    from snapshot_restore_py import register_after_restore  # type: ignore[import-untyped, unused-ignore]

    register_after_restore(restored)

gc.freeze()
gc.enable()
