"""Tests how the comparison with a statement reads the payouts' movements at the bank."""

import pytest

from settlement.bank.statement import Side
from settlement.core.model.stage_config import StageConfig
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from settlement.payouts import booked, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status
from tests.unit.payouts.rows import CASES, LINE, PAYOUT, RETURN_LINE, STATES
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

OUT, BACK = (PAYOUT.name_of(side) for side in (Side.OUT, Side.IN))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (STATES[Status.PAID], {OUT: None}),
        (STATES[Status.CONFIRMED], {OUT: LINE}),
        (CASES["returned"], {OUT: LINE, BACK: None}),
        (CASES["suspense"], {OUT: LINE, BACK: RETURN_LINE}),
    ],
)
def test_each_move_at_the_bank_names_its_recorded_line(
    config: StageConfig, state: State, expected: dict[str, str | None]
) -> None:
    table = MemoryDynamoDb()
    (_, entry, *_) = writes.move(STATES[Status.ACCEPTED], STATES[Status.PAID], Move.PAY, NOW)
    for row in (state.to_row(), entry.parameters["Item"]):
        table.put_item(TableName="payouts", Item=to_wire(row))

    unreadable: list[str] = []
    found = dict(booked.orders(Store(table, "payouts"), config, unreadable.append))

    assert {order.key: line for order, line in found.items()} == expected
    assert {order.amount for order in found} == {PAYOUT.amount}
    assert unreadable == []
