import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from handlers.kyc import _webhook
from settlement.core.ledger import keys
from settlement.core.model.errors import KycRejected, SettlementError, StoreUnavailable
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, HASH, KEY, LATER_AT, NONCE, WIRE
from tests.world.services import (
    OWNER,
    PREVIOUS,
    RESUME,
    THIRD,
    VERDICT,
    Died,
    past,
    signed,
    text,
    throttled,
    unanswered,
)

ACCEPTED = (200, {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED"})
STARTED = ("SettlementStandard", f"{KEY}-r2-{NONCE}", WIRE)
"""The execution that recovery starts, with epoch 2; the webhook took epoch 1."""

SECOND = replace(signed, id="evt_2")


def refused(calls: Calls, event: Any, status: int, error: str, message: str) -> None:
    with calls.writes_nothing():
        answered, content = calls.decided(event)
    assert (answered, content["error"]) == (status, error)
    assert content["message"].startswith(message)
    assert "canary" not in content["message"]


# A verdict


@pytest.mark.parametrize(("decision", "sequence"), [("APPROVED", 3), ("REJECTED", 2)])
def test_a_webhooks_verdict_records_its_event_and_asks_for_resumption(
    in_review: Calls, decision: str, sequence: int
) -> None:
    in_review.later()
    in_review.counted()

    answer = in_review.decided(replace(signed, at=past(seconds=7))(decision=decision, reason="seen\x1b[31m"))

    assert answer == (200, {"idempotency_key": f"{KEY}:verify", "decision": decision})
    row = in_review.row()
    assert (row["verdict"], row["sequence"], "review" in row) == (decision, sequence, False)
    assert (row["owner"], row["owner_epoch"], row["gsi1sk"]) == (OWNER, 1, LATER_AT)
    assert row["deadline_at"] == LATER_AT.replace("12:00", "12:15")
    assert in_review.entries() == {"hold", "review"}
    assert in_review.entry("review") == {
        "posted_at": LATER_AT,
        "decision": decision,
        "reference": "ver_1",
        "reason": "seen [31m",
        "provider": "webhook",
    }
    marker = in_review.ledger.row(keys.event("evt_1")) or {}
    assert (marker["key"], marker["received_at"]) == (KEY, LATER_AT)
    assert (in_review.functions.sent, in_review.counted()) == ([RESUME], {"StepCalled": 1})
    assert in_review.step_functions.called == []


def test_a_repeated_or_late_resume_request_resumes_once(in_review: Calls) -> None:
    in_review.decided(signed())
    in_review.recover_now(**RESUME)
    in_review.later(minutes=10)

    with in_review.writes_nothing():
        assert in_review.recover_now(**RESUME)["action"] == "none"

    assert in_review.step_functions.started == [STARTED]


@pytest.mark.parametrize(("state", "owner"), [("VerifyKyc", OWNER), ("ReleaseFunds", "execution-1")])
def test_a_webhook_is_accepted_before_or_after_our_own_answer(calls: Calls, state: str, owner: str) -> None:
    calls.before(state)

    assert calls.decided(signed()) == ACCEPTED

    assert (calls.row()["verdict"], calls.row()["owner"]) == ("APPROVED", owner)
    assert calls.functions.sent == [RESUME]
    assert calls.recover_now(**RESUME)["action"] == ("settle" if owner == OWNER else "none")


@pytest.mark.parametrize("again", [signed, SECOND])
def test_a_repeated_verdict_writes_nothing_and_requests_resumption_again(
    in_review: Calls, log: io.StringIO, again: Callable[..., Any]
) -> None:
    in_review.decided(signed())
    in_review.later(minutes=4)
    in_review.counted()

    with in_review.writes_nothing():
        assert in_review.decided(again()) == ACCEPTED

    assert in_review.functions.sent == [RESUME] * 2
    assert in_review.counted() == {"StepCalled": 1}
    assert "replayed" in [json.loads(line)["message"] for line in log.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (SECOND(decision="REJECTED", reason="canary"), "decision: APPROVED is on record, for good"),
        (signed(decision="REJECTED", reason="canary"), "webhook-id: was used before"),
        (signed(reason="canary"), "webhook-id: was used before"),
    ],
)
def test_a_contradicting_verdict_is_refused_and_logged_without_its_reason(
    in_review: Calls, log: io.StringIO, event: Any, message: str
) -> None:
    in_review.decided(signed())
    in_review.counted()
    log.truncate(0)

    refused(in_review, event, 409, "IdempotencyConflict", message)

    assert in_review.counted() == {"StepCalled": 1, "IdempotencyConflict": 1, "KycVerdictConflict": 1}
    assert in_review.functions.sent == [RESUME]
    lines = [json.loads(line) for line in log.getvalue().strip("\0").splitlines()]
    assert [line["reference"] for line in lines if line["message"] == "conflict"] == ["ver_1"]
    assert "canary" not in log.getvalue()


def test_a_verdict_on_another_verification_or_unclaimed_key_is_refused(in_review: Calls) -> None:
    in_review.counted()

    refused(in_review, signed(reference="ver_2"), 409, "StepFenced", "reference: ")
    unknown = signed(idempotency_key="order-2026-999999:verify")
    message = "idempotency_key: no request has claimed its settlement"
    refused(in_review, unknown, 404, "SettlementNotFound", message)

    assert in_review.functions.sent == []
    assert in_review.counted() == {"StepCalled": 2, "StepFenced": 1, "SettlementNotFound": 1}


def test_each_error_of_the_webhook_has_one_http_status() -> None:
    assert {error.__name__: status for error, status in _webhook.STATUSES.items()} == {
        "InvalidRequest": 400,
        "SignatureRefused": 401,
        "PayoutNotFound": 404,
        "SettlementNotFound": 404,
        "DeadlineExceeded": 409,
        "IdempotencyConflict": 409,
        "PayoutFenced": 409,
        "StepFenced": 409,
        "KycUnavailable": 503,
        "RowDamaged": 503,
        "StartUnavailable": 503,
        "StoreUnavailable": 503,
    }
    assert all(issubclass(error, SettlementError) for error in _webhook.STATUSES)


# Evidence of our own question without a verdict on the row


@pytest.mark.parametrize(("own", "decision"), [("APPROVED", "REJECTED"), ("REJECTED", "APPROVED")])
def test_verify_kyc_follows_the_webhooks_decision_over_its_own_answer(
    in_review: Calls, own: str, decision: str
) -> None:
    """A call that died has left evidence of an earlier answer, and no verdict on the row."""
    answer = {"posted_at": CLAIMED_AT, "decision": own, "reference": "ver_1", "reason": "nothing is known"}
    step = {"step": "verify", "request_hash": HASH, "provider": "verifications"}
    in_review.ledger.put(keys.evidence(KEY, "verify") | step | answer)
    in_review.decided(signed(decision=decision))
    asked = list(in_review.provider.asked)

    with in_review.writes_nothing():
        if decision == "APPROVED":
            assert in_review("VerifyKyc", execution=OWNER) is None
        else:
            with pytest.raises(KycRejected):
                in_review("VerifyKyc", execution=OWNER)

    assert in_review.provider.asked == asked


# A call that fails half way


@pytest.mark.parametrize("failure", [throttled("Invoke"), unanswered(), Died()], ids=repr)
def test_a_failed_resume_request_is_reported_and_can_be_retried(
    in_review: Calls, failure: BaseException
) -> None:
    in_review.functions.failing = failure

    if isinstance(failure, Died):
        with pytest.raises(Died):
            in_review.decided(signed())
    else:
        message = f"{KEY}: not resumed yet: {type(failure).__name__}"
        assert in_review.decided(signed()) == (503, {"error": "StartUnavailable", "message": message})

    assert in_review.row()["verdict"] == "APPROVED"
    in_review.functions.failing = None
    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED
    assert in_review.functions.sent == [RESUME]


@pytest.mark.parametrize("operation", ["read", "transact"])
@pytest.mark.parametrize("failure", [StoreUnavailable("DynamoDB: ReadTimeoutError"), Died()], ids=repr)
def test_an_unavailable_table_is_reported_and_starts_nothing(
    in_review: Calls, operation: str, failure: BaseException
) -> None:
    with in_review.writes_nothing(), in_review.fails(operation, failure):
        if isinstance(failure, Died):
            with pytest.raises(Died):
                in_review.decided(signed())
        else:
            answer = {"error": "StoreUnavailable", "message": "DynamoDB: ReadTimeoutError"}
            assert in_review.decided(signed()) == (503, answer)

    assert in_review.functions.sent == []
    assert in_review.decided(signed()) == ACCEPTED


@pytest.mark.parametrize("twin", [signed, SECOND], ids=["the same event", "another event"])
def test_two_concurrent_webhooks_write_once_with_equal_answers(
    in_review: Calls, twin: Callable[[], Any]
) -> None:
    answers = []
    in_review.meanwhile(_dependencies.store, "transact", lambda: answers.append(in_review.decided(twin())))

    with pytest.warns(UserWarning, match="No application metrics"):  # the twin has published all of them
        answers.append(in_review.decided(signed()))

    assert answers == [ACCEPTED, ACCEPTED]
    assert (in_review.row()["owner_epoch"], in_review.functions.sent) == (1, [RESUME] * 2)


# A call that is unsigned, late or against the contract


STOLEN = replace(signed, secret=THIRD)
"""A call signed with a secret that the stage does not share."""


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (STOLEN("{"), "webhook-signature: is by no secret that is shared with this stage"),
        (signed() | {"body": text(VERDICT | {"decision": "REJECTED"})}, "webhook-signature: is by no secret"),
        (signed() | {"headers": {}}, "webhook: must have the headers webhook-id, -timestamp and -signature"),
    ],
    ids=["a stolen secret", "another body", "no headers"],
)
def test_an_unsigned_call_is_refused_without_mention_of_its_body(
    in_review: Calls, event: dict[str, Any], message: str
) -> None:
    refused(in_review, event, 401, "SignatureRefused", message)

    assert in_review.functions.sent == []


