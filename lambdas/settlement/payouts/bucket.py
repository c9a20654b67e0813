from collections.abc import Mapping
from typing import Any

from botocore.config import Config

from settlement.aws import clients
from settlement.payouts.over_files import Debtor, OverFiles

CONFIG = Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1, "mode": "standard"})
"""Allows one try per call, because a look has no time for more, and the next look tries again.

The connect timeout applies to each of S3's addresses, eight at most: an exchange ends within 15 s.
"""

_client = clients.LazyClient("s3", CONFIG)


def over_files(told: Mapping[str, Any]) -> OverFiles:
    """Return the bank that takes files. `told` is `files` in the variable PAYOUTS. Raises ValueError."""
    return OverFiles(_client, told["bucket"], told["name"], Debtor(**told["debtor"]))
