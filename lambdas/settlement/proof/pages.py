"""Pages of a scan or query, as plain rows.

The module parses successful responses itself: botocore and boto3 take six times as long.
"""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from random import SystemRandom
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StoreUnavailable
from settlement.core.store.dynamodb import Store
from settlement.journal.lines import plain_row

SEGMENTS = 4
"""Segments read in parallel. With four, judging rarely waits."""

PAGE_ROWS = 400
"""Rows of a page. Each segment has a page in memory. Pages of 1,000 rows would take 10 MB more."""

TRIES_MAX = 10
"""Maximum calls for one throttled or unanswered page, in some twenty seconds."""

Page = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One of `of` equal parts of a table, numbered from 0."""

    number: int
    of: int


WHOLE = Part(0, 1)


def scan(store: Store, part: Part = WHOLE, **parameters: Any) -> Iterator[Row]:
    """Yield rows unordered, read consistently. Raises StoreUnavailable."""

    def read(segment: int, start: Row | None) -> tuple[int, Page]:
        place = {"Segment": segment, "TotalSegments": SEGMENTS * part.of}
        return segment, _page(store, "scan", start, parameters | place)

    with _plain_rows(store.client, "Scan"), ThreadPoolExecutor(SEGMENTS) as threads:
        first = SEGMENTS * part.number
        reading = {threads.submit(read, segment, None) for segment in range(first, first + SEGMENTS)}
        while reading:
            done: set[Future[tuple[int, Page]]]
            done, reading = wait(reading, return_when=FIRST_COMPLETED)
            for segment, page in sorted((one.result() for one in done), key=itemgetter(0)):
                if start := page.get("LastEvaluatedKey"):
                    reading.add(threads.submit(read, segment, start))
                yield from page["Items"]


def query(store: Store, *partitions: str) -> Iterator[Row]:
    with _plain_rows(store.client, "Query"):
        for partition in partitions:
            wanted = {
                "KeyConditionExpression": "pk = :pk",
                "ExpressionAttributeValues": {":pk": {"S": partition}},
            }
            page = _page(store, "query", None, wanted)
            yield from page["Items"]
            while start := page.get("LastEvaluatedKey"):
                page = _page(store, "query", start, wanted)
                yield from page["Items"]


def _page(store: Store, operation: str, start: Row | None, parameters: Row) -> Page:
    if start:
        parameters = parameters | {"ExclusiveStartKey": {name: {"S": text} for name, text in start.items()}}
    for tries in range(1, TRIES_MAX):
        try:
            return store.page(operation, Limit=PAGE_ROWS, **parameters)
        except StoreUnavailable:
            wait_for_capacity(tries)
    return store.page(operation, Limit=PAGE_ROWS, **parameters)


def wait_for_capacity(failed_tries: int) -> None:
    """Pause a throttled scan for up to five seconds, so payments go first."""
    time.sleep(SystemRandom().uniform(0, min(0.1 * 2**failed_tries, 5)))


@contextmanager
def _plain_rows(client: Any, operation: str) -> Iterator[None]:
    """Make a client answer with plain rows, in any thread."""
    event = f"before-parse.dynamodb.{operation}"
    shared = {"unique_id": f"plain-rows-{operation}", "unique_id_uses_count": True}
    client.meta.events.register(event, _read, **shared)
    try:
        yield
    finally:
        client.meta.events.unregister(event, **shared)


def _read(response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
    """Parse the body here, and leave an empty object to botocore's slow parser."""
    if response_dict["status_code"] == 200:
        body = response_dict["body"].decode()
        decode = _exactly if _AMBIGUOUS.search(body) else _DECODER.decode
        customized_response_dict.update(decode(body))
        response_dict["body"] = b"{}"


def _exactly(body: str) -> Page:
    """Parse a body value by value: exactly, but ten times slower."""
    page: Page = json.loads(body)
    page["Items"] = [plain_row(item, Decimal) for item in page["Items"]]
    if "LastEvaluatedKey" in page:
        page["LastEvaluatedKey"] = plain_row(page["LastEvaluatedKey"])
    return page


def _plain(members: list[tuple[str, Any]]) -> Any:
    """Unwrap a value: an object's only member names its type."""
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
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


_AMBIGUOUS = re.compile(r'"M"\s*:\s*\{\s*"(?:S|N|M|SS|BOOL)"\s*:\s*\{')
"""A map with a member named like a type. The decoder would misread it. No function writes it."""

_DECODER = json.JSONDecoder(object_pairs_hook=_plain)
