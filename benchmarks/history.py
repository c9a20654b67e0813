"""A table with the rows of many finished settlements, as if their functions had run."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import boto3
import urllib3

from benchmarks.rivals import Place
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.store.wire import from_wire, to_wire
from tests.world.openings import opening

SETTLEMENTS_OF_A_CUSTOMER = 20
"""Settlements of each customer, half of them as the payer."""

_BATCH = 25
_BATCHES = 400
_THREADS = 2
_OPENING = 10**9
_OPENED_AT = datetime(2026, 1, 1, tzinfo=UTC)
_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.BatchWriteItem",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20261120/eu-west-1/dynamodb/aws4_request,"
    " SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20261120T120000Z",
}
"""Headers of a write. The servers read the table's owner from them, but check no signature."""


def rows_of_one(place: Place, key: str) -> list[Row]:
    """Return the rows that one settlement has left, without the balances."""
    client = boto3.client("dynamodb", endpoint_url=place.url)
    pages = client.get_paginator("scan").paginate(TableName=place.table, ConsistentRead=True)
    found = [from_wire(item) for page in pages for item in page["Items"]]
    return [row for row in found if key in row["pk"] + row["sk"]]


def fill(place: Place, settlements: int, recorded: list[Row], key: str) -> None:
    """Write the rows of finished settlements between customers, with matching balances."""
    pool = urllib3.PoolManager(maxsize=_THREADS, headers=_HEADERS)
    all_puts = puts(settlements, recorded, key)

    def send(batch: list[str]) -> bytes:
        call = f'{{"RequestItems": {{"{place.table}": [{",".join(batch)}]}}}}'
        return pool.request("POST", place.url, body=call).data

    with ThreadPoolExecutor(_THREADS) as threads:
        while batches := list(islice(iter(lambda: list(islice(all_puts, _BATCH)), []), _BATCHES)):
            answers = set(threads.map(send, batches))
            assert answers == {b'{"UnprocessedItems":{}}'}, answers


def puts(settlements: int, recorded: list[Row], key: str, share: tuple[int, int] = (0, 1)) -> Iterator[str]:
    """Yield the JSON of a put for each row. Replacing text is far faster than converting each row.

    `share` is a share's number, from 0, and the number of equal shares. Share 0 also has the accounts.
    """
    texts, moved = [_put(row) for row in recorded], Counter[str]()
    (fee_partition,) = (row["pk"] for row in recorded if row["pk"].startswith("ENTRIES#fees:"))
    paid = SettlementState.from_row(next(row for row in recorded if keys.is_settlement(row))).settlement
    changes = {row["step"]: row["amount"] for row in recorded if "amount" in row and "step" in row}
    customers = max(2, 2 * settlements // SETTLEMENTS_OF_A_CUSTOMER)
    for number in range(0 if share[0] else settlements):
        payer, payee = _parties(number, customers)
        moved[payer] -= changes["hold"]
        moved[payee] += changes["release"]
    for number in range(share[0], settlements, share[1]):
        payer, payee = _parties(number, customers)
        own = f"order-filled-{number:09}"
        fees = keys.entry("fees:EUR", "", own, "fee")["pk"]
        request_hash = replace(paid, key=own, payer=payer, payee=payee).request_hash
        for text in texts:
            renamed = text.replace(key, own).replace("alice", payer).replace("bob", payee)
            yield renamed.replace(fee_partition, fees).replace(paid.request_hash, request_hash)
    for number in range(0 if share[0] else customers):
        name = f"customer-{number:07}"
        account, *opened = (write.parameters["Item"] for write in opening(name, _OPENING, "EUR", _OPENED_AT))
        for row in (account | {"available": _OPENING + moved[name]}, *opened):
            yield _put(row)


def _parties(number: int, customers: int) -> tuple[str, str]:
    return f"customer-{number % customers:07}", f"customer-{(number + 1) % customers:07}"


def _put(row: Mapping[str, Any]) -> str:
    return json.dumps({"PutRequest": {"Item": to_wire(row)}})