@pytest.mark.parametrize("without", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["missing", "malformed"])
def test_a_webhook_without_valid_headers_is_refused_before_calling_aws(
    in_review: Calls, monkeypatch: pytest.MonkeyPatch, without: str, is_sent: bool
) -> None:
    """Strangers can send any number of calls, so each must be cheap."""
    event = signed()
    headers = {name: value for name, value in event["headers"].items() if name != without}
    monkeypatch.setattr(_dependencies.store, "client", None)

    status, answer = in_review.decided(
        event | {"headers": headers | ({without: "\u0661"} if is_sent else {})}
    )

    assert (status, answer["error"]) == (401, "SignatureRefused")
    assert in_review.secrets.read == []


def test_an_old_recorded_webhook_is_refused_before_any_aws_call(in_review: Calls) -> None:
    event = signed()
    in_review.later(minutes=5, seconds=1)

    refused(in_review, event, 401, "SignatureRefused", "webhook-timestamp: is more than 5 minutes away")

    assert in_review.secrets.read == []


def in_title_case(headers: dict[str, str]) -> dict[str, str]:
    return {name.title(): value for name, value in headers.items()}


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(signed(change=in_title_case), id="headers in another case"),
        pytest.param(replace(signed, secret=PREVIOUS)(), id="the previous secret"),
        pytest.param(replace(signed, id="x" * 200)(), id="an id of 200 characters"),
    ],
)
def test_an_unusual_but_correctly_signed_webhook_is_accepted(in_review: Calls, event: dict[str, Any]) -> None:
    assert in_review.decided(event) == ACCEPTED


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(("size", "accepted"), [(16_384, True), (16_385, False), (1_048_576, False)])
def test_the_bodys_size_is_checked_before_anything_else(
    in_review: Calls, encode: bool, size: int, accepted: bool
) -> None:
    body = text(VERDICT | {"reason": ""})
    filled = body.replace('""', '"' + "x" * (size - len(body)) + '"')

    if accepted:
        assert in_review.decided(signed(filled, encode=encode)) == ACCEPTED
    else:
        message = "body: must be at most 16384 bytes"
        refused(in_review, signed(filled, encode=encode), 400, "InvalidRequest", message)
        assert in_review.secrets.read == []


