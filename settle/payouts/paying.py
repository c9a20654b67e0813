from functools import partial
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import answered
from settle.payouts.payout import is_told
from settle.stack import Stack

_PATH, _REPLAYED = "/payouts", 200


def pay(stack: Stack, payout: dict[str, Any]) -> dict[str, Any]:
    """Start a payout; return its current state. Safe to repeat. Raises CommandFailed.

    `replayed`: an earlier call started it.
    """
    send = partial(stack.services.call, "POST", _PATH, payout)
    answer = answered(send, "payout", payout, _PATH)
    if not is_told(answer.content, payout["key"]):
        told = (
            f"payout: not known to be started: an answer that is none; repeat it with its key {payout['key']}"
        )
        raise CommandFailed(Exit.FAILED, told)
    return answer.content | {"replayed": answer.status == _REPLAYED}
