from collections.abc import Iterator
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.store.dynamodb import Store
from tests.store.failures.scripted import ANSWERED, Scripted, wire
from tests.world.ledger import Ledger

PARTITION = "IN_FLIGHT#3"
LONG = "x" * 2_000


def put(ledger: Ledger, name: str, at: str, partition: str = PARTITION, **more: Any) -> keys.Row:
    row = {**keys.settlement(name), "gsi1pk": partition, "gsi1sk": at, **more}
    ledger.put(row)
    return {name: row[name] for name in ("pk", "sk", "gsi1sk")}


def listed(
    ledger: Ledger, up_to: str = "9", partition: str = PARTITION, limit: int = 1_000
) -> list[keys.Row]:
    return list(ledger.store.listed(partition, up_to=up_to, limit=limit))


def test_a_partition_is_listed_by_keys_within_bound_and_limit(
    ledger: Ledger,
) -> None:
    put(ledger, "later", "2027")
    there = [put(ledger, name, f"2026-{number}") for number, name in enumerate("zcab")]
    for number, name in reversed(list(enumerate("zcab"))):
        put(ledger, name, f"2026-{number}")
    put(ledger, "in another shard", "1", "IN_FLIGHT#30")
    put(ledger, "in LIMBO", "1", "LIMBO")

    assert listed(ledger, "2026-3") == there
    assert listed(ledger, "2026-2.9") == there[:3]
    for limit in (0, 1, 3, 4, 5):
        assert listed(ledger, "2026-3", limit=limit) == there[:limit]


def test_a_partition_is_listed_between_two_inclusive_times(ledger: Ledger) -> None:
    there = [put(ledger, name, f"2026-{number}") for number, name in enumerate("zcab")]

    def between(since: str, up_to: str, limit: int = 9) -> list[keys.Row]:
        return list(ledger.store.listed(PARTITION, since=since, up_to=up_to, limit=limit))

    assert between("2026-1", "2026-2") == there[1:3]
    assert between("2026-0.5", "2026-9") == there[1:]
    assert between("2026-1", "2026-9", limit=2) == there[1:3]
    assert between("2027", "2028") == []


def test_a_listing_returns_only_a_rows_keys(ledger: Ledger) -> None:
    more: dict[str, Any] = {"amount": 4820, "currency": "EUR", "status": "PROCESSING", "owner": "execution-1"}
    row = put(ledger, "a", "1", **more, escrow=4820)

    assert listed(ledger) == [row]
    assert row.keys() == {"pk", "sk", "gsi1sk"}


@pytest.mark.parametrize("engine", ["server"])
def test_the_index_has_only_the_keys_of_a_row(ledger: Ledger) -> None:
    put(ledger, "a", "1", amount=4820, owner="execution-1")

    pages = ledger.client.get_paginator("scan").paginate(TableName=ledger.table_name, IndexName=keys.INDEX)

    (item,) = (item for page in pages for item in page["Items"])
    assert item.keys() == {"pk", "sk", "gsi1pk", "gsi1sk"}


@pytest.mark.parametrize("engine", ["server"])
def test_a_partition_above_one_megabyte_is_listed_completely(ledger: Ledger) -> None:
    """Only projected attributes count towards a page, so the keys are long and many."""
    partition = f"IN_FLIGHT#{LONG}"
    names = [f"{number:03}{LONG}" for number in range(400)]
    for number, name in enumerate(names):
        put(ledger, name, f"{number:03}", partition)
    pages: list[Any] = []

    def watch(parsed: dict[str, Any], **_: Any) -> None:
        pages.append(parsed["Items"])

    ledger.client.meta.events.register("after-call.dynamodb.Query", watch)

    found, first = listed(ledger, partition=partition), listed(ledger, partition=partition, limit=380)

    ledger.client.meta.events.unregister("after-call.dynamodb.Query", watch)
    assert [row["pk"] for row in found] == [f"SETTLEMENT#{name}" for name in names]
    assert first == found[:380]
    assert len(pages) > 3


def page(*names: str, more: bool = False) -> dict[str, Any]:
    key = {"pk": {"S": names[-1] if names else "-"}}
    return (
        ANSWERED
        | {"Items": [wire({"pk": name}) for name in names]}
        | ({"LastEvaluatedKey": key} if more else {})
    )


@pytest.fixture
def pauses() -> list[int]:
    return []


def scripted(pauses: list[int], *answers: Any, limit: int = 10) -> tuple[Iterator[keys.Row], Scripted]:
    client = Scripted(*answers)
    store = Store(client, "t", pause=pauses.append)
    return store.listed(PARTITION, up_to="5", limit=limit), client


def test_each_page_starts_after_the_previous_even_an_empty_one(
    pauses: list[int],
) -> None:
    found, client = scripted(pauses, page("a", more=True), page(more=True), page("b", "c"))

    assert [row["pk"] for row in found] == ["a", "b", "c"]
    assert [sent.get("ExclusiveStartKey") for _, sent in client.sent] == [
        None,
        {"pk": {"S": "a"}},
        {"pk": {"S": "-"}},
    ]
    assert {operation for operation, _ in client.sent} == {"query"}
    assert all(
        sent["ExpressionAttributeValues"] == {":partition": {"S": PARTITION}, ":up_to": {"S": "5"}}
        and (sent["TableName"], sent["IndexName"], sent.get("ScanIndexForward", True)) == ("t", "gsi1", True)
        for _, sent in client.sent
    )


@pytest.mark.parametrize(
    ("pages", "limit", "found", "asked"),
    [
        ([page("a", "b", more=True), page("c", more=True)], 3, ["a", "b", "c"], [3, 1]),
        ([page(more=True), page("a", more=True)], 1, ["a"], [1, 1]),
        ([], 0, [], []),
    ],
    ids=["over the pages", "not for an empty page", "zero"],
)
def test_the_limit_counts_the_rows_of_all_pages(
    pauses: list[int], pages: list[Any], limit: int, found: list[str], asked: list[int]
) -> None:
    rows, client = scripted(pauses, *pages, limit=limit)

    assert [row["pk"] for row in rows] == found
    assert [sent["Limit"] for _, sent in client.sent] == asked


def test_the_next_page_is_read_only_when_needed(pauses: list[int]) -> None:
    found, client = scripted(pauses, page("a", more=True), page("b"))

    next(found)

    assert len(client.sent) == 1
