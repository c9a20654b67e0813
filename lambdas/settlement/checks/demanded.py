"""The checks that a settlement demands: the stage's checks when the settlement was claimed.

A later change of the stage's checks does not affect the settlement.
"""

import json
import os
from collections.abc import Callable

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig

NAMES = "CHECK_NAMES"
"""Environment variable of each function that claims: a JSON list of the checks' names."""


def names() -> list[str]:
    found: list[str] = json.loads(os.environ.get(NAMES, "[]"))
    return found


def adds(config: StageConfig) -> Callable[[Row], Row]:
    return with_checks


def with_checks(row: Row) -> Row:
    return {**row, "checks": set(found)} if keys.is_settlement(row) and (found := names()) else row
