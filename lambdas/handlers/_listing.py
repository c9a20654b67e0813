"""Pages for a reader: an account's statement, and settlements by account or by status."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any

from handlers import _dependencies
from settlement.ledger import expiry, keys
from settlement.ledger.keys import Row
from settlement.model import accounts, money
from settlement.model.errors import AccountNotFound
from settlement.model.status import Step
from settlement.policy import outcome
from settlement.policy.reading import IN_FLIGHT, EntriesQuery, StatusQuery

_FORWARD = {step.value for step in Step}
"""A settlement has one entry of these on an account: the reversals have names of their own."""


def statement(query: EntriesQuery) -> dict[str, Any]:
    """Return a page of an account's statement, oldest entry first. Raises AccountNotFound.

    The entries of a merchant or an internal account lie in many partitions, each of which is asked.
    """
    config = _dependencies.config
    currency, available = _balance(query.account)
    found, cursor = _entries(query)
    exponent = config.currencies[currency]
    days = config.shortest_retention_days
    kept_from = None if days is None else expiry.kept_from(_dependencies.now(), days)
    return {
        "account": query.account,
        "currency": currency,
        "available": None if available is None else money.render(available, exponent),
        **({"complete_since": kept_from} if kept_from else {}),
        "entries": [
            {
                "posted_at": entry["posted_at"],
                "key": _key(entry),
                "step": entry["step"],
                "change": money.render(_change(entry), exponent),
            }
            for entry in found
        ],
        "cursor": cursor,
    }


def by_account(query: EntriesQuery) -> dict[str, Any]:
    """Return the settlements of a page of an account's entries, each once. Raises AccountNotFound."""
    _balance(query.account)
    found, cursor = _entries(query)
    return _page([_key(entry) for entry in found if entry["step"] in _FORWARD], cursor)


def by_status(query: StatusQuery) -> dict[str, Any]:
    """Return the settlements of a page of the index that still have the status.

    The index lags, and lists those that are being reversed beside those that run: each row is read.
    """
    places = list(islice(_places(query), query.limit))
    cursor = query.cursor(places[-1]) if len(places) == query.limit else None
    return _page([key for _, _, key in places], cursor, status=query.status)


def _page(names: list[str], cursor: str | None, status: str | None = None) -> dict[str, Any]:
    config, store = _dependencies.config, _dependencies.store
    states = [state for state in map(store.settlement, names) if state]
    return {
        "settlements": [
            outcome.of_state(state, config, replayed=True)
            for state in states
            if status is None or state.status == status
        ],
        "cursor": cursor,
    }


def _entries(query: EntriesQuery) -> tuple[list[Row], str | None]:
    """Return a page of entries by their times, and the cursor behind it if there are more."""
    first = query.position or query.since
    partitions = [
        _dependencies.store.entries(partition, first, query.before, limit=query.limit + 2)
        for partition in keys.entry_partitions(query.account)
    ]
    ordered = merge(*partitions, key=lambda entry: str(entry["sk"]))
    behind = (entry for entry in ordered if entry["sk"] != query.position)
    found = list(islice(behind, query.limit + 1))
    page = found[: query.limit]
    return page, query.cursor(page[-1]["sk"]) if len(found) > query.limit else None


def _places(query: StatusQuery) -> Iterator[tuple[int, str, str]]:
    """Yield places in the index: the partition's number, the sort key, and the settlement's key."""
    shards = range(keys.IN_FLIGHT_SHARDS if query.status in IN_FLIGHT else 1)
    number, listed_at, key = query.position or (0, "", "")
    for shard in shards[number:]:
        after = None
        if query.position and shard == number:
            after = {**keys.settlement(key), "gsi1sk": listed_at}
        partition = keys.in_flight_partition(shard) if query.status in IN_FLIGHT else keys.LIMBO
        for listed in _dependencies.store.listed(
            partition, up_to=keys.END_OF_TIME, limit=query.limit, since=query.since, after=after
        ):
            yield shard, listed["gsi1sk"], keys.subject(listed)[1]


def _balance(account: str) -> tuple[str, int | None]:
    """Return an account's currency, and a customer's balance. Raises AccountNotFound."""
    if not accounts.is_customer(account):
        currency = account.partition(":")[2]
        if currency not in _dependencies.config.currencies:
            raise AccountNotFound("account")
        return currency, None
    state = _dependencies.store.account(account)
    if state is None:
        raise AccountNotFound("account")
    return state.currency, state.available


def _key(entry: Row) -> str:
    """Return the key under which the entry was posted: a settlement's, or a deposit's."""
    key: str = entry["sk"].partition("#")[2].partition(":")[0]
    return key


def _change(entry: Row) -> int:
    amount: int = entry["amount"]
    return amount if entry["side"] == "credit" else -amount
