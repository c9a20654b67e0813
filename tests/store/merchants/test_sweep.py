from collections.abc import Callable
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AccountNotFound, StoreUnavailable
from settlement.core.store.dynamodb import Store
from settlement.merchants import sweeper
from settlement.merchants.sweep import Span
from tests.world.ledger import Ledger
from tests.world.memory_dynamodb import MemoryDynamoDb

PARTITION, MINUTE = "ENTRIES#merchant.shop#3", "2026-11-22T06:04"
SPAN = Span(PARTITION, MINUTE)


@pytest.fixture
def shop(ledger: Ledger) -> Ledger:
    ledger.open("merchant.shop", 100)
    return ledger


def release(ledger: Ledger, second: str, amount: int, key: str = "k", partition: str = PARTITION) -> None:
    at = f"{MINUTE}:{second}.250Z"
    row: Row = {"pk": partition, "sk": f"{at}#{key}:release", "step": "release", "posted_at": at}
    ledger.put(row | {"amount": amount, "currency": "EUR", "side": "credit", "credit": "merchant.shop"})


def available(ledger: Ledger) -> int:
    found = ledger.row(keys.account("merchant.shop"))
    assert found
    total: int = found["available"]
    return total


class Meanwhile:
    """Client that runs an action before, or after, each of the first calls of an operation."""

    def __init__(self, client: Any, operation: str, *acts: Callable[[], object], after: bool = False) -> None:
        self._client, self._operation, self._acts, self._after = client, operation, list(acts), after

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def answered(**parameters: Any) -> Any:
            answer = call(**parameters) if self._after else None
            self._acts.pop(0)()
            return answer or call(**parameters)

        return answered if name == self._operation and self._acts else call


def beside(ledger: Ledger, *acts: Callable[[], object], operation: str = "", after: bool = False) -> Store:
    client = Meanwhile(ledger.client, operation or "transact_write_items", *acts, after=after)
    return Store(client, ledger.table_name, pause=lambda failed_tries: None)


def test_a_sweep_adds_each_release_once_and_returns_the_sum(shop: Ledger) -> None:
    release(shop, "07", 5, "a")
    release(shop, "07", 3, "b")
    release(shop, "59", 1, "c")

    assert [sweeper.fold(shop.store, SPAN), sweeper.fold(shop.store, SPAN)] == [9, 0]

    assert available(shop) == 109
    assert shop.row(SPAN.swept) == {**SPAN.swept, "version": 1, "folded": {"07": 8, "59": 1}}


@pytest.mark.parametrize("swept_before", [False, True])
def test_one_of_two_concurrent_sweeps_wins_and_the_other_retries(shop: Ledger, swept_before: bool) -> None:
    release(shop, "07", 5, "a")
    if swept_before:
        sweeper.fold(shop.store, SPAN)
        release(shop, "08", 2, "b")

    def quicker() -> None:
        sweeper.fold(shop.store, SPAN)
        release(shop, "09", 1, "c")

    assert sweeper.fold(beside(shop, quicker), SPAN) == 1

    assert available(shop) == (108 if swept_before else 106)


@pytest.mark.parametrize("operation", ["get_item", "query"])
def test_a_concurrent_sweep_between_two_reads_counts_once(shop: Ledger, operation: str) -> None:
    """The sweep row must be read before the entries: read later, it could exceed their sum."""
    release(shop, "07", 5, "a")

    def quicker() -> None:
        release(shop, "07", 3, "b")
        sweeper.fold(shop.store, SPAN)

    sweeper.fold(beside(shop, quicker, operation=operation, after=True), SPAN)

    assert available(shop) == 108


def test_a_sweep_that_always_loses_gives_up_without_effect(shop: Ledger) -> None:
    def quicker(number: int) -> Callable[[], object]:
        def act() -> None:
            sweeper.fold(shop.store, SPAN)
            release(shop, "09", 1, f"k{number}")

        return act

    release(shop, "07", 5, "a")
    with pytest.raises(StoreUnavailable, match="other sweepers"):
        sweeper.fold(beside(shop, *map(quicker, range(sweeper.TRIES_MAX))), SPAN)

    assert available(shop) == 105 + sweeper.TRIES_MAX - 1


def test_a_sweep_of_a_missing_account_is_refused_without_change(ledger: Ledger) -> None:
    release(ledger, "07", 5)
    before = ledger.rows()

    with pytest.raises(AccountNotFound):
        sweeper.fold(ledger.store, SPAN)

    assert ledger.rows() == before


def test_a_release_in_another_currency_is_not_swept(shop: Ledger) -> None:
    release(shop, "07", 5, "a")
    foreign = shop.row({"pk": PARTITION, "sk": f"{MINUTE}:07.250Z#a:release"})
    assert foreign
    shop.put({**foreign, "currency": "JPY"})
    release(shop, "07", 3, "b")
    unread: list[str] = []

    assert sweeper.fold(shop.store, SPAN, lambda key, reason: unread.append(reason)) == 3

    assert (available(shop), unread) == (103, ["currency: must be the account's"])


@pytest.mark.parametrize("engine", ["memory"])
@pytest.mark.parametrize("page_rows", [1, 2, 3])
def test_a_sweep_reads_every_page(shop: Ledger, page_rows: int) -> None:
    assert isinstance(shop.client, MemoryDynamoDb)
    shop.client.page_rows = page_rows
    for number in range(7):
        release(shop, "07", 1, f"k{number}")

    assert sweeper.fold(shop.store, SPAN) == 7


@pytest.mark.parametrize("engine", ["server"])
def test_a_partition_above_one_megabyte_is_read_completely(shop: Ledger) -> None:
    for number in range(5):
        release(shop, "07", 1, f"k{number}-" + "x" * 500)
        at = f"{MINUTE}:07.250Z"
        row = {"pk": PARTITION, "sk": f"{at}#k{number}:release", "posted_at": at, "step": "release"}
        shop.put(row | {"amount": 1, "currency": "EUR", "more": "x" * 300_000})

    assert sweeper.fold(shop.store, SPAN) == 10


def test_reading_between_two_sort_keys_includes_both_bounds(ledger: Ledger) -> None:
    for name in ("b", "a", "c", "cc", "d"):
        ledger.put({"pk": "ENTRIES#x", "sk": name})
    ledger.put({"pk": "ENTRIES#y", "sk": "b"})

    assert [row["sk"] for row in ledger.store.entries("ENTRIES#x", "b", "cc")] == ["b", "c", "cc"]
    assert list(ledger.store.entries("ENTRIES#z", "b", "cc")) == []
