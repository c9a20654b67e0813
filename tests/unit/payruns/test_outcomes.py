from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.request import parse_request
from settlement.core.model.status import Status
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from settlement.payouts import payout
from settlement.payouts.reservation import parse_payout
from settlement.payruns import outcomes, writes
from settlement.payruns.file import Line, RunFile, digest_of, request_of, run_of
from settlement.payruns.outcomes import Outcome
from tests.unit.payouts.rows import CASES, STATES
from tests.unit.payruns.rows import FILE, LINES, payout_file
from tests.unit.vectors import CONFIG
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

RUN = run_of(digest_of(FILE.content))
PAYOUTS = payout_file()
TABLE = MemoryDynamoDb()


@pytest.fixture(autouse=True)
def empty() -> None:
    TABLE.items.clear()


def put(row: Row, **changed: Any) -> None:
    TABLE.put_item(TableName="runs", Item=to_wire(row | changed))


def payment(line: Line, status: Status = Status.PROCESSING, **changed: Any) -> None:
    request = parse_request(request_of(RUN, FILE.header, line) | changed, CONFIG)
    claimed = forward.claim(request.settlement(0), "execution", NOW, CONFIG).parameters["Item"]
    finished = {} if status is Status.PROCESSING else {"finished_at": "2026-11-20T12:00:00.123Z"}
    put(claimed, status=status.value, **finished)


def payout_row(line: Line, status: payout.Status, **changed: Any) -> None:
    request = parse_payout(request_of(RUN, PAYOUTS.header, line) | changed, CONFIG)
    put(replace(STATES[status], payout=request).to_row())


def refuse(line: Line, message: str = "market: too little") -> None:
    put(writes.refused(RUN, line.number, "InsufficientFunds", message, NOW).parameters["Item"])


def of(file: RunFile = FILE, lines: Iterable[Line] = LINES[:1]) -> list[Outcome]:
    store = Store(TABLE, "runs", pause=lambda tries: None)
    return [*outcomes.of_lines(store, CONFIG, RUN, file.header, [*lines])]


@pytest.mark.parametrize("status", Status)
def test_a_payments_row_decides_its_lines_outcome(status: Status) -> None:
    payment(LINES[0], status)
    refuse(LINES[0])

    assert of() == [Outcome(LINES[0], status.value)]
    assert of()[0].is_final == (status.value in ("SETTLED", "REJECTED", "COMPENSATED"))


@pytest.mark.parametrize("status", payout.Status)
def test_a_payouts_row_decides_its_lines_outcome(status: payout.Status) -> None:
    payout_row(LINES[0], status)

    assert of(PAYOUTS) == [Outcome(LINES[0], status.value)]
    final = ("PAID", "CONFIRMED", "REFUSED", "RETURNED")
    assert of(PAYOUTS)[0].is_final == (status.value in final)


def test_a_returned_payout_in_suspense_is_not_final() -> None:
    own = parse_payout(request_of(RUN, PAYOUTS.header, LINES[0]), CONFIG)
    put(replace(CASES["suspense"], payout=own).to_row())

    assert of(PAYOUTS) == [Outcome(LINES[0], "IN SUSPENSE")]
    assert not of(PAYOUTS)[0].is_final


def test_outcomes_come_in_the_order_of_the_file() -> None:
    lines = [replace(LINES[0], number=number) for number in range(1, 124)]
    for line in lines[::2]:
        payment(line, Status.SETTLED)

    found = of(lines=lines)

    assert [one.line for one in found] == lines
    assert {one.status for one in found[::2]} == {"SETTLED"}
    assert {one.status for one in found[1::2]} == {"NOT BEGUN"}
    assert not found[1].is_final


@pytest.mark.parametrize("file", [FILE, PAYOUTS], ids=["payment", "payout"])
def test_a_recorded_refusal_ends_its_line(file: RunFile) -> None:
    refuse(LINES[0])

    assert of(file) == [Outcome(LINES[0], "REFUSED", "InsufficientFunds: market: too little")]
    assert of(file)[0].is_final


@pytest.mark.parametrize("changed", [{"amount": "48.21"}, {"payee": "mallory"}, {"reference": "x"}], ids=str)
def test_a_line_whose_key_another_payment_used_is_refused(changed: dict[str, str]) -> None:
    payment(LINES[0], Status.SETTLED, **changed)

    assert [one.status for one in of()] == ["REFUSED"]
    assert "other content" in of()[0].why or "conflict" in of()[0].why
    refuse(LINES[0])
    assert of()[0].why == "InsufficientFunds: market: too little"


@pytest.mark.parametrize("changed", [{"amount": "48.21"}, {"destination": "mallory"}], ids=str)
def test_a_line_whose_key_another_payout_used_is_refused(changed: dict[str, str]) -> None:
    payout_row(LINES[0], payout.Status.PAID, **changed)

    assert [one.status for one in of(PAYOUTS)] == ["REFUSED"]


@pytest.mark.parametrize("changed", [{"request_hash": 1}, {"status": "LOST"}, {"amount": "many"}], ids=str)
def test_a_damaged_row_is_reported_as_unreadable_and_not_final(changed: dict[str, Any]) -> None:
    payout_row(LINES[0], payout.Status.PAID)
    payment(LINES[0], Status.SETTLED)
    refuse(LINES[0])
    for place, item in [*TABLE.items.items()]:
        if place[0].startswith(("PAYOUT#", "SETTLEMENT#")):
            TABLE.items[place] = {**item, **to_wire(changed)}

    for file in (FILE, PAYOUTS):
        assert of(file) == [Outcome(LINES[0], "UNREADABLE")]
        assert not of(file)[0].is_final


def test_a_fraction_in_a_row_does_not_hide_other_lines() -> None:
    for line in LINES[:2]:
        payment(line, Status.SETTLED)
    place = keys.settlement(request_of(RUN, FILE.header, LINES[0])["key"])
    at = place["pk"], place["sk"]
    TABLE.items[at] = {**TABLE.items[at], "amount": {"N": "1.5"}}

    assert [one.status for one in of(lines=LINES[:2])] == ["UNREADABLE", "SETTLED"]
