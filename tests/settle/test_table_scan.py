from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import cast

import pytest

from settle.actions import accounts
from settle.queries import table_scan
from settle.stack import Stack
from settlement.ledger import forward, keys, reversal
from settlement.ledger.keys import Row
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.status import REVERSIBLE
from settlement.policy import compensation, steps
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.provider import APPROVED


@pytest.fixture
def stack(
    ledger: Ledger, config: StageConfig, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> Stack:
    """A table with two accounts, and one settlement that holds its money."""
    monkeypatch.setattr(table_scan, "_PAUSE_SECONDS", 0)
    stack = cast(
        Stack,
        SimpleNamespace(
            name="under-test",
            outputs={"TableName": ledger.table_name},
            store=ledger.store,
            config=config,
            client=lambda service: ledger.client,
        ),
    )
    accounts.open_account(stack, "alice", "EUR", "500.00")
    accounts.open_account(stack, "bob", "EUR", "0")
    ledger.store.claim(forward.claim(settlement, "an-execution", NOW, config))
    ledger.store.commit(steps.hold(settlement, NOW))
    return stack


def release(stack: Stack, settlement: Settlement) -> None:
    """Pay the payee, so that only the fee is left in escrow."""
    later = NOW + timedelta(seconds=1)
    stack.store.commit(steps.verify(settlement, APPROVED, later))
    stack.store.commit(steps.release(settlement, stack.config, later))


def give_up(stack: Stack, settlement: Settlement) -> None:
    """Reverse what is held, which leaves nothing in escrow."""
    later = NOW + timedelta(seconds=1)
    failure = {"step": "verify", "error": "KycRejected", "cause": "no"}
    state = stack.store.update(
        reversal.begin(settlement, failure, owner="an-execution", execution="a-reversal")
    )
    for step in REVERSIBLE:
        transaction = compensation.reverse_step(settlement, step, state.steps, (), later)
        assert transaction is not None
        stack.store.commit(transaction)


def open_another(stack: Stack, settlement: Settlement) -> None:
    accounts.open_account(stack, "carla", "EUR", "25.00")


FIRST: dict[str, Callable[[Row], bool]] = {
    "accounts": lambda row: keys.subject(row)[0] == "ACCOUNT",
    "deposits": lambda row: keys.subject(row)[0] == "DEPOSIT",
    "settlements and entries": lambda row: keys.subject(row)[0] == "SETTLEMENT",
    "settlements": keys.is_settlement,
    "none": lambda row: False,
}
"""The rows that a scan meets before something happens; it meets all others after it."""


@pytest.mark.parametrize(
    ("meanwhile", "first"),
    [
        *((moves, first) for moves in (release, give_up) for first in FIRST if first != "deposits"),
        (open_another, "accounts"),
        (open_another, "deposits"),
    ],
)
def test_money_that_moves_during_the_scan_is_motion_and_no_fault(
    monkeypatch: pytest.MonkeyPatch,
    stack: Stack,
    settlement: Settlement,
    meanwhile: Callable[[Stack, Settlement], None],
    first: str,
) -> None:
    every_row, is_first = table_scan._every_row, FIRST[first]

    def scan(stack: Stack) -> Iterator[Row]:
        yield from [row for row in every_row(stack) if is_first(row)]
        meanwhile(stack, settlement)
        yield from [row for row in every_row(stack) if not is_first(row)]

    monkeypatch.setattr(table_scan, "_every_row", scan)

    findings = table_scan.check(stack)

    assert (findings.faults, findings.conserved) == ([], True)
    assert findings.in_flight == (first != "none")


ALICE, PAYMENT = keys.account("alice"), keys.settlement("order-2026-000101")


@pytest.mark.parametrize(
    ("key", "change", "named"),
    [
        (ALICE, lambda row: row | {"available": row["available"] + 1}, ALICE),
        (ALICE, lambda row: row | {"available": row["available"] - 1}, ALICE),
        (PAYMENT, lambda row: row | {"escrow": row["escrow"] + 1}, PAYMENT),
        (PAYMENT, lambda row: row | {"escrow": row["escrow"] - 1}, PAYMENT),
        (PAYMENT, lambda row: row | {"reversed": {"hold"}}, PAYMENT),
        (keys.deposit("open-alice"), lambda row: row | {"currency": "USD"}, ALICE),
        (ALICE, None, ALICE),
        (PAYMENT, None, PAYMENT),
    ],
)
def test_a_row_that_disagrees_or_is_gone_at_every_look_is_a_fault(
    ledger: Ledger, stack: Stack, key: Row, change: Callable[[Row], Row] | None, named: Row
) -> None:
    row = stack.store.read(key)
    assert row
    ledger.put(change(row)) if change else ledger.delete(key)

    findings = table_scan.check(stack)

    assert {fault.partition(":")[0] for fault in findings.faults} == {named["pk"]}
    assert (findings.unproven, findings.conserved) == ([], False)


def test_a_row_that_moves_at_every_look_is_unproven_and_no_fault(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, stack: Stack
) -> None:
    row = stack.store.read(keys.account("alice"))
    assert row
    ledger.put(row | {"available": row["available"] + 1})
    balances = count(row["available"] + 2)
    monkeypatch.setattr(stack.store, "read", lambda key: row | {"available": next(balances)})

    findings = table_scan.check(stack)

    assert findings.faults == []
    assert [one.partition(":")[0] for one in findings.unproven] == ["ACCOUNT#alice"]
    assert not findings.conserved
