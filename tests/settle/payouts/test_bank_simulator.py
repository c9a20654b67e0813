"""The simulated bank's behaviours, on its own clock."""

import base64
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psutil
import pytest
import urllib3

from settle.local import bank_simulator, ports
from settle.local.bank_behaviour import Behaviour
from settle.local.bank_ledger import Bank
from settle.local.bank_simulator import SLOW_SECONDS
from settle.local.json_handler import BODY_BYTES_MAX
from settlement.payouts.payout import Word
from settlement.payouts.policy import EXCHANGE_WITHIN
from settlement.payouts.port import Accepted, Found, NeverSeen, Refused, Unknown
from tests.settle.payouts.wire import (
    DAY,
    HOUR,
    OTHER,
    PAYS_AFTER,
    REFERENCE,
    SECONDS_MAX,
    STARTED,
    SimulatedBank,
    order,
    state,
)

SECRET = "whsec_" + base64.b64encode(b"shared by the two, and no others alike").decode()
ABOUT = {"reference": REFERENCE, "amount": "48.20", "currency": "EUR"}
ACCEPTED, PAID = Found(Word.ACCEPTED), Found(Word.PAID)
NO_ANSWER, FAILED = Unknown("no sound answer"), Unknown("http status 500")


CASES = [
    (Behaviour.PAY, Accepted(), ACCEPTED, PAID, 1),
    (Behaviour.PAY_NOW, Accepted(), PAID, PAID, 1),
    (
        Behaviour.REFUSE,
        Refused("account_closed"),
        *(Found(Word.REFUSED, "account_closed"),) * 2,
        0,
    ),
    (Behaviour.REFUSE_LATER, Accepted(), ACCEPTED, Found(Word.REFUSED, "account_blocked"), 0),
    (Behaviour.RETURN, Accepted(), ACCEPTED, PAID, 1),
    (Behaviour.LOSE_ANSWER_AFTER, NO_ANSWER, PAID, PAID, 1),
    (Behaviour.LOSE_ANSWER_BEFORE, NO_ANSWER, NeverSeen(), NeverSeen(), 0),
    (Behaviour.LOSE_FIRST_REQUEST, NO_ANSWER, NeverSeen(), NeverSeen(), 0),
    (Behaviour.ARRIVE_LATE, NO_ANSWER, NeverSeen(), NeverSeen(), 0),
    (Behaviour.FORGET_KEY, FAILED, PAID, PAID, 1),
    (Behaviour.ERROR_HOUR, FAILED, FAILED, FAILED, 0),
    (Behaviour.IN_PROGRESS, Unknown("http status 409"), ACCEPTED, PAID, 1),
    (Behaviour.REFUSE_UNDECLARED, Unknown("http status 422"), ACCEPTED, PAID, 1),
    (Behaviour.OTHER_AMOUNT, Unknown("http status 201"), ACCEPTED, PAID, 1),
    (Behaviour.SLOW, Accepted(), ACCEPTED, PAID, 1),
    (Behaviour.GARBAGE, NO_ANSWER, ACCEPTED, PAID, 1),
]


@pytest.mark.parametrize(("behaviour", "answer", "at_once", "later", "paid"), CASES)
def test_a_holders_name_selects_the_outcome_of_its_payout(
    bank: SimulatedBank, behaviour: Behaviour, answer: Any, at_once: Any, later: Any, paid: int
) -> None:
    bank.server.stopped.set()  # a slow answer comes at once
    client, sending = bank.client(), state(behaviour)

    assert client.submit(sending, client.request(sending)) == answer
    assert client.find(sending) == at_once
    bank.advance(PAYS_AFTER)
    assert client.find(sending) == later
    assert bank.seen()["paid"] == ({REFERENCE: paid} if paid else {})


def test_the_cases_cover_each_behaviour_of_the_bank() -> None:
    assert [behaviour for behaviour, *_ in CASES] == list(Behaviour)


