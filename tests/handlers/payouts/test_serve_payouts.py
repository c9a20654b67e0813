"""POST /payouts reserves once and requests a send. The schedule sends after a lost call."""

from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import StoreUnavailable
from settlement.payouts.payout import Status
from settlement.payouts.port import Accepted, NeverSeen, Refused
from tests.handlers.payouts.conftest import HOLDER, IBAN, KEY, REFERENCE, WIRE, Desk
from tests.world.services import Died, throttled, unanswered

ASKED = {"key": KEY}


def test_a_post_reserves_and_requests_a_send(desk: Desk) -> None:
    status, told = desk.post()

    assert status == 202
    assert {name: told[name] for name in WIRE} == WIRE
    assert (told["status"], told["reference"], told["attempts"]) == ("RESERVED", REFERENCE, 0)
    assert desk.calls.functions.sent == [ASKED]
    assert desk.bank.sent == []
    assert desk.calls.counted() == {"StepCalled": 1, "PayoutReserved": 1}


def test_a_repeated_post_replays_and_requests_a_send_again(desk: Desk) -> None:
    first = desk.post()

    with desk.calls.writes_nothing():
        assert desk.post() == (200, first[1])

    assert desk.calls.functions.sent == [ASKED, ASKED]


@pytest.mark.parametrize("failing", [throttled("Invoke"), unanswered()], ids=["throttled", "silent"])
def test_the_schedule_sends_a_payout_whose_call_was_lost(desk: Desk, failing: Exception) -> None:
    desk.calls.functions.failing = failing

    assert desk.post()[0] == 202

    assert desk.run()["looked"] == 1
    assert desk.state().status is Status.ACCEPTED


def test_the_schedule_sends_the_payout_of_a_killed_post(desk: Desk) -> None:
    desk.calls.functions.failing = Died()
    with pytest.raises(Died):
        desk.post()

    desk.run()

    assert (desk.bank.sent, desk.state().status) == ([KEY], Status.ACCEPTED)


def test_a_post_for_a_sent_payout_requests_no_send(desk: Desk) -> None:
    desk.post()
    desk.look()
    desk.calls.functions.sent.clear()

    assert desk.post()[1]["status"] == "ACCEPTED"
    assert desk.calls.functions.sent == []


def test_a_post_for_a_refused_payout_requests_no_send(desk: Desk) -> None:
    desk.post()
    desk.order("freeze-payee", {"id": "landlord"})
    assert desk.look()["status"] == "LIMBO"
    desk.bank.found = NeverSeen()
    desk.decided()
    desk.calls.functions.sent.clear()

    assert desk.post()[1]["status"] == "REFUSED"
    assert desk.calls.functions.sent == []


def test_two_concurrent_posts_reserve_once(desk: Desk) -> None:
    desk.calls.meanwhile(_dependencies.store, "transact", desk.post)

    assert desk.post()[0] == 200

    assert desk.calls.account("alice")["available"] == 51_80


def test_a_get_returns_the_posts_content_without_a_write(desk: Desk) -> None:
    told = desk.post()[1]

    with desk.calls.writes_nothing():
        assert desk.get() == (200, told)


@pytest.mark.parametrize(
    ("key", "status", "error"),
    [
        ("payout-2026-999999", 404, "PayoutNotFound"),
        ("short", 400, "InvalidRequest"),
        ("k" * 65, 400, "InvalidRequest"),
        ("payout-2026-00010\u0661", 400, "InvalidRequest"),
        (None, 400, "InvalidRequest"),
    ],
)
def test_a_get_of_an_unknown_or_invalid_key_is_refused(desk: Desk, key: Any, status: int, error: str) -> None:
    answer = desk.get(key)

    assert (answer[0], answer[1]["error"]) == (status, error)


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("", 400, "InvalidRequest"),
        ("[]", 400, "InvalidRequest"),
        ('{"key": "a", "key": "b"}', 400, "InvalidRequest"),
        ("{" + " " * 16_384 + "}", 400, "InvalidRequest"),
        (WIRE | {"amount": "100.01"}, 422, "InsufficientFunds"),
        (WIRE | {"amount": "5000.01"}, 422, "PayoutRefused"),
        (WIRE | {"destination": "nobody"}, 422, "DestinationRefused"),
    ],
    ids=str,
)
def test_a_refused_post_writes_nothing_and_requests_no_send(
    desk: Desk, body: Any, status: int, error: str
) -> None:
    with desk.calls.writes_nothing():
        answer = desk.post(body)

    assert (answer[0], answer[1]["error"]) == (status, error)
    assert desk.calls.functions.sent == []


def test_a_known_key_with_other_content_returns_a_conflict(desk: Desk) -> None:
    desk.post()

    assert desk.post(WIRE | {"amount": "48.21"})[0] == 409


def test_a_lost_table_answer_returns_503_and_can_be_retried(desk: Desk) -> None:
    with desk.calls.fails("transact", StoreUnavailable("DynamoDB: dead"), after=True):
        assert desk.post()[0] == 503

    assert desk.post()[0] == 200
    assert desk.calls.account("alice")["available"] == 51_80


def test_a_damaged_row_is_reported_as_row_damaged(desk: Desk) -> None:
    desk.post()
    desk.alter(amount=0)

    assert desk.get()[1]["error"] == desk.post()[1]["error"] == "RowDamaged"


@pytest.mark.parametrize("answer", [Accepted(), Refused("account_closed")], ids=str)
def test_no_answer_shows_the_payees_bank_account(desk: Desk, answer: Accepted | Refused) -> None:
    desk.bank.answer = answer
    told = [desk.post(), desk.look(), desk.get()]
    desk.alter(amount=0)
    told += [desk.get(), desk.post()]

    assert IBAN not in str(told)
    assert HOLDER not in str(told)


def test_a_payout_in_a_dropped_currency_returns_503(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.post()
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, currencies={"USD": 2}))

    assert desk.get()[0] == 503
