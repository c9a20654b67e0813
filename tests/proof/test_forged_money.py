"""Forged money in individually valid rows: each forgery is found and named."""

from collections.abc import Callable

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Step
from settlement.core.store.wire import from_wire
from tests.proof.client import reconciled
from tests.proof.shapes import SETTLED
from tests.proof.town import Payment, Town

AMOUNT, FEE = 90_000_000, 48
FORGED = Settlement(
    key="order-forged-000001", payer="alice", payee="mallory", amount=AMOUNT, currency="EUR", fee=FEE
)


@pytest.fixture
def town() -> Town:
    """A table with a rich customer, and with Mallory, who has one cent."""
    town = Town()
    town.open("alice", 2 * AMOUNT)
    town.open("mallory", 1)
    town.open("merchant.mallory", 1)
    return town


def sound_rows(settlement: Settlement = FORGED) -> dict[str, Row]:
    """Return a real settlement's rows: its own, and entries and evidence by step."""
    elsewhere = Town()
    elsewhere.open(settlement.payer, 2 * AMOUNT)
    elsewhere.open(settlement.payee, 1)
    Payment(elsewhere, settlement).forward(*SETTLED)
    rows = [from_wire(item) for item in elsewhere.table.items.values()]
    return {row.get("step", row["pk"].partition("#")[0]): row for row in rows}


def raised(town: Town, account: str, amount: int) -> Row:
    row = town.row(keys.account(account))
    return row | {"available": row["available"] + amount}


def put_settlement_release_and_balance(town: Town) -> None:
    """The payer's balance is unchanged, so the amount is new money."""
    rows = sound_rows()
    town.put(rows["SETTLEMENT"])
    town.put(rows["release"])
    town.put(raised(town, "mallory", FORGED.net))


def put_all_but_the_hold(town: Town) -> None:
    rows = sound_rows()
    for name in ("SETTLEMENT", "verify", "release", "fee"):
        town.put(rows[name])
    town.put(raised(town, "mallory", FORGED.net))


def put_all_but_the_payers_balance(town: Town) -> None:
    rows = sound_rows()
    for name in ("SETTLEMENT", "hold", "verify", "release", "fee"):
        town.put(rows[name])
    town.put(raised(town, "mallory", FORGED.net))


def put_a_void_of_nothing(town: Town) -> None:
    """Give the payer back money that was never held."""
    rows = sound_rows()
    at = rows["hold"]["posted_at"]
    settlement = {name: rows["SETTLEMENT"][name] for name in rows["SETTLEMENT"] if name[-3:] != "_at"}
    settlement |= dict.fromkeys(("claimed_at", "finished_at", "hold_at", "hold_reversed_at"), at)
    failure = {"step": "verify", "error": "KycUnavailable", "cause": ""}
    settlement |= {"status": "COMPENSATED", "deadline_at": rows["SETTLEMENT"]["deadline_at"]}
    settlement |= {"failure": failure, "reversed_for": failure, "resolutions": 0, "payer": "mallory"}
    forged = Settlement(
        key=FORGED.key, payer="mallory", payee="alice", amount=AMOUNT, currency="EUR", fee=FEE
    )
    settlement |= {"payee": "alice", "request_hash": forged.request_hash}
    settlement.pop("verdict")
    town.put(settlement)
    address = keys.entry("mallory", at, FORGED.key, Step.HOLD.reversal)
    sides = {"debit": f"escrow:{FORGED.key}", "credit": "mallory", "side": "credit"}
    step = {"step": Step.HOLD.reversal, "request_hash": forged.request_hash}
    town.put(rows["hold"] | address | sides | step)
    town.put(raised(town, "mallory", AMOUNT))


def put_a_release_to_a_merchant(town: Town) -> None:
    """No balance is needed: a sweep would add the release."""
    settlement = Settlement(
        key=FORGED.key, payer="alice", payee="merchant.mallory", amount=AMOUNT, currency="EUR", fee=FEE
    )
    rows = sound_rows(settlement)
    town.put(rows["SETTLEMENT"])
    town.put(rows["release"])


def put_a_balance(town: Town) -> None:
    town.put(raised(town, "mallory", AMOUNT))


@pytest.mark.parametrize(
    ("forge", "named"),
    [
        (put_settlement_release_and_balance, f"SETTLEMENT#{FORGED.key}"),
        (put_all_but_the_hold, f"SETTLEMENT#{FORGED.key}"),
        (put_all_but_the_payers_balance, "ACCOUNT#alice"),
        (put_a_void_of_nothing, f"SETTLEMENT#{FORGED.key}"),
        (put_a_release_to_a_merchant, f"SETTLEMENT#{FORGED.key}"),
        (put_a_balance, "ACCOUNT#mallory"),
    ],
)
def test_the_proof_names_the_row_of_forged_money(
    town: Town, forge: Callable[[Town], None], named: str
) -> None:
    assert reconciled(town.table.items).conserved
    forge(town)

    findings = reconciled(town.table.items)

    assert {fault.partition(": ")[0] for fault in findings.faults} == {named}, findings.faults


def test_a_forgery_with_every_row_passes_the_proof(town: Town) -> None:
    """Only missing rows reveal a forgery: a complete set would be a settlement."""
    for row in sound_rows().values():
        if row["sk"] != "BALANCE" and row.get("step") != "deposit" and row["pk"] != "CIRCUIT":
            town.put(row)
    town.put(raised(town, "mallory", FORGED.net))
    town.put(raised(town, "alice", -AMOUNT))

    assert reconciled(town.table.items).conserved