@pytest.mark.parametrize(
    ("holder", "status"),
    [
        *(("Bank refuse", 422), ("Bank refuse Ada Example", 422)),
        *(("Ada Bank refuse", 201), ("bank refuse", 201), ("Bank", 201), ("Bank refuses", 201)),
    ],
)
def test_only_a_holder_name_of_exact_form_selects_a_behaviour(
    bank: SimulatedBank, holder: str, status: int
) -> None:
    creditor = order()["creditor"] | {"name": holder}
    assert bank.submit(order(creditor=creditor)).status == status


def test_the_control_selects_the_behaviour_for_all_other_names(bank: SimulatedBank) -> None:
    ada = order()["creditor"] | {"name": "Ada Example"}
    bank.tell({"behaviour": "refuse"})

    assert bank.submit(order(creditor=ada)).json() == {"reference": REFERENCE, "reason": "account_closed"}
    assert bank.submit(order("pay-now", reference=OTHER)).json()["status"] == "paid"


def test_the_same_key_gets_the_same_answer_and_pays_once(bank: SimulatedBank) -> None:
    first = bank.submit(order())
    bank.advance(DAY - 1)
    bank.tell({"behaviour": "refuse"})

    again = bank.submit(order())

    assert (again.status, again.json()) == (first.status, first.json())
    assert first.json() == ABOUT | {"status": "accepted"}
    assert (bank.seen()["paid"], bank.seen()["submits"]) == ({REFERENCE: 1}, 2)


def test_equal_concurrent_requests_pay_once(bank: SimulatedBank) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: bank.submit(order("pay-now")).json(), range(16)))

    assert answers == [ABOUT | {"status": "paid"}] * 16
    assert (bank.seen()["paid"], bank.seen()["submits"]) == ({REFERENCE: 1}, 16)


def test_other_bytes_with_a_known_key_are_a_conflict(bank: SimulatedBank) -> None:
    bank.submit(order("pay-now"))

    assert bank.submit(order("pay-now", amount="48.21")).status == 409
    assert bank.submit(json.dumps(order("pay-now"), indent=1).encode()).status == 409
    assert bank.seen()["closing"] == {"EUR": "-48.20"}


@pytest.mark.parametrize(("passed", "paid"), [(DAY - 1, 1), (DAY, 2)])
def test_a_forgotten_key_pays_twice_and_is_counted(bank: SimulatedBank, passed: int, paid: int) -> None:
    assert bank.submit(order("forget-key")).status == 500
    bank.advance(passed)

    assert bank.submit(order("forget-key")).status == (201 if paid == 1 else 500)
    seen = bank.seen()
    assert (seen["paid"], seen["paid_twice"], seen["references"]) == ({REFERENCE: paid}, paid - 1, 1)


def test_a_bank_without_an_idempotency_window_pays_each_request(bank: SimulatedBank) -> None:
    bank.tell({"window_seconds": 0})
    bank.submit(order("pay-now"))
    bank.submit(order("pay-now"))

    assert bank.seen()["paid"] == {REFERENCE: 2}


def test_a_query_returns_the_first_of_two_orders(bank: SimulatedBank) -> None:
    bank.tell({"window_seconds": 0})
    bank.submit(order("pay-now"))
    bank.submit(order("refuse"))

    assert bank.find().json() == ABOUT | {"status": "paid"}


def test_a_setting_change_first_carries_out_all_due_payments() -> None:
    times = [STARTED]
    unasked = Bank(lambda: times[-1])
    unasked.submit(order(), b"sent")
    times.append(STARTED + timedelta(seconds=PAYS_AFTER))

    with pytest.raises(ValueError, match="EUR has lines"):
        unasked.change({"opening": {"EUR": "1.00"}})
    unasked.change({"events": "never"})

    assert [reference for _, reference in unasked.events()] == [REFERENCE]


def test_after_an_hour_of_errors_the_payout_was_never_seen(bank: SimulatedBank) -> None:
    bank.submit(order("error-hour"))
    bank.advance(HOUR - 1)
    assert (bank.submit(order("error-hour")).status, bank.find().status) == (500, 500)
    bank.advance(1)

    assert bank.find().json() == {"reference": REFERENCE, "status": "never seen"}
    assert bank.submit(order("error-hour")).json()["status"] == "accepted"
    assert bank.find(OTHER).status == 404


