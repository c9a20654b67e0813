import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from handlers import _dependencies
from handlers.reading import _long_poll
from settlement.core.model.errors import InvalidRequest, StoreUnavailable
from settlement.doors.starting import parse_start
from tests.handlers.conftest import Calls
from tests.handlers.reading.test_read_settlements import Clock, clock
from tests.world import posting
from tests.world.constants import KEY, NONCE, OTHER_CONTENT, WIRE, WITHOUT_FEE
from tests.world.contracts import checked_outcome
from tests.world.functions import FORWARD, Context
from tests.world.posting import NAMELESS
from tests.world.reading import Answer, answer
from tests.world.services import Died, throttled, unanswered

__all__ = ["clock"]

MACHINE, STANDARD = "SettlementExpress", "SettlementStandard"
LOCATION = f"/settlements/{KEY}"
ACCEPTED = Answer(
    202,
    {"content-type": "application/json", "location": LOCATION},
    {"key": KEY, "status_url": LOCATION},
)
Post = Callable[..., Answer]


@pytest.fixture
def post(calls: Calls, clock: Clock) -> Post:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)

    def post(body: Any = NAMELESS, key: str | None = KEY, left_ms: int = 28_000, **headers: str) -> Answer:
        event = posting.asked(body, key, **headers)
        return answer(calls.handlers["AcceptSettlements"](event, Context(iter([left_ms]))))

    return post


@pytest.mark.parametrize("body", [NAMELESS, WIRE, WITHOUT_FEE])
def test_a_call_claims_the_key_and_starts_its_owners_execution(calls: Calls, post: Post, body: Any) -> None:
    calls.counted()

    assert post(body) == ACCEPTED

    ((machine, name, data),) = calls.step_functions.started
    assert (machine, name, data) == (MACHINE, calls.row()["owner"], WIRE)
    assert calls.counted() == {"StepCalled": 1, "Claimed": 1}
    assert calls("HoldFunds", execution=name)["settlement"] == WIRE


@pytest.mark.parametrize(
    ("body", "key", "headers", "fields"),
    [
        pytest.param(WIRE, None, {}, ["Idempotency-Key"], id="no header"),
        pytest.param(WIRE, "short", {}, ["Idempotency-Key"], id="a bad header"),
        pytest.param(WIRE, f"{KEY},{KEY}", {}, ["Idempotency-Key"], id="the header twice"),
        pytest.param(WIRE | {"key": "order-2026-999999"}, KEY, {}, ["key"], id="another key"),
        pytest.param(WIRE | {"key": None}, KEY, {}, ["key"], id="no text as the key"),
        pytest.param({}, KEY, {}, ["amount", "currency", "payee", "payer"], id="nothing in it"),
        pytest.param(NAMELESS | {"amount": 5}, KEY, {}, ["amount"], id="a number"),
        pytest.param(
            NAMELESS | {"payer": "a b", "currency": "XXX", "deadline_seconds": 1},
            KEY,
            {},
            ["currency", "deadline_seconds", "payer"],
            id="three fields",
        ),
        pytest.param(NAMELESS | {"fee": "99.00"}, KEY, {}, ["fee"], id="a fee"),
        pytest.param([], KEY, {}, ["body"], id="a list"),
        pytest.param("", KEY, {}, ["body"], id="no body"),
        pytest.param("[" * 9_000, KEY, {}, ["body"], id="deep nesting"),
        pytest.param('"' + "x" * 30_000 + '"', KEY, {}, ["body"], id="too long"),
        pytest.param(NAMELESS, KEY, {"prefer": "wait=0"}, ["Prefer"], id="no wait"),
        pytest.param(NAMELESS, KEY, {"prefer": "wait=21"}, ["Prefer"], id="a long wait"),
        pytest.param(NAMELESS, KEY, {"prefer": "respond-async, wait=x"}, ["Prefer"], id="no number"),
    ],
)
def test_a_bad_call_names_its_fields_and_starts_nothing(
    calls: Calls, post: Post, body: Any, key: str | None, headers: dict[str, str], fields: list[str]
) -> None:
    with calls.writes_nothing():
        refused = post(body, key, **headers)

    assert (refused.status, refused.content["error"]) == (400, "InvalidRequest")
    assert [one.partition(":")[0] for one in refused.content["message"].split("; ")] == fields
    assert calls.step_functions.called == []


def test_reusing_a_key_with_other_content_is_a_conflict(calls: Calls, post: Post) -> None:
    post()

    with calls.writes_nothing():
        refused = [post(content) for content in OTHER_CONTENT]

    assert {(one.status, one.content["error"]) for one in refused} == {(409, "IdempotencyConflict")}
    assert len(calls.step_functions.started) == 1


@pytest.mark.parametrize("body", [NAMELESS, WIRE, json.dumps(WIRE, indent=2)])
@pytest.mark.parametrize("is_held", [False, True])
def test_a_repeated_call_starts_again_only_before_the_hold(
    calls: Calls, post: Post, body: Any, is_held: bool
) -> None:
    post()
    name = calls.step_functions.names[0]
    if is_held:
        calls("HoldFunds", execution=name)

    with calls.writes_nothing():
        assert post(body) == ACCEPTED

    assert calls.step_functions.names == ([name] if is_held else [name, name])


def test_two_concurrent_calls_pay_once(calls: Calls, post: Post) -> None:
    found: list[Answer] = []
    calls.meanwhile(_dependencies.store, "claim", lambda: found.append(post()))

    found.append(post())

    assert found == [ACCEPTED, ACCEPTED]
    first, second = calls.step_functions.names  # each step of the second is a replay
    assert first == second == calls.row()["owner"]


