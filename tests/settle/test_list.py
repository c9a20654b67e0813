import json
from typing import Any

import pytest

from settle import instants
from settle.exit_codes import Exit
from settle.orders import limbo
from settle.settlements import in_flight, index
from settlement.core.ledger import keys as ledger_keys
from settlement.core.model.errors import StoreUnavailable
from settlement.core.store import batch
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk
from tests.settle.flight import at, claimed, finished, key_of, stuck
from tests.world.environment import NOW
from tests.world.step_functions import client_error


class Client:
    """DynamoDB that counts calls and may leave rows of a batch unread."""

    def __init__(self, desk: Desk) -> None:
        self._client = desk.ledger.client
        self.spares = 0
        self.asked: list[int] = []
        self.listed = 0
        self._client.meta.events.register("after-call.dynamodb.Query", self._count)
        desk.stack.clients["dynamodb"] = self
        desk.stack.store.client = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_get_item(self, *, RequestItems: Any) -> Any:  # noqa: N803
        ((table, wanted),) = RequestItems.items()
        assert wanted["ConsistentRead"] is True
        keys = wanted["Keys"]
        self.asked.append(len(keys))
        served = len(keys) - self.spares if self.spares else len(keys)
        answer: Any = {"Responses": {table: []}, "UnprocessedKeys": {}}
        if served > 0:
            answer = self._client.batch_get_item(RequestItems={table: wanted | {"Keys": keys[:served]}})
        if served < len(keys):
            answer["UnprocessedKeys"] = {table: wanted | {"Keys": keys[max(served, 0) :]}}
        return answer

    def _count(self, parsed: Any, **_: Any) -> None:
        self.listed += len(parsed["Items"])


@pytest.fixture
def client(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(batch, "pause", lambda tries: None)
    return Client(desk)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "now", lambda: NOW)


def keys(found: index.Found) -> list[str]:
    return [ledger_keys.subject(row)[1] for row in found.rows]


def test_the_list_is_ordered_by_due_time_across_all_shards(desk: Desk) -> None:
    due = {number: (number * 37) % 20 for number in range(1, 20)}
    shards = {claimed(desk, number, due=seconds)["gsi1pk"] for number, seconds in due.items()}
    assert len(shards) == ledger_keys.IN_FLIGHT_SHARDS

    found = in_flight.in_flight(desk.stack, 100)

    assert keys(found) == [key_of(number) for number in sorted(due, key=lambda number: due[number])]
    assert not found.more


