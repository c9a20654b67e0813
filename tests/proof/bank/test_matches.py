"""A match on record has two rows, and an order that agrees with the bank's line."""

from typing import Any

import pytest

from settlement.bank import booking, record
from settlement.bank.matching import Recorded
from settlement.bank.record import Match
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.proof import Findings, table_scan
from tests.proof.client import readable
from tests.proof.town import Town
from tests.world.bank_rows import CALLER, FILE, LINE, PROPOSED, STATEMENT
from tests.world.environment import NOW

KEY = "deposit-of-alice-0000"
MATCH = Match(LINE.identity, KEY, "alice", "EUR", 4820, Side.IN, FILE.read_at)


@pytest.fixture
def town() -> Town:
    town = Town()
    town.open("alice", 4_820)
    for write in (
        record.statement(STATEMENT, 0, FILE),
        record.line(Recorded(LINE, 0, frozenset({"INV-7"})), FILE),
        record.file(FILE, 1, 1),
        *record.match(MATCH),
        booking.propose(PROPOSED, CALLER, NOW),
        booking.approve(PROPOSED, PROPOSED.digest, CALLER, NOW),
    ):
        town.put(write.parameters["Item"])
    return town


def proven(town: Town) -> Findings:
    return table_scan.check(readable(town.table))


def test_the_proof_accepts_a_sound_match(town: Town) -> None:
    found = proven(town)

    assert (found.faults, found.unproven, found.conserved) == ([], [], True)


def test_the_proof_accepts_many_matches(town: Town) -> None:
    for number in range(1_100):
        key = f"deposit-of-alice-{number + 1:04}"
        town.deposit(key, "alice", 100)
        for write in record.match(MATCH._replace(line=f"{number:064x}", order=key, amount=100)):
            town.put(write.parameters["Item"])

    found = proven(town)

    assert (found.faults, found.unproven, found.conserved) == ([], [], True)


@pytest.mark.parametrize("gone", [keys.bank_match(LINE.identity), keys.banked(KEY)], ids=["line", "order"])
def test_a_match_that_lacks_a_row_is_a_fault(town: Town, gone: Row) -> None:
    town.table.delete_item(TableName="t", Key={name: {"S": value} for name, value in gone.items()})

    (fault,) = proven(town).faults

    assert fault.startswith("ACCOUNT#alice: the match of its order")


@pytest.mark.parametrize(
    "forged",
    [{"amount": 4821}, {"currency": "JPY"}, {"side": "out"}, {"order": "deposit-of-alice-9999"}],
    ids=str,
)
def test_a_match_that_contradicts_its_order_is_a_fault(town: Town, forged: dict[str, Any]) -> None:
    one = Match(**{**MATCH._asdict(), **forged, "side": Side(forged.get("side", "in"))})
    for key in (keys.bank_match(LINE.identity), keys.banked(KEY)):
        town.table.delete_item(TableName="t", Key={name: {"S": value} for name, value in key.items()})
    for write in record.match(one):
        town.put(write.parameters["Item"])

    (fault,) = proven(town).faults

    assert "does not agree with it" in fault


@pytest.mark.parametrize(
    ("key", "spoilt"),
    [
        (keys.bank_line(LINE.identity), {"amount": "none"}),
        (keys.bank_line(LINE.identity), {"side": "up"}),
        (keys.bank_line(LINE.identity), {"booked": "2026-11-28"}),
        (keys.bank_match(LINE.identity), {"line": "another"}),
        (keys.banked(KEY), {"amount": 0}),
        (keys.bank_file(FILE.digest), {"statements": 0}),
        (keys.bank_file(FILE.digest), {"gsi1sk": "then"}),
        (keys.bank_statement(FILE.digest, 0), {"closing": "much"}),
        (keys.bank_proposed("bank-of-the-day-0001"), {"digest": "none"}),
        (keys.bank_approved("bank-of-the-day-0001"), {"by": ""}),
    ],
    ids=str,
)
def test_a_malformed_row_is_a_fault(town: Town, key: Row, spoilt: dict[str, Any]) -> None:
    town.put({**town.row(key), **spoilt})

    faults = proven(town).faults

    assert any(fault.startswith(key["pk"]) and "is malformed" in fault for fault in faults)
