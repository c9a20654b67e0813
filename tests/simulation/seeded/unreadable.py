"""Sweeps unreadable releases to merchants among readable ones, after a world's history.

A foreign writer spoils entries or a minute's row, and sends invalid messages. Later the rows are repaired.
"""

import json
import os
from contextlib import ExitStack, suppress
from random import Random
from typing import Any
from unittest import mock

from botocore.exceptions import ReadTimeoutError

from handlers import _dependencies
from settlement.aws import queues as _queues
from settlement.core.ledger import keys
from settlement.core.model.errors import SettlementError, StoreUnavailable
from settlement.core.store.dynamodb import Store
from tests.simulation.seeded.facts import demand, is_swept_later, number
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.functions import HANDLERS, Context
from tests.world.memory_dynamodb import Key, MemoryDynamoDb, error
from tests.world.rooms import is_there
from tests.world.services import Died

FAULTS_MAX = 12
"""Maximum faults per world, because a call might never end otherwise."""

SPOILT: tuple[dict[str, Any], ...] = (
    {"amount": {"S": "many"}},
    {"amount": {"N": "1.5"}},
    {"amount": {"N": "-3"}},
    {"currency": {"N": "1"}},
    {"currency": {"S": "XAU"}},
    {"posted_at": {"S": "yesterday"}},
    {"step": {"SS": ["release"]}},
)
"""A foreign writer's changes to an entry."""

NONSENSE = ("no json", "{}", '[["ENTRIES#alice", "yesterday"]]', "[[1, 2]]", "null")
"""Messages that PublishEvents never sends."""

NO_RELEASE = ["ENTRIES#merchant.shop", "yesterday"]
"""A key that is not a release's, which PublishEvents never sends together with a release."""


