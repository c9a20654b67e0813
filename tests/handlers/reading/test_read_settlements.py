import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError

from handlers import _dependencies
from handlers.reading import _long_poll
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.orders import order_name
from settlement.core.model.status import Step
from settlement.orders.requests import part_name, refund_name
from settlement.reading.queries import parse_entries_query
from tests.handlers.conftest import Calls
from tests.world import reading
from tests.world.constants import KEY, REJECTED_BY_KYC, WIRE
from tests.world.contracts import checked_outcome
from tests.world.functions import FORWARD, HANDLERS, Context
from tests.world.reading import Answer

LISTED_AT = "2026-11-20T12:00:00.123Z"
Ask = Callable[..., Answer]


class Clock:
    """A clock that each sleep advances; a sleep also runs the action `meanwhile`."""

    def __init__(self) -> None:
        self.now, self.sleeps = 100.0, 0
        self.meanwhile: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1
        self.meanwhile()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_long_poll, "time", clock)
    return clock


@pytest.fixture
def ask(calls: Calls, clock: Clock) -> Ask:
    def ask(event: dict[str, Any], left_ms: Iterator[int] | None = None) -> Answer:
        with calls.writes_nothing():
            return reading.answer(calls.handlers["ReadSettlements"](event, Context(left_ms)))

    return ask


@pytest.fixture
def many(calls: Calls) -> list[str]:
    named = [f"order-2026-00020{number}" for number in range(5)]
    calls.ledger.open("alice", 100_000)
    calls.ledger.open("bob", 0)
    for key in named:
        calls.run(*FORWARD, settlement=WIRE | {"key": key})
    return named


def pages(ask: Ask, make: Callable[..., dict[str, Any]], member: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = ask(make(**cursor))
        assert answer.status == 200, answer
        found.append(answer.content[member])
        if answer.content["cursor"] is None:
            return found
        cursor = {"cursor": answer.content["cursor"]}


def forged(page: Answer, *position: Any) -> str:
    """Forge a cursor with the page cursor's digest and another position, as anyone can."""
    given = page.content["cursor"]
    digest = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))[0]
    return base64.urlsafe_b64encode(json.dumps([digest, *position]).encode()).decode().rstrip("=")


# One settlement


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_an_outcome_follows_the_contract_with_its_sequence_as_etag(
    calls: Calls, ask: Ask, state: str
) -> None:
    calls.after(state)

    answer = ask(reading.outcome(KEY))

    assert (answer.status, answer.headers["etag"]) == (200, f'"{calls.row()["sequence"]}"')
    assert checked_outcome(answer.content) == calls.report() | {"replayed": True}


@pytest.mark.parametrize("given", ['"{}"', 'W/"{}"', '"1234", "{}"', '"1234","{}"', "*"])
def test_a_reader_with_the_current_version_gets_304(calls: Calls, ask: Ask, given: str) -> None:
    calls.after("CollectFee")
    sequence = calls.row()["sequence"]

    answer = ask(reading.outcome(KEY, if_none_match=given.format(sequence)))

    assert answer == (304, {"etag": f'"{sequence}"'}, None)


@pytest.mark.parametrize("given", ['"1"', "", "nonsense", "2"])
def test_a_reader_with_another_version_gets_the_outcome(calls: Calls, ask: Ask, given: str) -> None:
    calls.after("CollectFee")

    assert ask(reading.outcome(KEY, if_none_match=given)).status == 200


def test_a_key_that_was_never_claimed_is_not_found(ask: Ask) -> None:
    answer = ask(reading.outcome(KEY))

    assert answer.status == 404
    assert answer.content == {"error": "SettlementNotFound", "message": "key: no request has claimed it"}


def test_a_reader_waits_until_the_sequence_has_grown(calls: Calls, ask: Ask, clock: Clock) -> None:
    calls.after("HoldFunds")
    before = calls.row()["sequence"]
    clock.meanwhile = lambda: calls.alter(sequence=before + 1) if clock.sleeps == 3 else None

    event = reading.outcome(KEY, {"wait": "20", "after": str(before)})
    answer = reading.answer(calls.handlers["ReadSettlements"](event, Context(iter([28_000]))))

    assert (answer.status, clock.sleeps) == (200, 3)
    assert answer.headers["etag"] == f'"{before + 1}"'


