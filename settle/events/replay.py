from collections.abc import Iterator, Sequence
from typing import Any

from settle.order import check_order, give
from settle.stack import Stack
from settlement.events.replay import REPLAY, REPLAYED_MAX, parse_replay


def replay(stack: Stack, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Publish settlements again. Yield, for each order, the published keys and the failed keys' reasons.

    Raises CommandFailed at a refused order. Earlier orders took effect.
    """
    orders = [
        {"keys": list(keys[first : first + REPLAYED_MAX])} for first in range(0, len(keys), REPLAYED_MAX)
    ]
    for order in orders:
        check_order(lambda raw, _: parse_replay(raw), order)
    for order in orders:
        yield give(stack, REPLAY, order)
