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
from tests.conftest import NOW, Ledger
from tests.support.kyc import APPROVED


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


def of_accounts(row: Row) -> bool:
    return keys.subject(row)[0] == "ACCOUNT"


def of_settlements(row: Row) -> bool:
    return keys.subject(row)[0] == "SETTLEMENT"


def of_deposits(row: Row) -> bool:
    return keys.subject(row)[0] == "DEPOSIT"


def release(stack: Stack, settlement: Settlement) -> None:
    """Pay the payee, so that only the fee is left in escrow."""
    later = NOW + timedelta(seconds=1)
    stack.store.commit(steps.verify(settlement, APPROVED, later))
    stack.store.commit(steps.release(settlement, stack.config, later))


def scanned(
    monkeypatch: pytest.MonkeyPatch,
    *,
    first: Callable[[Row], bool],
    while_scanning: Callable[[], object],
) -> None:
    """Let a scan meet some rows first, then something happen, then all other rows."""
    every_row = table_scan._every_row

    def scan(stack: Stack) -> Iterator[Row]:
        yield from [row for row in every_row(stack) if first(row)]
        while_scanning()
        yield from [row for row in every_row(stack) if not first(row)]

    monkeypatch.setattr(table_scan, "_every_row", scan)


def test_a_table_of_the_store_itself_is_conserved(stack: Stack) -> None:
    findings = table_scan.check(stack)

    assert (findings.faults, findings.conserved, findings.in_flight) == ([], True, 0)


@pytest.mark.parametrize("first", [of_accounts, of_settlements, keys.is_settlement])
def test_money_that_moves_during_the_scan_is_motion_and_no_fault(
    monkeypatch: pytest.MonkeyPatch, stack: Stack, settlement: Settlement, first: Callable[[Row], bool]
) -> None:
    scanned(monkeypatch, first=first, while_scanning=lambda: release(stack, settlement))

    findings = table_scan.check(stack)

    assert findings.faults == []
    assert findings.conserved
    assert findings.in_flight == 1


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


def test_what_was_reversed_is_conserved(stack: Stack, settlement: Settlement) -> None:
    give_up(stack, settlement)

    findings = table_scan.check(stack)

    assert (findings.faults, findings.conserved, findings.in_flight) == ([], True, 0)


@pytest.mark.parametrize("first", [of_accounts, of_settlements, keys.is_settlement])
def test_what_is_reversed_during_the_scan_is_motion_and_no_fault(
    monkeypatch: pytest.MonkeyPatch, stack: Stack, settlement: Settlement, first: Callable[[Row], bool]
) -> None:
    scanned(monkeypatch, first=first, while_scanning=lambda: give_up(stack, settlement))

    findings = table_scan.check(stack)

    assert (findings.faults, findings.conserved, findings.in_flight) == ([], True, 1)


@pytest.mark.parametrize("change", [{"reversed": {"release"}}, {"reversed": set()}], ids=str)
def test_a_reversal_that_its_entries_do_not_bear_out_is_a_fault_at_every_look(
    ledger: Ledger, stack: Stack, settlement: Settlement, change: Row
) -> None:
    give_up(stack, settlement)
    row = stack.store.read(keys.settlement(settlement.key))
    assert row
    kept = {name: value for name, value in row.items() if name != "reversed"}
    ledger.put(kept | {name: value for name, value in change.items() if value})

    findings = table_scan.check(stack)

    assert {fault.partition(":")[0] for fault in findings.faults} == {row["pk"]}
    assert not findings.conserved


@pytest.mark.parametrize("first", [of_accounts, of_deposits])
def test_an_account_that_opens_during_the_scan_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, stack: Stack, first: Callable[[Row], bool]
) -> None:
    scanned(
        monkeypatch,
        first=first,
        while_scanning=lambda: accounts.open_account(stack, "carla", "EUR", "25.00"),
    )

    findings = table_scan.check(stack)

    assert findings.faults == []
    assert findings.conserved


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (keys.account("alice"), "available"),
        (keys.settlement("order-2026-000101"), "escrow"),
    ],
    ids=["balance", "escrow"],
)
@pytest.mark.parametrize("change", [1, -1])
def test_a_row_that_disagrees_at_every_look_is_a_fault(
    ledger: Ledger, stack: Stack, key: Row, name: str, change: int
) -> None:
    row = stack.store.read(key)
    assert row
    ledger.put(row | {name: row[name] + change})

    findings = table_scan.check(stack)

    assert [fault.partition(":")[0] for fault in findings.faults] == [key["pk"]]
    assert not findings.conserved


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


def test_an_entry_in_another_currency_than_its_account_is_a_fault_at_every_look(
    ledger: Ledger, stack: Stack
) -> None:
    deposit = stack.store.read(keys.deposit("open-alice"))
    assert deposit
    ledger.put(deposit | {"currency": "USD"})

    findings = table_scan.check(stack)

    assert {fault.partition(":")[0] for fault in findings.faults} == {"ACCOUNT#alice"}
    assert not findings.conserved


@pytest.mark.parametrize(
    "key",
    [keys.account("alice"), keys.settlement("order-2026-000101")],
    ids=["account", "settlement"],
)
def test_a_row_that_is_gone_at_every_look_is_a_fault(ledger: Ledger, stack: Stack, key: Row) -> None:
    ledger.client.delete_item(
        TableName=ledger.table_name, Key={name: {"S": value} for name, value in key.items()}
    )

    findings = table_scan.check(stack)

    assert [fault.partition(":")[0] for fault in findings.faults] == [key["pk"]]
    assert findings.unproven == []
    assert not findings.conserved
