from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
import urllib3

from tests.e2e.embedded import Embedded, new_key
from tests.e2e.provider import Call, Payment, call, decision, send

pytestmark = pytest.mark.long

BAD: dict[str, tuple[Callable[[Call, Payment], Call], int, str, str]] = {
    "by another secret": (
        lambda good, _: replace(good, secret="c29tZWJvZHkgZWxzZSdzIHNlY3JldCwgMzIgYnl0ZXM="),
        *(401, "SignatureRefused", "webhook-signature: "),
    ),
    "six minutes old": (
        lambda good, _: replace(good, age=timedelta(minutes=6)),
        *(401, "SignatureRefused", "webhook-timestamp: "),
    ),
    "another verification": (
        lambda good, parked: replace(good, body=decision(parked, reference="ver_another")),
        *(409, "StepFenced", "reference: the settlement waits for another"),
    ),
    "an unknown payment": (
        lambda good, parked: replace(
            good, body=decision(parked, idempotency_key=f"{new_key('unknown')}:verify")
        ),
        *(404, "SettlementNotFound", "idempotency_key: "),
    ),
    "1 MB, unsigned": (
        lambda good, _: replace(good, body=b"x" * 1_048_576, signed=""),
        *(400, "InvalidRequest", "body: must be at most 16384 bytes"),
    ),
}
"""Bad calls: how each differs from a good one, and the answer's status, error and start of the message."""


@pytest.mark.parametrize(("make", "status", "error", "message"), BAD.values(), ids=BAD)
def test_a_bad_webhook_call_is_refused_and_writes_nothing(
    embedded: Embedded,
    parked: Payment,
    make: Callable[[Call, Payment], Call],
    status: int,
    error: str,
    message: str,
) -> None:
    sent = make(call(embedded, decision(parked)), parked)

    with embedded.writes_nothing():
        found, answer = send(embedded, sent)

    assert (found, answer["error"]) == (status, error)
    assert answer["message"].startswith(message)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_an_unsigned_webhook_call_reveals_nothing(embedded: Embedded, parked: Payment, method: str) -> None:
    with embedded.writes_nothing():
        answer = urllib3.request(method, embedded.running().webhook_url, body=decision(parked), retries=False)

    assert answer.status == 401
    assert answer.json()["message"].startswith("webhook: must have the headers")