@pytest.mark.parametrize(("limit", "more"), [(1, True), (29, True), (30, False)])
def test_a_limited_list_says_that_there_are_more(
    desk: Desk, client: Client, monkeypatch: pytest.MonkeyPatch, limit: int, more: bool
) -> None:
    monkeypatch.setattr(index, "BATCH_MAX", 2)
    for number in range(30):
        claimed(desk, number, due=number)

    found = in_flight.in_flight(desk.stack, limit)

    assert (keys(found), found.more) == ([key_of(number) for number in range(limit)], more)
    assert client.asked == [2] * ((limit + 1) // 2)


def test_a_limited_list_reads_no_more_than_needed(
    desk: Desk, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BATCH_MAX", 2)
    for number in range(120):
        claimed(desk, number, due=number)

    assert in_flight.in_flight(desk.stack, 2).more

    assert client.asked == [2, 1]
    # A page of each shard, and another of each whose first was shown.
    assert client.listed <= 2 * (ledger_keys.IN_FLIGHT_SHARDS + 4)


@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATED", "LIMBO"])
def test_a_settlement_that_ended_after_listing_is_skipped(desk: Desk, status: str) -> None:
    claimed(desk, 1, due=1, status=status)
    claimed(desk, 2, due=2)
    claimed(desk, 3, due=3, status="COMPENSATING")

    assert keys(in_flight.in_flight(desk.stack, 2)) == [key_of(2), key_of(3)]
    assert not in_flight.in_flight(desk.stack, 2).more


@pytest.mark.parametrize("behind", [key_of(2), key_of(1)], ids=["gone", "moved"])
def test_a_row_that_moves_during_the_read_is_shown_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    """The index can list a row twice, but DynamoDB refuses to read a row twice in one call."""
    partition = claimed(desk, 1, due=90)["gsi1pk"]
    listed, stale = index._entries, [{**ledger_keys.settlement(behind), "gsi1sk": at(0)}]
    monkeypatch.setattr(
        index,
        "_entries",
        lambda *where: iter([*(stale if where[-1] == partition else []), *listed(*where)]),
    )

    assert keys(in_flight.in_flight(desk.stack, 10)) == [key_of(1)]


@pytest.mark.parametrize("recovers", [True, False])
def test_unread_rows_are_retried_a_bounded_number_of_times(
    desk: Desk, client: Client, monkeypatch: pytest.MonkeyPatch, recovers: bool
) -> None:
    for number in range(5):
        claimed(desk, number, due=number)
    client.spares = 2
    if recovers:
        monkeypatch.setattr(batch, "pause", lambda tries: setattr(client, "spares", 0))

        assert keys(in_flight.in_flight(desk.stack, 5)) == [key_of(number) for number in range(5)]
    else:
        with pytest.raises(StoreUnavailable, match="left rows unread"):
            in_flight.in_flight(desk.stack, 5)

    assert client.asked == [5] + [2] * (1 if recovers else batch.TRIES_MAX - 1)


REVIEW: dict[str, Any] = {
    "review": "ver_1",
    "in_flight_since": at(86_340),
    "deadline_at": at(86_340),
    "due": 86_340,
}
"""A settlement in review: recovery counts from the review's end."""


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, {"since": at(-100), "in_review": False, "recover_at": at(12), "deadline_at": at(800)}),
        ({"in_flight_since": at(-7)}, {"since": at(-7), "in_review": False, "deadline_at": at(800)}),
        (REVIEW, {"since": at(-100), "in_review": True, "deadline_at": at(86_340)}),
        ({"currency": "DEM"}, {"amount": None, "currency": "DEM"}),
    ],
    ids=["claimed", "set in motion again", "in review", "a currency that the stage has given up"],
)
def test_a_listed_settlement_shows_steps_owner_and_next_look(
    desk: Desk, extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    progress: dict[str, Any] = {"owner_epoch": 2, "owner": "an-execution"}
    claimed(desk, ago=100, verify_at=at(-97), hold_at=at(-98), **{"due": 12, **progress, **extra})

    (row,) = in_flight.in_flight(desk.stack, 1).rows
    line = in_flight.describe_in_flight(desk.stack, row)

    common: dict[str, Any] = {"key": key_of(1), "status": "PROCESSING", "amount": "48.20", "currency": "EUR"}
    common |= {**progress, "steps": ["hold", "verify"]}
    assert (common | expected).items() <= line.items()
    fields = common.keys() | {"since", "in_review", "recover_at", "deadline_at"}
    assert line.keys() - {"unreadable"} == fields


def test_list_since_shows_the_times_of_claim_and_end(desk: Desk) -> None:
    ended = in_flight.describe_claimed(desk.stack, finished(desk, ago=5))

    assert (ended["key"], ended["status"], ended["amount"]) == (key_of(1), "SETTLED", "48.20")
    assert (ended["claimed_at"], ended["finished_at"]) == (at(-5), at(1))
    assert in_flight.describe_claimed(desk.stack, claimed(desk, 2))["finished_at"] is None


def test_the_list_limbo_option_equals_the_limbo_list_command(desk: Desk, command: Command) -> None:
    stuck(desk, 1, since=-10)
    stuck(desk, 2, since=-20)
    claimed(desk, 3)

    assert command("list", "--limbo", "--json") == command("limbo", "list", "--json")
    code, out, err = command("list", "--limbo", "--json")
    assert (code, err) == (Exit.FINE, "")
    assert [(case["key"], case["since"]) for case in json.loads(out)] == [
        (key_of(2), at(-20)),
        (key_of(1), at(-10)),
    ]


def test_every_case_of_limbo_is_listed_across_batches(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BATCH_MAX", 2)
    for number in range(5):
        stuck(desk, number, since=number)

    cases, more = limbo.open_cases(desk.stack)
    assert ([case["key"] for case in cases], more) == ([key_of(number) for number in range(5)], False)
    cases, more = limbo.open_cases(desk.stack, 4)
    assert ([case["key"] for case in cases], more) == ([key_of(number) for number in range(4)], True)


def test_list_since_shows_settlements_of_every_status_oldest_first(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(desk, 1, ago=30)
    finished(desk, 2, ago=50, status="SETTLED")
    finished(desk, 3, ago=40, status="REJECTED")
    stuck(desk, 4, ago=60)
    claimed(desk, 5, ago=61)
    desk.ledger.put({**ledger_keys.evidence(key_of(1), "verify"), "claimed_at": at(0)})

    found = in_flight.claimed_since(desk.stack, instants.parse("60s", NOW), 10)

    assert (keys(found), found.more) == ([key_of(number) for number in (4, 2, 3, 1)], False)
    first = in_flight.claimed_since(desk.stack, instants.parse("60s", NOW), 3)
    assert (keys(first), first.more) == ([key_of(number) for number in (4, 2, 3)], True)


@pytest.mark.parametrize("which", [("--in-flight",), ("--limbo",), ("--since", "1h")], ids=" ".join)
def test_an_empty_list_prints_empty_json_or_a_sentence(command: Command, which: tuple[str, ...]) -> None:
    assert command("list", *which, "--json") == (Exit.FINE, "[]\n", "")
    code, out, err = command("list", *which)
    assert (code, err, len(out.splitlines())) == (Exit.FINE, "", 1)
    assert out.startswith("no settlement ")


@pytest.mark.parametrize("which", [("--in-flight",), ("--limbo",), ("--since", "1h")], ids=" ".join)
def test_standard_error_mentions_the_limit_only_if_it_cut(
    desk: Desk, command: Command, which: tuple[str, ...]
) -> None:
    make = stuck if which == ("--limbo",) else claimed
    for number in range(3):
        make(desk, number)

    code, out, err = command("list", *which, "--limit", "2", "--json")
    assert (code, len(json.loads(out))) == (Exit.FINE, 2)
    assert err == "there are more than these 2; see more of them with --limit\n"
    code, out, err = command("list", *which, "--limit", "3", "--json")
    assert (code, len(json.loads(out)), err) == (Exit.FINE, 3, "")


def test_the_list_shows_ages_and_each_key_once(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # no limit to a line in a pipe
    claimed(
        desk, ago=100, due=-20, hold_at=at(-99), verify_at=at(-98), owner_epoch=3, owner=f"{key_of(1)}-r3"
    )
    claimed(desk, 2, ago=80, **REVIEW)

    _, out, _ = command("list", "--in-flight")

    late, resting = (line for line in out.splitlines() if "order-" in line)
    for shown in (key_of(1), "1m 40s", "20s ago", "verify", "48.20 EUR", "…-r3"):
        assert shown in late
    assert "hold" not in out
    assert "PROCESSING (in review, until in 23h 59m)  1m 20s ago" in resting


def test_a_throttled_list_is_a_failed_command_in_one_line(
    desk: Desk, command: Command, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(desk)
    throttled = raising(client_error("BatchGetItem", "ThrottlingException"))
    monkeypatch.setattr(client, "batch_get_item", throttled)

    code, out, err = command("list", "--in-flight", "--json")

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert "StoreUnavailable: DynamoDB gave no rows" in err
