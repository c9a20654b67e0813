import json
import os
from dataclasses import replace
from unittest import mock

from handlers import _dependencies
from handlers.orders import take_order
from handlers.payouts import _payouts
from handlers.payruns import _orders, pay_lines
from settlement.core.ledger.keys import Row
from settlement.payruns import bucket, writes
from settlement.payruns.file import RunFile
from settlement.payruns.run import Status
from tests.infra.payouts.stage import PAYOUTS
from tests.unit.payouts.rows import destination_rows
from tests.unit.payruns.rows import ADA, BEA, LINES, PROPOSED, payout_file, proposal
from tests.unit.payruns.rows import FILE as PAYMENTS
from tests.unit.payruns.test_orders import BODY, SHOWN
from tests.unit.states import account_row
from tests.world import orders
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.ledger import ROW_KEYS

_OF_ALICE = payout_file(
    [replace(LINES[0], payee="landlord"), replace(LINES[1], payee="nobody")], payer="alice"
)
_FILES = {proposal(one).digest: one for one in (PAYMENTS, _OF_ALICE)}


def _rows(file: RunFile) -> tuple[Row, ...]:
    one = proposal(file, needed=1, sums=file.sums(_dependencies.config))
    run = replace(PROPOSED, run=one.run, lines=one.lines)
    approval, _ = writes.approve(run, one, BEA, NOW)
    decisions = (writes.propose(one, ADA)[0], approval)
    running = replace(run, status=Status.RUNNING, sequence=3)
    return running.to_row(), *(ROW_KEYS.signed(each.parameters["Item"]) for each in decisions)


ROWS: tuple[Row, ...] = (
    *(row for file in _FILES.values() for row in _rows(file)),
    *destination_rows(),
    account_row("alice", 100_000),
)


def _orders_a_run() -> None:
    """Make TakeOrder take a proposal, its approval, and each order on the run."""
    _orders.rules.cache_clear()
    with mock.patch.dict(os.environ, {"PAYRUNS": '{"over": {}, "lines_over": 9}'}):
        for route, by in (("propose", ADA), ("approve", BEA), ("run", ADA), ("pause", ADA), ("cancel", ADA)):
            body = BODY if route == "propose" else SHOWN
            answer = take_order.handler(orders.request(f"{route}-payrun", body, by.by), Context())
            assert answer["statusCode"] == 200, json.loads(answer["body"])
    _orders.rules.cache_clear()


def _pays() -> None:
    """Make PayLines pay a run of payments, and one of payouts with a refused line."""
    _payouts.config.cache_clear()
    given = {"LINES_PER_SECOND": "inf", "PAYOUTS": PAYOUTS.limits({"EUR": 500_000}, {"EUR": 2_000_000})}
    with (
        mock.patch.dict(os.environ, given),
        mock.patch.object(bucket, "read", lambda digest: _FILES[digest].content),
    ):
        assert pay_lines.handler({}, Context()) == {"running": 2, "waiting": 0}
    _payouts.config.cache_clear()


SCENES = (("TakeOrder", _orders_a_run), ("PayLines", _pays))