OBJECT = "body: must be a JSON object with the fields decision, idempotency_key, reason, reference"
KEY_OF_ANOTHER_KIND = "idempotency_key: must be the one that the verification was asked with"
EVENT_ID = "webhook-id: must be at most 200 printable characters of ASCII"


NO_BASE64 = ("%%%", "YQ", "\u00e9")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        *((signed() | {"body": body, "isBase64Encoded": True}, "body: must be text") for body in NO_BASE64),
        (signed() | {"body": "\ud800"}, "body: must be text"),
        (signed("") | {"body": None}, "body: must be JSON"),
        (signed("{"), "body: must be JSON"),
        (signed("[" * 16_000), "body: must be nested at most 100 levels deep"),
        (signed("null"), OBJECT),
        (signed(text([VERDICT])), OBJECT),
        (signed(canary=1), OBJECT),
        (signed("{}"), "decision: must be one of"),
        (signed(decision="REVIEW"), "decision: must be APPROVED or REJECTED"),
        (signed(reference="canary b"), "reference: must be"),
        (signed(reason={"canary": 1}), "reason: must be a string"),
        *((signed(idempotency_key=name), KEY_OF_ANOTHER_KIND) for name in (None, 7, "", ":verify", KEY)),
        *((signed(idempotency_key=name), KEY_OF_ANOTHER_KIND) for name in (f"{KEY}:hold", "short:verify")),
        *((replace(signed, id=name)(), EVENT_ID) for name in ("x" * 201, "evt 1", "evt\t1")),
    ],
)
def test_a_signed_webhook_with_an_invalid_field_is_refused(
    in_review: Calls, event: dict[str, Any], message: str
) -> None:
    refused(in_review, event, 400, "InvalidRequest", message)

    assert in_review.functions.sent == []


def test_signed_bytes_that_are_not_utf_8_are_refused(
    in_review: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.kyc.kyc_decided.verify", lambda *_: "evt_1")
    body = base64.b64encode(text(VERDICT).encode().replace(b"ver_1", b"ver_\xff")).decode()

    event = signed() | {"body": body, "isBase64Encoded": True}

    refused(in_review, event, 400, "InvalidRequest", "body: must be JSON")
