"""The webhook of the simulated KYC provider: signed, repeated, and abandoned after a while."""

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from settle.local import kyc_simulator
from settlement.adapters.webhook_signature import verify
from settlement.model.errors import SignatureRefused
from tests.settle.wire import KEY, Delivery, Receiver, Simulator

SECRET = "whsec_" + base64.b64encode(b"shared by the two, and no others alike").decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"shared with another service altogether").decode()
BOUND_SECONDS = 3
"""After which a delivery is abandoned here. The provider's own minute is a hundred deliveries long."""

ORDER = {"idempotency_key": f"{KEY}:verify"}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the provider has waited between two deliveries: its clock goes on by that, and by nothing else."""
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 1000 + sum(slept), sleep=slept.append)
    monkeypatch.setattr(kyc_simulator, "time", clock)
    monkeypatch.setattr(kyc_simulator, "WEBHOOK_SECONDS_MAX", BOUND_SECONDS)
    return slept


@pytest.fixture
def provider(simulator: Simulator, receiver: Receiver, slept: list[float]) -> Simulator:
    """The provider, which knows the webhook's address and shares its secret."""
    assert simulator.tell({"webhook_url": receiver.url, "signing_secret": SECRET}).status == 200
    return simulator


def event_of(delivery: Delivery, secret: str = SECRET) -> str:
    """The id of the event, if the webhook's own check finds that it is signed, and just now."""
    return verify(delivery.headers, delivery.body, [secret], datetime.now(UTC))


@pytest.mark.parametrize(
    ("behaviour", "decision"),
    [("review-approve", "APPROVED"), ("review-reject", "REJECTED"), ("early-approve", "APPROVED")],
)
def test_a_review_ends_with_a_signed_decision_about_the_same_verification(
    provider: Simulator, receiver: Receiver, behaviour: str, decision: str
) -> None:
    answer = provider.verify(payee=f"kyc-{behaviour}.x").json()

    told = receiver.received()
    assert answer["decision"] == "REVIEW"
    assert told.content.keys() == {"idempotency_key", "decision", "reference", "reason"}
    assert told.content["decision"] == decision
    assert told.content["idempotency_key"] == f"{KEY}:verify"
    assert told.content["reference"] == answer["reference"]
    assert (told.path, event_of(told)) == ("/webhook", f"evt_ver_{KEY}")


def test_an_early_decision_is_delivered_before_the_verification_is_answered(
    provider: Simulator, receiver: Receiver
) -> None:
    provider.verify(payee="kyc-early-approve")

    assert receiver.deliveries.qsize() == 1


def test_a_review_that_has_not_ended_is_not_announced(provider: Simulator, receiver: Receiver) -> None:
    provider.verify(payee="kyc-review")
    provider.verify("order-2026-000102", payee="kyc-approve")
    provider.decide(ORDER)

    receiver.received()
    assert receiver.deliveries.empty()


def test_a_conflict_ends_no_review(provider: Simulator, receiver: Receiver) -> None:
    provider.verify(payee="kyc-review")

    assert provider.verify(payee="kyc-early-approve").status == 409
    assert receiver.deliveries.empty()


def test_the_same_verification_again_tells_of_the_same_event(provider: Simulator, receiver: Receiver) -> None:
    for _ in range(2):
        provider.verify(payee="kyc-review-reject")

    first, again = receiver.received(), receiver.received()
    assert event_of(first) == event_of(again)
    assert first.body == again.body


def test_a_decision_is_signed_with_the_secret_that_was_told_last(
    provider: Simulator, receiver: Receiver
) -> None:
    provider.tell({"signing_secret": OTHER_SECRET})
    provider.decide(ORDER)

    told = receiver.received()
    assert event_of(told, OTHER_SECRET)
    with pytest.raises(SignatureRefused, match="by no secret"):
        event_of(told)


