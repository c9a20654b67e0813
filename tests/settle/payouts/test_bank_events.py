"""The simulated bank's events: signed, on time, early, twice or never."""

import base64
import json
import threading
from datetime import UTC, datetime

import pytest

from settle.local import bank_simulator, ports
from settlement.kyc.webhook_signature import verify
from tests.settle.payouts.wire import DAY, OTHER, PAYS_AFTER, REFERENCE, SECONDS_MAX, SimulatedBank, order
from tests.settle.wire import Delivery, Receiver

SECRET = "whsec_" + base64.b64encode(b"shared by the two, and no others alike").decode()


@pytest.fixture
def telling(bank: SimulatedBank, receiver: Receiver) -> SimulatedBank:
    assert bank.tell({"webhook_url": receiver.url, "signing_secret": SECRET}).status == 200
    return bank


def event_of(delivery: Delivery) -> str:
    return verify(delivery.headers, delivery.body, [SECRET], datetime.now(UTC))


def flush(bank: SimulatedBank, receiver: Receiver) -> list[Delivery]:
    """Submit one more payout; return all deliveries before its own."""
    bank.tell({"events": "on-time"})
    bank.submit(order("pay-now", reference=OTHER))
    found = [receiver.received()]
    while found[-1].content["reference"] != OTHER:
        found.append(receiver.received())
    return found[:-1]


def test_each_change_of_a_payout_sends_a_signed_event(telling: SimulatedBank, receiver: Receiver) -> None:
    telling.submit(order("return"))
    telling.advance(PAYS_AFTER)
    paid = receiver.received()
    telling.advance(3 * DAY)
    returned = receiver.received()

    assert [one.content for one in (paid, returned)] == [{"reference": REFERENCE}] * 2
    assert event_of(paid) != event_of(returned)
    assert flush(telling, receiver) == []


def test_an_accepted_or_lost_payout_sends_no_event(telling: SimulatedBank, receiver: Receiver) -> None:
    telling.submit(order("pay"))
    telling.submit(order("error-hour", reference="B" * 32))

    assert flush(telling, receiver) == []


def test_an_event_comes_without_another_request(telling: SimulatedBank, receiver: Receiver) -> None:
    telling.tell({"pays_after_seconds": 0})
    telling.submit(order("pay"))

    assert receiver.received().content == {"reference": REFERENCE}


def test_a_duplicate_event_has_the_same_id(telling: SimulatedBank, receiver: Receiver) -> None:
    telling.tell({"events": "twice"})
    telling.submit(order("pay-now"))

    first, second = receiver.received(), receiver.received()
    assert event_of(first) == event_of(second)
    assert first.body == second.body == json.dumps({"reference": REFERENCE}).encode()


def test_an_early_event_precedes_the_answer_and_is_sent_once(
    telling: SimulatedBank, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_simulator, "EARLY_SECONDS_MAX", SECONDS_MAX)
    telling.tell({"events": "early"})
    telling.submit(order("pay"))
    early = receiver.deliveries.get_nowait()
    telling.advance(PAYS_AFTER)

    assert (event_of(early)[:4], early.content) == ("evt_", {"reference": REFERENCE})
    assert flush(telling, receiver) == []


def test_a_bank_with_events_switched_off_sends_no_event(telling: SimulatedBank, receiver: Receiver) -> None:
    telling.tell({"events": "never"})
    telling.submit(order("pay-now"))

    assert flush(telling, receiver) == []


def test_a_failed_event_is_sent_again(telling: SimulatedBank, receiver: Receiver) -> None:
    receiver.statuses.append(503)
    telling.submit(order("pay-now"))

    assert event_of(receiver.received()) == event_of(receiver.received())


def test_a_silent_receiver_of_events_does_not_delay_the_bank(
    telling: SimulatedBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, released = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        called.set()
        released.wait(SECONDS_MAX)

    monkeypatch.setattr(bank_simulator, "deliver", hang)

    assert telling.submit(order("pay-now")).status == 201
    assert called.wait(SECONDS_MAX)
    assert telling.find().status == 200
    assert not released.is_set()
    released.set()


def test_an_early_event_delays_the_answer_only_briefly(
    telling: SimulatedBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller waits for this delivery, so its limit is far below a minute."""
    monkeypatch.setattr(bank_simulator, "EARLY_SECONDS_MAX", 0.1)
    telling.tell({"events": "early", "webhook_url": f"http://127.0.0.1:{ports.free_port()}/"})

    assert telling.submit(order("pay")).status == 201