class Unreadable:
    def __init__(self, seed: int) -> None:
        self._random = Random(f"unreadable {seed}")
        self._faults = 0
        self._aside: set[str] = set()

    def play(self, history: MemoryDynamoDb) -> None:
        releases = [row for row in history.items.values() if is_swept_later(row)]
        if not releases or not is_there("merchants"):
            return
        table = MemoryDynamoDb(items=history.items)
        with ExitStack() as stack:
            for place, name, part in (
                (_queues, "_client", self),
                (_dependencies, "store", Store(table, "simulated")),
                (_dependencies, "now", lambda: NOW),
            ):
                stack.enter_context(mock.patch.object(place, name, part))
            self._deliver([_body(_key(row)) for row in releases])
            demand(not self._aside, "what a function has put is read", *self._aside)
            if whole := [row for row in releases if _is_whole(table, _minute(_key(row)))]:
                self._spoil(table, self._more(whole))

    def send_message(self, QueueUrl: str, MessageBody: str, MessageAttributes: Any) -> None:  # noqa: N803
        fault = None
        if self._faults < FAULTS_MAX and self._random.random() < 0.3:
            self._faults += 1
            fault = self._random.choice(("died before", "died after", "throttled", "lost"))
        if fault == "died before":
            raise Died
        if fault == "throttled":
            raise error("Call", "ThrottlingException", "Rate exceeded")
        demand(QueueUrl == os.environ["SWEEPS_PUT_ASIDE"], "no message goes elsewhere", QueueUrl)
        demand(MessageAttributes["reason"]["StringValue"], "what is put aside has a reason", MessageBody)
        self._aside.add(MessageBody)
        if fault == "died after":
            raise Died
        if fault == "lost":
            raise ReadTimeoutError(endpoint_url="https://service.invalid")

    def _more(self, releases: list[Item]) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        for number_ in range(self._random.randint(2, 6)):
            row = self._random.choice(releases)
            at = row["posted_at"]["S"][:17] + f"{self._random.choice((0, 30, 59)):02}.000Z"
            key = (row["pk"]["S"], f"{at}#order-late-{number_}:release")
            found[key] = {**row, "sk": {"S": key[1]}, "posted_at": {"S": at}}
        return found

    def _spoil(self, table: MemoryDynamoDb, late: dict[Key, Item]) -> None:
        before = _available(table)
        spoilt = {key for key in sorted(late) if self._random.random() < 0.4}
        for key, row in late.items():
            _put(table, {**row, **(self._random.choice(SPOILT) if key in spoilt else {})})
        minute = self._spoilt_minute(table, late) if self._random.random() < 0.3 else None
        unread = spoilt | {key for key in late if minute and _minute(key) == minute[0]}
        nonsense = set(self._random.sample(NONSENSE, self._random.randint(0, 2)))

        first, *others = late
        self._deliver([json.dumps([NO_RELEASE, first]), *map(_body, others), *sorted(nonsense)])

        wanted = nonsense | {json.dumps([NO_RELEASE])} | {*map(_body, unread)}
        doubtful = {_body(key) for key in late if _second(key) in {*map(_second, unread)}}
        demand(wanted <= self._aside <= wanted | doubtful, "what no sweep can read is put aside", *late)
        read = _sums(row for key, row in late.items() if key not in unread)
        grown = _difference(_available(table), before)
        demand(grown == read, "what no sweep can read holds up no other release", grown, read)
        for row in late.values():
            _put(table, row)
        if minute:
            _put(table, minute[1])
        self._deliver([*map(_body, late)])
        grown, all_of_it = _difference(_available(table), before), _sums(late.values())
        demand(grown == all_of_it, "what is mended is swept once", grown, all_of_it)
        self._be_busy(table, late)

    def _be_busy(self, table: MemoryDynamoDb, late: dict[Key, Item]) -> None:
        before, transact = _available(table), Store.transact
        more = {(pk, f"{sk}-again"): {**row, "sk": {"S": f"{sk}-again"}} for (pk, sk), row in late.items()}
        for row in more.values():
            _put(table, row)
        busy = self._random.choice(sorted({row["credit"]["S"] for row in more.values()}))

        def conflicts(store: Store, writes: Any) -> Any:
            if any(write.parameters.get("Key") == keys.account(busy) for write in writes):
                raise StoreUnavailable("DynamoDB: TransactionConflict")
            return transact(store, writes)

        event = {"Records": [{"messageId": _body(key), "body": _body(key)} for key in more]}
        answer: dict[str, Any] = {"batchItemFailures": []}
        with mock.patch.object(Store, "transact", conflicts), suppress(SettlementError):
            answer = HANDLERS["SweepMerchants"](event, Context())
        grown = _difference(_available(table), before)
        others = _sums(row for row in more.values() if row["credit"]["S"] != busy)
        demand(grown == others, "a busy merchant holds up no other one", grown, others)
        failed = {one["itemIdentifier"] for one in answer["batchItemFailures"]}
        waits = {_body(key) for key, row in more.items() if row["credit"]["S"] == busy}
        demand(failed <= waits, "only a busy merchant's releases come again", failed)
        demand(
            bool(failed) or not _sums(more.values()).get(f"ACCOUNT#{busy}"), "a busy merchant's come again"
        )
        self._deliver([*map(_body, more)])
        demand(_difference(_available(table), before) == _sums(more.values()), "they are swept then")

    def _spoilt_minute(self, table: MemoryDynamoDb, late: dict[Key, Item]) -> tuple[Key, Item] | None:
        key = _minute(self._random.choice(sorted(late)))
        row = table.items.get(key)
        if row is None:
            return None
        _put(table, {**row, "folded": {"M": {"00": {"S": "much"}}}})
        return key, row

    def _deliver(self, bodies: list[str]) -> None:
        self._random.shuffle(bodies)
        while bodies:
            size = self._random.randint(1, 4)
            batch, bodies = bodies[:size], bodies[size:]
            event = {"Records": [{"messageId": body, "body": body} for body in batch]}
            for _ in range(2 * FAULTS_MAX):
                try:
                    answer = HANDLERS["SweepMerchants"](event, Context())
                except (Died, SettlementError):
                    continue
                demand(answer == {"batchItemFailures": []}, "what no sweep can read fails no message", answer)
                if self._random.random() > 0.1:
                    break
            else:
                demand(False, "a batch with what no sweep can read ends", *batch)


def _key(row: Item) -> Key:
    return row["pk"]["S"], row["sk"]["S"]


def _body(key: Key) -> str:
    return json.dumps([key])


def _second(key: Key) -> Key:
    return key[0], key[1][:19]


def _minute(key: Key) -> Key:
    return f"SWEPT#{key[0]}", key[1][:16]


def _is_whole(table: MemoryDynamoDb, minute: Key) -> bool:
    """Return whether no entry of a minute has expired, because late releases come before that."""
    partition = minute[0].removeprefix("SWEPT#")
    entries = [row for (pk, sk), row in table.items.items() if pk == partition and sk[:16] == minute[1]]
    folded = table.items[minute]["folded"]["M"].values()
    return sum(number(row, "amount") for row in entries) == sum(int(total["N"]) for total in folded)


def _put(table: MemoryDynamoDb, row: Item) -> None:
    table.put_item(TableName="simulated", Item=row)


def _available(table: MemoryDynamoDb) -> dict[str, int]:
    return {pk: number(row, "available") for (pk, _), row in table.items.items() if pk.startswith("ACCOUNT#")}


def _difference(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {account: more for account, total in now.items() if (more := total - before[account])}


def _sums(releases: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in releases:
        account = f"ACCOUNT#{row['credit']['S']}"
        found[account] = found.get(account, 0) + number(row, "amount")
    return {account: total for account, total in found.items() if total}