def test_a_request_lost_once_arrives_the_second_time(bank: SimulatedBank) -> None:
    client, sending = bank.client(), state("lose-first-request")
    body = client.request(sending)

    assert client.submit(sending, body) == NO_ANSWER
    assert client.submit(sending, body) == Accepted()
    assert client.find(sending) == ACCEPTED


def test_a_request_lost_each_time_never_arrives(bank: SimulatedBank) -> None:
    client, sending = bank.client(), state("lose-answer-before")
    answers = [client.submit(sending, client.request(sending)) for _ in range(3)]

    assert (answers, client.find(sending)) == ([NO_ANSWER] * 3, NeverSeen())
    assert bank.seen()["submits"] == 3


@pytest.mark.parametrize(("window", "paid"), [(DAY, 1), (0, 2)])
def test_a_late_request_pays_twice_without_an_idempotency_window(
    bank: SimulatedBank, window: int, paid: int
) -> None:
    client, sending = bank.client(), state("arrive-late")
    bank.tell({"window_seconds": window})
    client.submit(sending, client.request(sending))
    assert client.find(sending) == NeverSeen()

    assert client.submit(sending, client.request(sending)) == Accepted()
    bank.advance(HOUR + PAYS_AFTER)

    assert bank.seen()["paid"] == {REFERENCE: paid}


def test_a_late_request_without_a_repeat_arrives_after_an_hour(bank: SimulatedBank) -> None:
    client, sending = bank.client(), state("arrive-late")
    client.submit(sending, client.request(sending))
    bank.advance(HOUR - 1)
    assert client.find(sending) == NeverSeen()
    bank.advance(1)
    assert client.find(sending) == ACCEPTED
    bank.advance(PAYS_AFTER)
    assert client.find(sending) == PAID


def test_a_returned_payment_comes_back_after_three_days(bank: SimulatedBank) -> None:
    bank.submit(order("return"))
    bank.advance(PAYS_AFTER + 3 * DAY - 1)
    assert (bank.find().json()["status"], bank.seen()["closing"]) == ("paid", {"EUR": "-48.20"})
    bank.advance(1)

    assert bank.find().json() == ABOUT | {"status": "returned"}
    assert (bank.seen()["closing"], bank.seen()["paid"]) == ({"EUR": "0.00"}, {REFERENCE: 1})


def test_a_repeat_after_a_wrong_answer_is_answered_correctly(bank: SimulatedBank) -> None:
    for behaviour, reference in (("garbage", OTHER), ("refuse-undeclared", REFERENCE)):
        bank.submit(order(behaviour, reference=reference))
        again = bank.submit(order(behaviour, reference=reference))
        assert (again.status, again.json()["status"]) == (201, "accepted")


def test_a_slow_answer_takes_longer_than_the_sagas_timeout(
    bank: SimulatedBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float | None] = []
    monkeypatch.setattr(bank.server.stopped, "wait", waited.append)

    assert bank.submit(order("slow")).status == 201
    assert waited == [SLOW_SECONDS]
    assert EXCHANGE_WITHIN.total_seconds() < SLOW_SECONDS


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (order(), {"Idempotency-Key": OTHER}),
        (order(), {"Idempotency-Key": "short"}),
        (order(), {"Content-Type": "text/plain"}),
        (order(fee="0.48"), {}),
        (order(amount=48.2), {}),
        (order(amount="0.00"), {}),
        (order(amount="48.2"), {}),
        (order(amount="48.201"), {}),
        (order(amount="9" * 20), {}),
        (order(currency="ABC"), {}),
        (order(currency="EUR\n"), {}),
        (order(reference=REFERENCE + "\n"), {"Idempotency-Key": REFERENCE}),
        (order(creditor={"iban": "DE89370400440532013000"}), {}),
        (b"[" * 50_000, {}),
        (b'"\xff"', {}),
        (b'{"reference": "x", "reference": "y"}', {}),
        (json.dumps(order()).encode().ljust(BODY_BYTES_MAX + 1), {}),
    ],
)
def test_an_order_outside_the_contract_is_refused(
    bank: SimulatedBank, body: Any, headers: dict[str, str]
) -> None:
    answer = bank.submit(body, headers)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert (bank.seen()["references"], bank.seen()["closing"]) == (0, {})


