from settlement.core.ledger import forward
from settlement.core.ledger.transaction import Write
from settlement.doors import cancellation
from tests.unit.vectors import CONFIG, SETTLEMENT
from tests.world.environment import NOW

_CLAIM = forward.claim(SETTLEMENT, "owner", NOW, CONFIG)
WRITES: dict[str, list[Write]] = {
    "StartSettlements": [_CLAIM],
    "AcceptSettlements": [_CLAIM],
    "CancelSettlement": [
        write(SETTLEMENT, NOW, seen)
        for write in (cancellation.before_hold, cancellation.in_review)
        for seen in (None, 1)
    ],
}
