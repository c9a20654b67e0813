import json
import os
from unittest import mock

from handlers.orders import take_order
from handlers.payouts import _payouts
from settlement.core.ledger.keys import Row
from settlement.payouts.decision import Verdict
from tests.infra.payouts.stage import PAYOUTS
from tests.unit.payouts.rows import ADA, BEA, CASES, GIVEN, rows_of
from tests.world import orders
from tests.world.functions import Context

_CASE = CASES["limbo"]
ROWS: tuple[Row, ...] = rows_of(_CASE)
"""Rows in the table before each scene (see `tests/infra/observed.py`)."""


def _orders_payouts() -> None:
    """Make TakeOrder add, confirm and freeze a destination, and take two persons' decision about a case."""
    named = {"id": GIVEN["id"]}
    decided = {
        "key": _CASE.key,
        "case": _CASE.cases,
        "digest": _CASE.digest,
        "verdict": Verdict.NOT_PAID.value,
        "reason": "the bank's mail",
    }
    given = {"PAYOUTS": PAYOUTS.limits({"EUR": 500_000}, {"EUR": 2_000_000})}
    _payouts.config.cache_clear()
    with mock.patch.dict(os.environ, given):
        for route, body, by in (
            ("add-payee", GIVEN, ADA.by),
            ("confirm-payee", {name: GIVEN[name] for name in GIVEN if name != "reason"}, BEA.by),
            ("freeze-payee", named, BEA.by),
            ("propose-payout", decided, ADA.by),
            ("approve-payout", decided, BEA.by),
        ):
            answer = take_order.handler(orders.request(route, body, by), Context())
            assert answer["statusCode"] == 200, json.loads(answer["body"])
    _payouts.config.cache_clear()


SCENES = (("TakeOrder", _orders_payouts),)
