"""A proof cut off by DynamoDB or time is unproven, but keeps its earlier findings."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.store.dynamodb import Store
from settlement.proof import CutOff, pages, table_scan, watch
from settlement.proof.pages import Part
from tests.proof.client import readable
from tests.proof.shapes import SETTLED
from tests.proof.town import Payment, Town

PAYMENT = Settlement(key="order-2026-000101", payer="alice", payee="bob", amount=900, currency="EUR", fee=9)
MALFORMED = "ACCOUNT#erin: BALANCE is malformed: available is no whole number"


REFUSALS = ("ThrottlingException", "InternalServerError", "AccessDeniedException")
FAILURES: dict[str, Exception] = {
    **{code: ClientError({"Error": {"Code": code}}, "BatchGetItem") for code in REFUSALS},
    "no connection": EndpointConnectionError(endpoint_url="there"),
    "no connection in time": ConnectTimeoutError(endpoint_url="there"),
    "no answer in time": ReadTimeoutError(endpoint_url="there"),
}


@pytest.fixture
def town() -> Town:
    """A table with a settlement, and with an account's malformed row."""
    town = Town()
    for account, deposit in (("alice", 1_000), ("bob", 0), ("erin", 0)):
        town.open(account, deposit)
    Payment(town, PAYMENT).forward(*SETTLED)
    town.put(town.row(keys.account("erin")) | {"available": "much"})
    return town


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (keys.account("alice"), {"available": 101}),
        (keys.settlement(PAYMENT.key), {"release_at": "2026-11-20T12:00:00.000Z"}),
    ],
    ids=["account", "settlement"],
)
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failed_second_look_leaves_the_table_unproven(
    town: Town, key: Row, changes: Row, failure: Exception
) -> None:
    town.put(town.row(key) | changes)

    def fail(**_: Any) -> None:
        raise failure

    store = readable(town.table)
    store.client.batch_get_item = fail

    findings = table_scan.check(store)

    rows = len(town.table.items)
    reason = f"DynamoDB gave no rows: {failure}"
    assert findings.unproven == [
        f"{key['pk']}: its second look was cut off: {reason}",
        f"the table: cut off after {rows} rows: {reason}",
    ]
    assert MALFORMED in findings.faults
    assert not any(fault.startswith(key["pk"]) for fault in findings.faults), "it was not looked at again"
    assert (findings.totals, findings.conserved) == ({}, False)


def test_a_proof_that_is_cut_off_stops_reading_at_once(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept exception must not delay the close: its traceback references reader and threads."""
    every_row, events, kept = pages.scan, list[str](), list[CutOff]()
    monkeypatch.setattr(watch, "STRIDE", 2)

    def reading(store: Store, part: Part) -> Iterator[Row]:
        try:
            yield from every_row(store, part)
        finally:
            events.append("closed")

    def cut_off(phase: str, done: int) -> None:
        if done:
            kept.append(CutOff("no time is left"))
            raise kept[0]

    monkeypatch.setattr(pages, "scan", reading)

    findings = table_scan.check(town.store, cut_off)

    assert events == ["closed"]
    assert findings.unproven == ["the table: cut off after 2 rows: no time is left"]