def test_a_reader_waits_for_a_claim(calls: Calls, ask: Ask, clock: Clock) -> None:
    calls.claimed()
    claimed = calls.row()
    calls.ledger.delete(keys.settlement(KEY))
    clock.meanwhile = lambda: calls.ledger.put(claimed) if clock.sleeps == 2 else None

    event = reading.outcome(KEY, {"wait": "20", "after": "0"})
    answer = reading.answer(calls.handlers["ReadSettlements"](event, Context(iter([28_000]))))

    assert (answer.status, answer.content["status"], clock.sleeps) == (200, "PROCESSING", 2)


@pytest.mark.parametrize(
    ("wait", "left_ms", "sleeps"), [("0", 28_000, 0), ("5", 28_000, 5), ("20", 10_000, 4), ("20", 900, 0)]
)
def test_an_unchanged_outcome_is_returned_before_the_calls_time_ends(
    calls: Calls, ask: Ask, clock: Clock, wait: str, left_ms: int, sleeps: int
) -> None:
    calls.after("HoldFunds")
    sequence = calls.row()["sequence"]

    answer = ask(reading.outcome(KEY, {"wait": wait, "after": str(sequence)}), iter([left_ms]))

    assert (answer.status, answer.headers["etag"]) == (200, f'"{sequence}"')
    assert clock.sleeps == sleeps


def test_a_reader_with_an_older_sequence_does_not_wait(calls: Calls, ask: Ask, clock: Clock) -> None:
    calls.after("CollectFee")

    assert ask(reading.outcome(KEY, {"wait": "20", "after": "1"})).status == 200
    assert clock.sleeps == 0


@pytest.mark.parametrize("make", [lambda: reading.outcome(KEY), lambda: reading.entries("alice")])
def test_an_unavailable_table_returns_503(ask: Ask, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    def unreachable(**_: Any) -> Any:
        raise ConnectTimeoutError(endpoint_url="table")

    monkeypatch.setattr(_dependencies.store.client, "get_item", unreachable, raising=False)

    answer = reading.answer(HANDLERS["ReadSettlements"](make(), Context()))
    assert (answer.status, answer.content["error"]) == (503, StoreUnavailable.__name__)


# Bad input


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (reading.outcome("short"), ["key"]),
        (reading.outcome(KEY, {"wait": "21", "after": "0"}), ["wait"]),
        (reading.outcome(KEY, {"wait": "1.5", "after": "-1"}), ["after", "wait"]),
        (reading.outcome(KEY, {"wait": "5"}), ["after"]),
        (reading.outcome(KEY, {"wait": "1,2", "after": "0"}), ["wait"]),
        (reading.outcome(KEY, {"since": "1"}), ["since"]),
        (reading.entries("no account"), ["id"]),
        (reading.entries("escrow:order"), ["id"]),
        (reading.entries("alice", from_="yesterday"), ["from"]),
        (reading.entries("alice", to="2026-02-30"), ["to"]),
        (reading.entries("alice", from_="2026-11-21", to="2026-11-20"), ["to"]),
        (reading.entries("alice", limit="101"), ["limit"]),
        (reading.entries("alice", limit="0"), ["limit"]),
        (reading.entries("alice", cursor="x"), ["cursor"]),
        (reading.entries("alice", cursor="ä"), ["cursor"]),
        (reading.entries("alice", cursor="["), ["cursor"]),
        (reading.listing(), ["account, status"]),
        (reading.listing(status="SETTLED"), ["status"]),
        (reading.listing(account="alice", status="LIMBO"), ["status"]),
        (reading.listing(status="PROCESSING", since="2026-11-20"), ["since"]),
        (reading.listing(account="a b"), ["account"]),
        (reading.listing(account="alice", limit="51"), ["limit"]),
    ],
)
def test_a_bad_parameter_is_named(ask: Ask, event: dict[str, Any], fields: list[str]) -> None:
    answer = ask(event)

    assert (answer.status, answer.content["error"]) == (400, "InvalidRequest")
    assert [one.partition(":")[0] for one in answer.content["message"].split("; ")] == fields


