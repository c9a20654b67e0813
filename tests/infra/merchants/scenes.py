from handlers.merchants import sweep_merchants
from handlers.orders import take_order
from tests.world import orders
from tests.world.constants import ORDER
from tests.world.functions import Context


def _puts_a_release_aside() -> None:
    sweep_merchants.handler({"Records": [{"body": "{}"}]}, Context())


def _sweeps_on_order() -> None:
    take_order.handler(orders.request("sweep", {"account": "merchant.shop"}, ORDER["by"]), Context())


SCENES = (("SweepMerchants", _puts_a_release_aside), ("TakeOrder", _sweeps_on_order))