def test_a_call_for_a_key_claimed_elsewhere_returns_its_outcome(calls: Calls, post: Post) -> None:
    calls("HoldFunds")

    with calls.writes_nothing():
        told = post()

    assert (told.status, told.headers["location"]) == (202, LOCATION)
    assert checked_outcome(told.content) == calls.report() | {"replayed": True}
    assert calls.step_functions.called == []


def test_a_retry_after_the_end_gets_the_outcome(calls: Calls, post: Post) -> None:
    post()
    calls.run(*FORWARD, execution=calls.step_functions.names[0])

    with calls.writes_nothing():
        told = post()

    assert (told.status, told.headers["location"]) == (200, LOCATION)
    assert checked_outcome(told.content)["status"] == "SETTLED"
    assert told.content["replayed"] is True
    assert len(calls.step_functions.started) == 1


# Services that are unavailable


@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered()])
@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_claimed_payment_whose_start_fails_is_accepted_and_recovered(
    calls: Calls, post: Post, failure: Exception, loses_answers: bool
) -> None:
    calls.counted()
    calls.step_functions.failing["start_execution"] = failure
    calls.step_functions.loses_answers = loses_answers

    assert post() == ACCEPTED

    assert calls.counted() == {"StepCalled": 1, "Claimed": 1, "StartUnavailable": 1}
    calls.step_functions.failing.clear()
    calls.later(seconds=30)
    calls.recover()
    assert calls.step_functions.names[-1] == f"{KEY}-r1-{NONCE}"


@pytest.mark.parametrize("retried", [False, True])
def test_a_retry_or_recovery_starts_a_dead_calls_claimed_payment(
    calls: Calls, post: Post, retried: bool
) -> None:
    calls.step_functions.failing["start_execution"] = Died()
    with suppress(Died):
        post()
    owner = calls.row()["owner"]
    calls.step_functions.failing.clear()

    if retried:
        assert post() == ACCEPTED
    else:
        calls.later(seconds=30)
        calls.recover()

    resumed = (MACHINE, owner) if retried else (STANDARD, f"{KEY}-r1-{NONCE}")
    assert calls.step_functions.started == [(*resumed, WIRE)]


@pytest.mark.parametrize("after", [False, True])
def test_a_claim_without_answer_returns_503_and_can_be_retried(
    calls: Calls, post: Post, *, after: bool
) -> None:
    with calls.fails("claim", StoreUnavailable("DynamoDB: x"), after=after):
        refused = post()
    assert (refused.status, refused.content["error"]) == (503, "StoreUnavailable")
    assert calls.step_functions.called == []

    assert post() == ACCEPTED
    assert len(calls.step_functions.started) == 1


# The wait


def test_a_waiting_caller_gets_the_outcome_once_it_is_final(calls: Calls, post: Post, clock: Clock) -> None:
    post()
    claimed = calls.row()
    calls.run(*FORWARD, execution=calls.step_functions.names[0])
    settled = calls.row()
    calls.ledger.put(claimed)
    clock.meanwhile = lambda: calls.ledger.put(settled) if clock.sleeps == 3 else None

    told = post(prefer="respond-async, Wait=20")

    assert (told.status, told.headers["location"], clock.sleeps) == (200, LOCATION, 3)
    assert checked_outcome(told.content)["status"] == "SETTLED"
    assert told.content["replayed"] is False
    assert told.headers["etag"] == f'"{settled["sequence"]}"'


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ('wait="10"', 10),
        ("wait=10; foo=bar", 10),
        ('wait = "10" ; foo="a,b;wait=3"', 10),
        ('handling=lenient;wait=3, foo="x, wait=4", WAIT=10', 10),
        ("wait=10, wait=5", 10),
        ('foo="\\", wait=7", wait=10', 10),
        ("respond-async; wait=10", 0),
        ('foo="wait=10', 0),
        (",;, ", 0),
    ],
)
def test_the_prefer_header_is_read_as_rfc_7240_says(prefer: str, seconds: int) -> None:
    assert (
        parse_start({"idempotency-key": KEY, "prefer": prefer}, NAMELESS, _dependencies.config).wait
        == seconds
    )


@pytest.mark.parametrize("prefer", ["wait", 'wait=""', 'wait="1', "wait=21;a=b", 'wait="0"', 'wait="1,2"'])
def test_a_prefer_wait_outside_its_range_is_refused(prefer: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^Prefer: wait must be a whole number from 1 to 20$"):
        parse_start({"idempotency-key": KEY, "prefer": prefer}, NAMELESS, _dependencies.config)


@pytest.mark.parametrize(("wait", "left_ms", "sleeps"), [("5", 28_000, 5), ("20", 10_000, 4), ("20", 900, 0)])
def test_a_wait_without_outcome_returns_accepted_within_the_calls_time(
    post: Post, clock: Clock, wait: str, left_ms: int, sleeps: int
) -> None:
    assert post(prefer=f"wait={wait}", left_ms=left_ms) == ACCEPTED

    assert clock.sleeps == sleeps


def test_a_waiting_call_returns_accepted_if_the_table_is_unavailable(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise StoreUnavailable("DynamoDB: x")

    monkeypatch.setattr(_long_poll, "finished", fails)

    assert post(prefer="wait=5") == ACCEPTED


def test_a_settlement_in_limbo_is_returned_after_the_whole_wait(
    calls: Calls, post: Post, clock: Clock
) -> None:
    calls.fall()

    told = post(prefer="wait=2")

    assert (told.status, told.content["status"], clock.sleeps) == (202, "LIMBO", 2)
