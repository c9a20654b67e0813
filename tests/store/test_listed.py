"""The index's list of a partition up to a key: in order, the bound included, page by page."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.model.errors import StoreUnavailable
from tests.conftest import Ledger
from tests.store.test_store_failures import ANSWERED, Scripted, failed, wire

PARTITION = "IN_FLIGHT#3"
BIG = "x" * 300_000


def put(ledger: Ledger, name: str, at: str, partition: str = PARTITION, **more: Any) -> keys.Row:
    row = {**keys.settlement(name), "gsi1pk": partition, "gsi1sk": at, **more}
    ledger.put(row)
    return {name: row[name] for name in ("pk", "sk", "gsi1sk")}


def listed(
    ledger: Ledger, up_to: str = "9", partition: str = PARTITION, limit: int = 1_000
) -> list[keys.Row]:
    return list(ledger.store.listed(partition, up_to=up_to, limit=limit))


def test_a_partition_is_listed_in_the_order_of_its_keys_and_not_of_the_writes(
    ledger: Ledger,
) -> None:
    put(ledger, "c", "2026-11-20T12:00:00.003Z")
    first = put(ledger, "z", "2026-11-20T12:00:00.001Z")
    second = put(ledger, "a", "2026-11-20T12:00:00.002Z")

    found = listed(ledger, "2026-11-20T12:00:00.002Z")

    assert found == [first, second]


def test_the_bound_is_inclusive_and_a_row_due_a_moment_later_is_not_listed(ledger: Ledger) -> None:
    due = put(ledger, "a", "2026-11-20T12:00:00.002Z")

    assert listed(ledger, "2026-11-20T12:00:00.001Z") == []
    assert listed(ledger, "2026-11-20T12:00:00.002Z") == [due]


def test_only_the_partition_is_listed(ledger: Ledger) -> None:
    put(ledger, "a", "1", "IN_FLIGHT#30")
    put(ledger, "b", "1", "LIMBO")

    assert listed(ledger) == []


def test_a_row_that_left_the_index_is_not_listed(ledger: Ledger) -> None:
    put(ledger, "a", "1")
    ledger.put(keys.settlement("a"))

    assert listed(ledger) == []


def test_of_a_row_only_its_keys_are_listed_and_no_other_projected_attribute(ledger: Ledger) -> None:
    projected = {"amount": 4820, "currency": "EUR", "step": "hold", "side": "debit"}
    row = put(ledger, "a", "1", **projected, status="PROCESSING", owner="execution-1", escrow=4820)

    assert listed(ledger) == [row]
    assert row.keys() == {"pk", "sk", "gsi1sk"}


def test_all_pages_of_more_than_a_megabyte_are_listed_once_and_in_order(ledger: Ledger) -> None:
    """The size counts where it is projected, so a projected text is made long."""
    for number in range(8):
        put(ledger, f"k{number}", f"2026-{number}", side=BIG)
    pages: list[Any] = []
    watch = partial(_watch, pages)
    ledger.client.meta.events.register("after-call.dynamodb.Query", watch)

    found, first = listed(ledger), listed(ledger, limit=6)

    ledger.client.meta.events.unregister("after-call.dynamodb.Query", watch)
    assert [row["pk"] for row in found] == [f"SETTLEMENT#k{number}" for number in range(8)]
    assert first == found[:6]
    assert len(pages) > 3


def _watch(pages: list[Any], parsed: dict[str, Any], **_: Any) -> None:
    pages.append(parsed["Items"])


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


def test_each_page_is_read_from_the_end_of_the_one_before_even_of_an_empty_one(
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


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6, 1_000])
def test_at_most_the_limit_is_listed_from_the_first(ledger: Ledger, limit: int) -> None:
    there = [put(ledger, f"k{number}", f"2026-{number}") for number in range(5)]
    put(ledger, "later", "2027")

    assert listed(ledger, "2026-4", limit=limit) == there[:limit]


def test_the_limit_counts_over_the_pages_and_the_last_one_is_read_for_the_rest(
    pauses: list[int],
) -> None:
    found, client = scripted(pauses, page("a", "b", more=True), page("c", more=True), limit=3)

    assert [row["pk"] for row in found] == ["a", "b", "c"]
    assert [sent["Limit"] for _, sent in client.sent] == [3, 1]


def test_an_empty_page_uses_up_none_of_the_limit(pauses: list[int]) -> None:
    found, client = scripted(pauses, page(more=True), page("a", more=True), limit=1)

    assert [row["pk"] for row in found] == ["a"]
    assert [sent["Limit"] for _, sent in client.sent] == [1, 1]


def test_nothing_is_read_for_a_limit_of_zero(pauses: list[int]) -> None:
    found, client = scripted(pauses, limit=0)

    assert list(found) == []
    assert client.sent == []


def test_a_page_is_not_read_before_the_previous_one_is_consumed(pauses: list[int]) -> None:
    found, client = scripted(pauses, page("a", more=True), page("b"))

    next(found)

    assert len(client.sent) == 1


@pytest.mark.parametrize("code", ["InternalServerError", "ThrottlingException"])
def test_a_listing_that_dynamodb_does_not_answer_is_unavailable(pauses: list[int], code: str) -> None:
    found, _ = scripted(pauses, page("a", more=True), failed(code))

    assert next(found) == {"pk": "a"}
    with pytest.raises(StoreUnavailable, match=f"^DynamoDB: {code}$"):
        next(found)