# The statement


def test_a_statements_pages_add_up_to_the_whole_statement(ask: Ask, many: list[str]) -> None:
    whole = ask(reading.entries("alice")).content
    by_page = pages(ask, partial(reading.entries, "alice", limit="2"), "entries")

    assert [len(one) for one in by_page] == [2, 2, 1]
    assert [entry for page in by_page for entry in page] == whole["entries"]
    assert sorted(entry["key"] for entry in whole["entries"]) == many
    assert {(entry["step"], entry["change"]) for entry in whole["entries"]} == {("hold", "-48.20")}
    assert {entry["posted_at"] for entry in whole["entries"]} == {"2026-11-20T12:00:00.123Z"}
    assert (whole["account"], whole["currency"], whole["available"]) == ("alice", "EUR", "759.00")


def test_the_last_page_of_a_statement_has_no_cursor(ask: Ask, many: list[str]) -> None:
    assert ask(reading.entries("alice", limit=str(len(many)))).content["cursor"] is None


def test_an_internal_accounts_statement_is_read_from_all_its_partitions(ask: Ask, many: list[str]) -> None:
    by_page = pages(ask, partial(reading.entries, "fees:EUR", limit="1"), "entries")

    assert sorted(entry["key"] for page in by_page for entry in page) == many
    assert {entry["change"] for page in by_page for entry in page} == {"0.48"}
    assert ask(reading.entries("fees:EUR")).content["available"] is None


@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        ({"from_": "2026-11-20T12:00:00.123Z"}, 5),
        ({"from_": "2026-11-20T12:00:00.124Z"}, 0),
        ({"to": "2026-11-20T12:00:00.123Z"}, 0),
        ({"to": "2026-11-20T12:00:00.124Z"}, 5),
        ({"from_": "2026-11-20", "to": "2026-11-21"}, 5),
        ({"from_": "2026-11-20T12:00:00Z", "to": "2026-11-20T12:00:01Z"}, 5),
    ],
)
def test_a_statement_can_be_bounded_by_two_times(
    ask: Ask, many: list[str], bounds: dict[str, str], count: int
) -> None:
    assert len(ask(reading.entries("bob", **bounds)).content["entries"]) == count