@pytest.mark.parametrize("token", ["", "other", "old-token2"])
def test_only_a_known_token_is_accepted(bank: SimulatedBank, token: str) -> None:
    bank.tell({"tokens": ["old-token", "new-token"]})
    unknown, known = ({"Authorization": f"Bearer {one}"} for one in (token, "new-token"))

    assert (bank.submit(order(), unknown).status, bank.find(token=token).status) == (401, 401)
    assert (bank.submit(order(), known).status, bank.find(token="old-token").status) == (201, 200)


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        *(("GET", "/payouts", 405, "POST"), ("PUT", f"/payouts/{REFERENCE}", 405, "GET")),
        *(("POST", "/control", 405, "GET, PUT"), ("GET", "/nothing", 404, None)),
        *(("GET", "/payouts/short", 400, None), ("GET", f"/payouts/{REFERENCE}?x=1", 400, None)),
    ],
)
def test_an_unknown_path_or_method_is_refused(
    bank: SimulatedBank, method: str, path: str, status: int, allowed: str | None
) -> None:
    answer = bank.request(method, path, headers={"Authorization": "Bearer any"})

    assert (answer.status, answer.headers.get("Allow")) == (status, allowed)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ([], "control"),
        ({"behavior": "pay"}, "control"),
        ({"behaviour": "PAY"}, "behaviour"),
        ({"behaviour": ["pay"]}, "behaviour"),
        ({"tokens": "new"}, "tokens"),
        ({"tokens": [""]}, "tokens"),
        ({"window_seconds": -1}, "window_seconds"),
        ({"window_seconds": True}, "window_seconds"),
        ({"pays_after_seconds": 1.5}, "pays_after_seconds"),
        ({"webhook_url": "file:///etc/passwd"}, "webhook_url"),
        ({"signing_secret": "whsec_!"}, "signing_secret"),
        ({"signing_secret": 7}, "signing_secret"),
        ({"events": "late"}, "events"),
        ({"opening": "1000.00"}, "opening"),
        ({"opening": {"ABC": "1"}}, "opening"),
        ({"opening": {"EUR": 1000}}, "opening: EUR"),
        ({"opening": {"EUR": "--1"}}, "opening: EUR"),
        ({"advance_seconds": -1}, "advance_seconds"),
        ({"advance_seconds": 10**12}, "advance_seconds"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_and_changes_nothing(bank: SimulatedBank, change: Any, field: str) -> None:
    before = bank.seen()
    more = {"behaviour": "refuse", "opening": {"JPY": "5"}} if isinstance(change, dict) else None

    answer = bank.tell({**more, **change} if more else change)

    assert answer.status == 400
    assert answer.json()["message"].startswith(f"{field}: ")
    assert bank.seen() == before


def test_the_bank_starts_empty_and_shows_no_secret(bank: SimulatedBank) -> None:
    described = bank.tell({"tokens": ["canary"], "signing_secret": SECRET}).json()

    assert described == {
        "behaviour": "pay",
        "window_seconds": DAY,
        "pays_after_seconds": PAYS_AFTER,
        "events": "on-time",
        "clock": "2026-11-27T12:00:00+00:00",
        "submits": 0,
        "finds": 0,
        "references": 0,
        "paid": {},
        "paid_twice": 0,
        "closing": {},
        "statements": {},
    }


def test_the_clock_cannot_advance_beyond_the_calendar(bank: SimulatedBank) -> None:
    statuses = [bank.tell({"advance_seconds": 400 * DAY}).status for _ in range(60)]

    assert statuses == [200] * 50 + [400] * 10


def test_the_simulator_listens_on_localhost_only() -> None:
    port = ports.free_port()
    process = subprocess.Popen([sys.executable, "-m", bank_simulator.__name__, "--port", str(port)])
    try:
        retries = urllib3.Retry(connect=600, backoff_factor=0.1, backoff_max=0.2)
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/control", retries=retries)
        sockets = psutil.Process(process.pid).net_connections("inet")
    finally:
        process.kill()
        process.wait(SECONDS_MAX)

    assert answer.json()["submits"] == 0
    assert {s.laddr for s in sockets if s.status == psutil.CONN_LISTEN} == {("127.0.0.1", port)}
