from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.errors import AccountNotFound
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import outcome
from settlement.reading import statement_line
from settlement.reading.queries import IN_FLIGHT, EntriesQuery, StatusQuery
from settlement.reading.statement_line import Line
from settlement.retention import expiry

Aside = dict[str, str]

_FORWARD = {step.value for step in Step}
"""Names of the forward steps. A settlement has at most one such entry in an account."""


def statement(query: EntriesQuery) -> dict[str, Any]:
    """Return a page of an account's statement, oldest entry first. Raises AccountNotFound."""
    config = _dependencies.config
    currency, available = _balance(query.account)
    found = _page(query, currency)
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
                "posted_at": line.posted_at,
                "key": line.key,
                "step": line.step,
                "change": money.render(line.change, exponent),
            }
            for line in found.lines
        ],
        "unreadable": found.unreadable,
        "cursor": found.cursor,
    }


def by_account(query: EntriesQuery) -> dict[str, Any]:
    found = _page(query, _balance(query.account)[0])
    told = _told([line.key for line in found.lines if line.step in _FORWARD], found.cursor)
    told["unreadable"] = found.unreadable + told["unreadable"]
    return told


def by_status(query: StatusQuery) -> dict[str, Any]:
    """A page of settlements whose row has the status.

    Each listed row is read, because the index lags, and mixes running settlements with reversals.
    """
    places = list(islice(_places(query), query.limit))
    cursor = query.cursor(places[-1]) if len(places) == query.limit else None
    return _told([key for _, _, key in places], cursor, status=query.status)


def _told(names: list[str], cursor: str | None, status: str | None = None) -> dict[str, Any]:
    outcomes, unreadable = list[dict[str, Any]](), list[Aside]()
    for key in names:
        try:
            state = _dependencies.store.settlement(key)
            if state and status in (None, state.status):
                outcomes.append(outcome.of_state(state, _dependencies.config, replayed=True))
        except MalformedRow as malformed:
            unreadable.append({"row": keys.settlement(key)["pk"], "reason": str(malformed)})
    return {"settlements": outcomes, "unreadable": unreadable, "cursor": cursor}


@dataclass(frozen=True)
class _Entries:
    lines: list[Line]
    unreadable: list[Aside]
    cursor: str | None


def _page(query: EntriesQuery, currency: str) -> _Entries:
    first, spoilt = query.position or query.since, dict[str, str]()

    def put_aside(key: Row, reason: str) -> None:
        spoilt[key["sk"]] = reason

    partitions = [
        _dependencies.store.entries(
            partition, first, query.before, limit=query.limit + 2, unreadable=put_aside
        )
        for partition in keys.entry_partitions(query.account)
    ]
    ordered = merge(*partitions, key=lambda entry: str(entry["sk"]))
    behind = (entry for entry in ordered if entry["sk"] != query.position)
    found = list(islice(behind, query.limit + 1))
    cursor = query.cursor(found[query.limit - 1]["sk"]) if len(found) > query.limit else None
    lines, last = list[Line](), found[query.limit - 1]["sk"] if cursor else keys.END_OF_TIME
    spoilt = {row: reason for row, reason in spoilt.items() if query.position != row and row <= last}
    for entry in found[: query.limit]:
        try:
            lines.append(statement_line.read(entry, currency))
        except MalformedRow as malformed:
            spoilt[entry["sk"]] = str(malformed)
    aside = [{"row": row, "reason": reason} for row, reason in sorted(spoilt.items())]
    return _Entries(lines, aside, cursor)


def _places(query: StatusQuery) -> Iterator[tuple[int, str, str]]:
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
    if not accounts.is_customer(account):
        currency = account.partition(":")[2]
        if currency not in _dependencies.config.currencies:
            raise AccountNotFound("account")
        return currency, None
    state = _dependencies.store.account(account)
    if state is None:
        raise AccountNotFound("account")
    state.exponent(_dependencies.config)
    return state.currency, state.available
