"""The bank's webhook brings a payout's look forward. Anyone can call it, so it proves and moves nothing."""

import base64
import hmac
import io
import json
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import StoreUnavailable
from settlement.payouts import hints
from settlement.payouts.payout import reference_of
from settlement.payouts.port import Unknown
from tests.handlers.payouts.conftest import KEY, REFERENCE, Desk
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.services import PREVIOUS, SECRET, THIRD, Caller, past, throttled

EVENT = {"reference": REFERENCE, "status": "paid"}
HEARD = (200, {"reference": REFERENCE, "status": "UNKNOWN"})


@pytest.fixture
def waiting(desk: Desk) -> Desk:
    """A payout in doubt, whose next look is at midnight."""
    desk.reserve()
    desk.bank.answer = desk.bank.found = Unknown("500")
    desk.look()
    desk.alter(gsi1sk="2026-11-21T00:00:00.000Z")
    desk.calls.counted()
    return desk


def test_an_event_brings_the_next_look_forward_and_moves_nothing(waiting: Desk) -> None:
    before = waiting.state()

    assert waiting.hear(EVENT) == HEARD

    after = waiting.state()
    assert after.listed_at == "2026-11-20T12:00:05.123Z"
    assert (after.status, after.said, after.sequence) == (before.status, None, before.sequence)
    assert (waiting.bank.sent, waiting.bank.asked) == ([KEY], [])


def test_a_repeated_event_writes_nothing(waiting: Desk) -> None:
    waiting.hear(EVENT)
    waiting.calls.later()

    with waiting.calls.writes_nothing():
        assert waiting.hear(EVENT, Caller(at=past(seconds=7), id="evt_2")) == HEARD


def test_two_concurrent_events_bring_the_next_look_forward_once(waiting: Desk) -> None:
    store = _dependencies.store
    waiting.calls.meanwhile(store, "transact", lambda: hints.bring_forward(store, REFERENCE, NOW))

    assert waiting.hear(EVENT) == HEARD

    assert waiting.state().listed_at == "2026-11-20T12:00:05.123Z"


def test_an_event_with_a_lower_case_reference_is_accepted(waiting: Desk) -> None:
    assert waiting.hear(EVENT | {"reference": REFERENCE.lower()})[0] == 200

    assert waiting.state().listed_at == "2026-11-20T12:00:05.123Z"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"reference": reference_of("nobody")}, 404, "PayoutNotFound"),
        ({"reference": "A" * 10_000}, 404, "PayoutNotFound"),
        ({"reference": f" {REFERENCE}"}, 404, "PayoutNotFound"),
        ({"reference": KEY}, 404, "PayoutNotFound"),
        ({"reference": "\ud800"}, 404, "PayoutNotFound"),
        ({"reference": ""}, 400, "InvalidRequest"),
        ({"reference": [REFERENCE]}, 400, "InvalidRequest"),
        ([REFERENCE], 400, "InvalidRequest"),
        ("{", 400, "InvalidRequest"),
        ("x" * 30_000, 400, "InvalidRequest"),
        (f'{{"reference": "{REFERENCE}", "reference": "{REFERENCE}"}}', 400, "InvalidRequest"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_event_without_a_known_payout_is_refused(
    waiting: Desk, body: Any, status: int, error: str
) -> None:
    with waiting.calls.writes_nothing():
        answer = waiting.hear(body)

    assert (answer[0], answer[1]["error"]) == (status, error)
    assert len(answer[1]["message"]) < 200


@pytest.mark.parametrize("body", [b"\xff", b'{"reference": "\xff"}', b"\xef\xbb\xbf{}", b""])
def test_a_signed_body_without_valid_utf_8_json_is_refused(waiting: Desk, body: bytes) -> None:
    event = Caller()({})
    named = f"evt_1.{event['headers']['webhook-timestamp']}.".encode()
    digest = hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), named + body, "sha256")
    event["headers"]["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}

    answer = waiting.calls.handlers["BankEvents"](event, Context())

    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (400, "InvalidRequest")


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (Caller(), 200),
        (Caller(secret=PREVIOUS), 200),
        (Caller(secret=THIRD), 401),
        (Caller(at=past(minutes=-4, seconds=-59)), 200),
        (Caller(at=past(minutes=4)), 200),
        (Caller(at=past(minutes=-6)), 401),
        (Caller(at=past(minutes=6)), 401),
    ],
    ids=["current", "previous", "stolen", "slow clock", "fast clock", "old", "of the future"],
)
def test_an_event_needs_a_valid_secret_and_a_recent_timestamp(
    waiting: Desk, caller: Caller, status: int
) -> None:
    assert waiting.hear(EVENT, caller)[0] == status


def test_the_previous_secret_is_refused_after_its_expiry(waiting: Desk) -> None:
    waiting.calls.secrets.content |= {"previous_until": "2026-11-20T12:00:00Z"}

    assert waiting.hear(EVENT, Caller(secret=PREVIOUS))[0] == 401


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_call_without_a_header_reads_no_secret(waiting: Desk, name: str) -> None:
    def without(headers: dict[str, str]) -> dict[str, str]:
        return {one: headers[one] for one in headers if one != name}

    assert waiting.hear(EVENT, change=without)[0] == 401

    assert waiting.calls.secrets.read == []


@pytest.mark.parametrize("content", [throttled("GetSecretValue"), "canary", "[]", {"current": "short"}, {}])
def test_an_unreadable_secret_raises_an_alarm_and_returns_503(
    waiting: Desk, log: io.StringIO, content: Any
) -> None:
    waiting.calls.secrets.content = content

    status, told = waiting.hear(EVENT)

    assert (status, told["error"]) == (503, "StoreUnavailable")
    assert waiting.calls.counted() == {"StepCalled": 1, "StoreUnavailable": 1, "BankSecretUnreadable": 1}
    assert "canary" not in json.dumps(told)


def test_an_event_about_a_damaged_row_returns_503(waiting: Desk) -> None:
    waiting.alter(holder="")

    assert waiting.hear(EVENT)[0] == 503


def test_an_unavailable_table_returns_503_and_a_retry_succeeds(waiting: Desk) -> None:
    with waiting.calls.fails("transact", StoreUnavailable("DynamoDB: dead")):
        assert waiting.hear(EVENT)[0] == 503

    assert waiting.hear(EVENT) == HEARD


def test_an_event_keeps_the_effect_of_a_concurrent_look(waiting: Desk) -> None:
    waiting.calls.later(hours=1)
    waiting.calls.meanwhile(
        _dependencies.store, "transact", lambda: waiting.calls.functions.answers({"key": KEY})
    )

    status, told = waiting.hear(EVENT, Caller(at=past(hours=1)))

    assert (status, told.get("status", told.get("error"))) in ((200, "UNKNOWN"), (409, "PayoutFenced"))
    assert waiting.bank.sent == [KEY]


def test_an_event_about_an_ended_payout_writes_nothing(desk: Desk) -> None:
    desk.case()
    with desk.calls.writes_nothing():
        assert desk.hear(EVENT, Caller(at=past(days=4)))[1]["status"] == "LIMBO"
    desk.decided()

    with desk.calls.writes_nothing():
        assert desk.hear(EVENT, Caller(at=past(days=4)))[1]["status"] == "REFUSED"