def test_the_signature_is_of_what_is_sent(provider: Simulator, receiver: Receiver) -> None:
    provider.decide(ORDER)

    told = receiver.received()
    with pytest.raises(SignatureRefused, match="by no secret"):
        event_of(Delivery(told.path, told.headers, told.body.replace(b"APPROVED", b"REJECTED")))


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({}, {"decision": "APPROVED", "reference": f"ver_{KEY}"}),
        ({"decision": "REJECTED"}, {"decision": "REJECTED"}),
        ({"reference": "ver_other"}, {"reference": "ver_other"}),
        ({"event": "evt_7"}, {"decision": "APPROVED"}),
    ],
    ids=str,
)
def test_a_person_may_end_a_review_as_they_like(
    provider: Simulator, receiver: Receiver, order: dict[str, str], said: dict[str, str]
) -> None:
    answer = provider.decide(ORDER | order)

    told = receiver.received()
    assert answer.json() == {"http_status": 200, "answer": '{"told": true}'}
    assert said.items() <= told.content.items()
    assert event_of(told) == order.get("event", f"evt_ver_{KEY}")


@pytest.mark.parametrize(
    "order",
    [
        {},
        ORDER | {"nonsense": "x"},
        {"idempotency_key": None},
        [],
        None,
    ],
    ids=str,
)
def test_a_malformed_order_is_refused_and_no_webhook_is_called(
    provider: Simulator, receiver: Receiver, order: Any
) -> None:
    answer = provider.decide(order)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert receiver.deliveries.empty()


@pytest.mark.parametrize("failing", [[503], [500, 503, 599], [401, 429, 502], [302, 403, 422]], ids=str)
def test_a_webhook_that_fails_is_told_again_under_the_same_id_until_it_takes_it(
    provider: Simulator, receiver: Receiver, slept: list[float], failing: list[int]
) -> None:
    receiver.statuses.extend(failing)

    answer = provider.decide(ORDER)

    told = [receiver.received() for _ in range(len(failing) + 1)]
    assert answer.json()["http_status"] == 200
    assert {event_of(one) for one in told} == {f"evt_ver_{KEY}"}
    assert len({one.body for one in told}) == 1
    assert (slept, receiver.deliveries.empty()) == ([0.5] * len(failing), True)


def test_each_repetition_is_signed_afresh(
    provider: Simulator, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook takes no signature that is older than five minutes, and an outage may last longer."""
    receiver.statuses.append(503)
    moments = iter([datetime(2026, 11, 20, 12, 0, tzinfo=UTC), datetime(2026, 11, 20, 12, 10, tzinfo=UTC)])
    clock = SimpleNamespace(now=lambda zone: next(moments))
    monkeypatch.setattr(kyc_simulator, "datetime", clock)

    provider.decide(ORDER)

    first, again = receiver.received(), receiver.received()
    for told, minute in ((first, 0), (again, 10)):
        verify(told.headers, told.body, [SECRET], datetime(2026, 11, 20, 12, minute, tzinfo=UTC))
    assert int(again.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 600


@pytest.mark.parametrize("status", [200, 400, 404, 409])
def test_a_webhook_whose_answer_is_final_is_not_told_again(
    provider: Simulator, receiver: Receiver, slept: list[float], status: int
) -> None:
    receiver.statuses.append(status)

    answer = provider.decide(ORDER)

    assert answer.json() == {"http_status": status, "answer": '{"told": true}'}
    assert receiver.deliveries.qsize() == 1
    assert slept == []


def test_a_webhook_that_never_takes_it_is_given_up_after_a_while(
    provider: Simulator, receiver: Receiver, slept: list[float]
) -> None:
    receiver.statuses.extend([503] * 1000)

    answer = provider.decide(ORDER)

    assert answer.json()["http_status"] == 503
    assert sum(slept) == pytest.approx(BOUND_SECONDS, abs=0.5)
    assert receiver.deliveries.qsize() == len(slept) + 1


def test_a_webhook_that_cannot_be_reached_is_given_up_after_a_while(
    provider: Simulator, receiver: Receiver, slept: list[float]
) -> None:
    receiver.server.server_close()

    answer = provider.decide(ORDER)

    assert answer.json() == {"http_status": 599, "answer": "MaxRetryError"}
    assert sum(slept) == pytest.approx(BOUND_SECONDS, abs=0.5)


def test_a_delivery_is_given_up_after_a_minute() -> None:
    assert kyc_simulator.WEBHOOK_SECONDS_MAX == 60


def test_a_provider_that_was_told_of_no_webhook_says_so_at_once(
    simulator: Simulator, slept: list[float]
) -> None:
    answer = simulator.decide(ORDER)

    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert slept == []