def test_a_statement_says_since_when_it_is_complete(
    ask: Ask, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "complete_since" not in ask(reading.entries("alice")).content
    short = replace(_dependencies.config, shortest_retention_days=400)
    monkeypatch.setattr(_dependencies, "config", short)

    assert ask(reading.entries("alice")).content["complete_since"] == "2025-10-17T12:00:00.000Z"


@pytest.mark.parametrize("account", ["carol", "fees:XXX"])
def test_an_account_that_does_not_exist_returns_404(ask: Ask, many: list[str], account: str) -> None:
    for event in (reading.entries(account), reading.listing(account=account)):
        answer = ask(event)
        assert answer.status == 404
        assert answer.content == {"error": "AccountNotFound", "message": "account: there is no such account"}


def test_a_cursor_is_valid_only_for_its_own_query(ask: Ask, many: list[str]) -> None:
    cursor = ask(reading.entries("alice", limit="2")).content["cursor"]

    for event in (
        reading.entries("bob", cursor=cursor),
        reading.entries("alice", cursor=cursor, from_="2026-11-20"),
        reading.listing(account="alice", since="2026-11-20", cursor=cursor),
        reading.listing(status="LIMBO", cursor=cursor),
    ):
        answer = ask(event)
        assert (answer.status, answer.content["message"].partition(":")[0]) == (400, "cursor")


@pytest.mark.parametrize(
    "position",
    [
        ["ENTRIES#bob"],
        ["2026-11-20T12:00:00.123Z"],
        [f"2026-11-20T12:00:00.123Z#{KEY}:hold", "more"],
        [5],
        [],
        [{"pk": "ENTRIES#bob"}],
        [f"2026-11-20T12:00:00.123Z#{KEY}:hold\n"],
    ],
)
def test_a_statement_cursor_with_a_malformed_position_is_refused(
    ask: Ask, many: list[str], position: list[Any]
) -> None:
    """Anyone can make a cursor with a valid digest, so its position is checked, and names no partition."""
    cursor = forged(ask(reading.entries("alice", limit="2")), *position)

    assert ask(reading.entries("alice", limit="2", cursor=cursor)).status == 400


def test_a_forged_cursor_shows_only_entries_of_the_same_account(ask: Ask, many: list[str]) -> None:
    cursor = forged(ask(reading.entries("alice", limit="2")), f"2026-11-20T12:00:00.000Z#{KEY}:hold")

    answer = ask(reading.entries("alice", limit="5", cursor=cursor))

    assert {entry["step"] for entry in answer.content["entries"]} == {"hold"}
    assert sorted(entry["key"] for entry in answer.content["entries"]) == many


# Lists


@pytest.mark.parametrize("account", ["alice", "bob", "fees:EUR"])
def test_each_settlement_of_an_account_is_listed_once(ask: Ask, many: list[str], account: str) -> None:
    by_page = pages(ask, partial(reading.listing, account=account, limit="2"), "settlements")

    listed = [checked_outcome(one) for page in by_page for one in page]
    assert sorted(one["key"] for one in listed) == many
    assert {(one["status"], one["replayed"]) for one in listed} == {("SETTLED", True)}


def test_a_reversed_settlement_is_listed_once(calls: Calls, ask: Ask) -> None:
    calls.after("HoldFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    calls("VoidHold", **found | {"execution": "compensation-1"})

    (found,) = ask(reading.listing(account="alice")).content["settlements"]

    assert len(ask(reading.entries("alice")).content["entries"]) == 2
    assert (found["key"], found["reversed"]) == (KEY, ["hold"])


def test_settlements_in_flight_are_listed_by_their_status(calls: Calls, ask: Ask) -> None:
    named = [f"order-2026-00030{number}" for number in range(9)]
    calls.ledger.open("alice", 100_000)
    calls.ledger.open("bob", 0)
    for key in named:
        calls("HoldFunds", WIRE | {"key": key})

    by_page = pages(ask, partial(reading.listing, status="PROCESSING", limit="2"), "settlements")

    assert sorted(one["key"] for page in by_page for one in page) == named
    none: Any = {"settlements": [], "unreadable": [], "cursor": None}
    assert ask(reading.listing(status="COMPENSATING")).content == none


def test_a_settlement_in_limbo_is_listed_by_its_cases_start(calls: Calls, ask: Ask) -> None:
    calls.fall()

    for query, count in (
        ({}, 1),
        ({"since": "2026-11-20"}, 1),
        ({"since": "2026-11-30"}, 0),
    ):
        found = ask(reading.listing(status="LIMBO", **query)).content["settlements"]
        assert [one["key"] for one in found] == [KEY][:count]


@pytest.mark.parametrize(
    "position", [[8, LISTED_AT, KEY], [True, LISTED_AT, KEY], [0, "x", KEY], [0, LISTED_AT, "x"], [0]]
)
def test_a_listing_cursor_with_a_malformed_position_is_refused(
    calls: Calls, ask: Ask, position: list[Any]
) -> None:
    calls.after("HoldFunds")
    cursor = forged(ask(reading.listing(status="PROCESSING", limit="1")), *position)

    assert ask(reading.listing(status="PROCESSING", limit="1", cursor=cursor)).status == 400


@pytest.mark.parametrize(
    "step",
    [
        *Step,
        *(step.reversal for step in Step),
        "deposit",
        "withdraw",
        part_name(12),
        refund_name(3),
        order_name(2),
    ],
)
def test_a_cursor_can_point_to_an_entry_of_any_step(step: str) -> None:
    """A page may end on any entry. If its cursor were refused, later entries could not be read."""
    position = f"2026-11-20T10:00:00.123Z#{KEY}:{step}"
    cursor = parse_entries_query("bob", {}).cursor(position)

    assert parse_entries_query("bob", {"cursor": cursor}).position == position
