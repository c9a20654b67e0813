from typing import Any

from handlers import _dependencies
from settlement.core.model.request import Request, parse_request, with_minted_key
from settlement.core.telemetry import logger


def parse(event: dict[str, Any]) -> Request:
    """Parse the request. Mint a missing key if the stage allows it. Raises InvalidRequest."""
    config = _dependencies.config
    raw = with_minted_key(event["settlement"], event["execution_arn"], config)
    if raw is not event["settlement"]:
        logger.append_keys(key=raw["key"])
    return parse_request(raw, config)
