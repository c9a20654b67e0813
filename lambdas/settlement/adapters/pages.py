"""Pages of a scan or a query, read fast and as plain rows.

botocore's parser and boto3's deserializer take six times as long as this for a row, which counts for a whole
table. Signing, retries and errors stay theirs: only the body of a good answer is read here.
"""

import json
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from settlement.adapters.dynamodb import Store
from settlement.ledger.keys import Row

SEGMENTS = 4
"""Parts of the table that are read beside each other, so that the judgement does not wait for the network."""

PAGE_ROWS = 1000
"""Rows of a page. A whole one of 1 MB has some thousands, and as many pages are in memory as segments."""

Page = dict[str, Any]


def scan(store: Store, **parameters: Any) -> Iterator[Row]:
    """Yield all rows of the table, read consistently, in no order."""
    client = store.client

    def read(segment: int, start: Row | None) -> tuple[int, Page]:
        part = {"Segment": segment, "TotalSegments": SEGMENTS}
        return segment, _page(store, client.scan, start, parameters | part)

    with _plain_rows(client, "Scan"), ThreadPoolExecutor(SEGMENTS) as threads:
        reading = {threads.submit(read, segment, None) for segment in range(SEGMENTS)}
        while reading:
            done: set[Future[tuple[int, Page]]]
            done, reading = wait(reading, return_when=FIRST_COMPLETED)
            for segment, page in (one.result() for one in done):
                if start := page.get("LastEvaluatedKey"):
                    reading.add(threads.submit(read, segment, start))
                yield from page["Items"]


def query(store: Store, *partitions: str) -> Iterator[Row]:
    """Yield the rows of the partitions, one after the other, each read consistently and in its order."""
    client = store.client
    with _plain_rows(client, "Query"):
        for partition in partitions:
            wanted = {
                "KeyConditionExpression": "pk = :pk",
                "ExpressionAttributeValues": {":pk": {"S": partition}},
            }
            page = _page(store, client.query, None, wanted)
            yield from page["Items"]
            while start := page.get("LastEvaluatedKey"):
                page = _page(store, client.query, start, wanted)
                yield from page["Items"]


def _page(store: Store, call: Any, start: Row | None, parameters: Row) -> Page:
    if start:
        parameters = parameters | {"ExclusiveStartKey": {name: {"S": text} for name, text in start.items()}}
    page: Page = call(TableName=store.table_name, ConsistentRead=True, Limit=PAGE_ROWS, **parameters)
    return page


@contextmanager
def _plain_rows(client: Any, operation: str) -> Iterator[None]:
    """Let an operation of the client answer with plain rows. Each thread's calls may run at the same time."""
    event = f"before-parse.dynamodb.{operation}"
    shared = {"unique_id": f"plain-rows-{operation}", "unique_id_uses_count": True}
    client.meta.events.register(event, _read, **shared)
    try:
        yield
    finally:
        client.meta.events.unregister(event, **shared)


def _read(response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
    """Read the body of a good answer in the place of botocore's parser, which gets an empty one."""
    if response_dict["status_code"] == 200:
        customized_response_dict.update(_DECODER.decode(response_dict["body"].decode()))
        response_dict["body"] = b"{}"


def _plain(members: list[tuple[str, Any]]) -> Any:
    """Return a value of DynamoDB's JSON as plain Python: an object with one member that names a type."""
    if len(members) == 1:
        ((kind, value),) = members
        if kind in ("S", "M", "BOOL"):
            return value
        if kind == "N":
            return _number(value)
        if kind == "SS":
            return set(value)
    return dict(members)


def _number(text: str) -> int | Decimal:
    """Return a whole number as an int. The table has no other, but a row that has one must be named."""
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_plain)
