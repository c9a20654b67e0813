from handlers.doors import accept_settlements
from tests.world import posting
from tests.world.functions import Context


def _accepts() -> None:
    accept_settlements.handler(posting.asked(key="order-2026-000999"), Context())


SCENES = (("AcceptSettlements", _accepts),)
