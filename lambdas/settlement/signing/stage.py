import os
from collections.abc import Callable

from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.signing.signature import RowKeys

row_keys = RowKeys.from_text(os.environ.get("ROW_KEYS", ""))
"""Keys that sign rows. Empty in a function that puts no signed row."""


def adds(config: StageConfig) -> Callable[[Row], Row]:
    return row_keys.signed
