"""Calls of the webhook that must not be believed: each is refused, and leaves no trace."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import urllib3

from tests.e2e.embedded import Embedded, new_key
from tests.e2e.provider import Call, Payment, call, decision, payment, send

OTHER_SECRET = "c29tZWJvZHkgZWxzZSdzIHNlY3JldCwgMzIgYnl0ZXM="


@pytest.fixture(scope="module")
def settled(embedded: Embedded) -> Payment:
    """A payment that the provider has approved at once."""
    one = payment(embedded)
    assert one.start()["status"] == "SETTLED"
    return one


@dataclass(frozen=True)
class Bad:
    """A call that must be refused: how it is made from the good one, and the answer to it."""

    made: Callable[[Call, Payment, Payment], Call]
    status: int
    error: str
    message: str


def about(**change: Any) -> Callable[[Call, Payment, Payment], Call]:
    """The good call with other content, well signed."""
    return lambda good, parked, settled: replace(good, body=decision(parked, **change))


BAD = {
    "by another secret": Bad(
        lambda good, *_: replace(good, secret=OTHER_SECRET), 401, "SignatureRefused", "webhook-signature: "
    ),
    "other content than was signed": Bad(
        lambda good, *_: replace(good, signed="{}"), 401, "SignatureRefused", "webhook-signature: "
    ),
    "six minutes old": Bad(
        lambda good, *_: replace(good, age=timedelta(minutes=6)),
        401,
        "SignatureRefused",
        "webhook-timestamp: ",
    ),
    "six minutes ahead": Bad(
        lambda good, *_: replace(good, age=-timedelta(minutes=6)),
        401,
        "SignatureRefused",
        "webhook-timestamp: ",
    ),
    "another verification": Bad(
        about(reference="ver_another"), 409, "StepFenced", "reference: the settlement waits for another"
    ),
    "a payment that was not in review": Bad(
        lambda good, parked, settled: replace(good, body=decision(settled, "REJECTED")),
        409,
        "IdempotencyConflict",
        "decision: APPROVED is on record, for good",
    ),
    "a payment that there is not": Bad(
        about(idempotency_key=f"{new_key('unknown')}:verify"), 404, "SettlementNotFound", "idempotency_key: "
    ),
    "no payment's key": Bad(
        about(idempotency_key="short:verify"), 400, "InvalidRequest", "idempotency_key: "
    ),
    "no decision": Bad(about(decision="REVIEW"), 400, "InvalidRequest", "decision: must be APPROVED or"),
    "a field too many": Bad(about(memo="rent"), 400, "InvalidRequest", "body: must be a JSON object"),
    "no JSON": Bad(
        lambda good, *_: replace(good, body=b"nonsense"), 400, "InvalidRequest", "body: must be JSON"
    ),
    "1 MB": Bad(about(reason="x" * 1_048_576), 400, "InvalidRequest", "body: must be at most 16384 bytes"),
    "1 MB, unsigned": Bad(
        lambda good, *_: replace(good, body=b"x" * 1_048_576, signed=""),
        400,
        "InvalidRequest",
        "body: must be at most 16384 bytes",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_call_is_refused_and_writes_nothing(
    embedded: Embedded, parked: Payment, settled: Payment, bad: Bad
) -> None:
    sent = bad.made(call(embedded, decision(parked)), parked, settled)
    before = embedded.rows()

    status, answer = send(embedded, sent)

    assert (status, answer["error"]) == (bad.status, bad.error)
    assert answer["message"].startswith(bad.message)
    assert embedded.rows() == before
    assert parked.row()["status"] == "PROCESSING"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_caller_who_does_not_sign_learns_nothing(embedded: Embedded, parked: Payment, method: str) -> None:
    before = embedded.rows()
    answer = urllib3.request(method, embedded.running().webhook_url, body=decision(parked), retries=False)

    assert answer.status == 401
    assert answer.json()["message"].startswith("webhook: must have the headers")
    assert embedded.rows() == before
