"""A file of payouts, checked whole before the first is sent."""

from collections.abc import Mapping
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.settlements.request_file import numbered
from settlement.core.model import strict_json
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.stage_config import StageConfig
from settlement.payouts.payout import Payout
from settlement.payouts.reservation import parse_payout


def read(file: str) -> dict[int, Any]:
    """Return the file's payouts by line number, unchecked. `-` is standard input. Raises CommandFailed."""
    return {number: strict_json.parse(text) for number, text in numbered(file).items()}


def checked(given: Mapping[int, Any], config: StageConfig) -> list[dict[str, Any]]:
    """Return the payouts. Raises CommandFailed for an invalid one, and for one key with two contents."""
    seen = dict[str, Payout]()
    for number, raw in given.items():
        try:
            payout = parse_payout(raw, config)
        except InvalidRequest as refusal:
            raise CommandFailed(Exit.USAGE, f"line {number}: {refusal}; nothing was sent") from refusal
        if seen.setdefault(payout.key, payout) != payout:
            told = f"line {number}: key: {payout.key} has other content on a line before; nothing was sent"
            raise CommandFailed(Exit.USAGE, told)
    return list(given.values())
