import base64
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from handlers import _dependencies
from handlers.kyc import _webhook
from settlement.core.ledger import keys
from settlement.core.model.errors import AlreadyClaimed, KycRejected, SettlementError, StoreUnavailable
from settlement.core.model.status import Status
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, HASH, KEY, LATER_AT, NONCE, WIRE
from tests.world.functions import FORWARD
from tests.world.services import (
    OWNER,
    PREVIOUS,
    RESUME,
    THIRD,
    VERDICT,
    Died,
    execution,
    past,
    signed,
    text,
    throttled,
    unanswered,
)

ACCEPTED = (200, {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED"})
STARTED = ("SettlementStandard", f"{KEY}-r2-{NONCE}", WIRE)
"""Recovery's start; the webhook's epoch is 1."""

SECOND = replace(signed, id="evt_2")


def refused(calls: Calls, event: Any, status: int, error: str, message: str) -> None:
    """Check that the call gets this refusal and writes nothing."""
    with calls.writes_nothing():
        answered, content = calls.decided(event)
    assert (answered, content["error"]) == (status, error)
    assert content["message"].startswith(message)
    assert "canary" not in content["message"]


# A verdict


@pytest.mark.parametrize(("decision", "committed"), [("APPROVED", {"verify_at": LATER_AT}), ("REJECTED", {})])
def test_a_verdict_records_its_event_and_resumes_the_settlement(
    in_review: Calls, decision: str, committed: dict[str, str]
) -> None:
    before = in_review.row()
    in_review.later()
    in_review.counted()

    answer = in_review.decided(replace(signed, at=past(seconds=7))(decision=decision, reason="seen\x1b[31m"))

    assert answer == (200, {"idempotency_key": f"{KEY}:verify", "decision": decision})
    assert in_review.row() == {name: before[name] for name in before if name != "review"} | {
        **committed,
        "verdict": decision,
        "owner": OWNER,
        "owner_epoch": 1,
        "sequence": 3 if committed else 2,
        "deadline_at": LATER_AT.replace("12:00", "12:15"),
        "in_flight_since": LATER_AT,
        "gsi1sk": LATER_AT,
    }
    assert in_review.entries() == {"hold", "review"}
    assert in_review.entry("review") == {
        "posted_at": LATER_AT,
        "decision": decision,
        "reference": "ver_1",
        "reason": "seen [31m",
        "provider": "webhook",
    }
    marker = in_review.ledger.row(keys.event("evt_1"))
    assert marker is not None
    assert (marker["key"], marker["received_at"]) == (KEY, LATER_AT)
    assert (in_review.functions.sent, in_review.counted()) == ([RESUME], {"StepCalled": 1})
    assert in_review.step_functions.called == []


def test_recovery_settles_the_payment_and_the_event_may_come_again(in_review: Calls) -> None:
    in_review.decided(signed())
    for event in in_review.functions.sent:
        assert in_review.recover_now(**event)["execution"] == f"{KEY}-r2-{NONCE}"

    with pytest.raises(AlreadyClaimed):
        in_review("HoldFunds")
    for state in FORWARD:
        in_review(state, execution=f"{KEY}-r2-{NONCE}", claimed_at=CLAIMED_AT)
    in_review.step_functions.end(execution(f"{KEY}-r2-{NONCE}", "SettlementStandard"), "SUCCEEDED")

    assert in_review.row()["status"] == "SETTLED"
    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED
        assert in_review.recover_now(**in_review.functions.sent[-1])["action"] == "none"
    assert in_review.step_functions.started == [STARTED]


def test_a_request_that_comes_twice_or_late_resumes_once(in_review: Calls) -> None:
    in_review.decided(signed())
    in_review.recover_now(**RESUME)
    in_review.later(minutes=10)

    with in_review.writes_nothing():
        assert in_review.recover_now(**RESUME)["action"] == "none"

    assert in_review.step_functions.started == [STARTED]


def test_the_next_scheduled_run_makes_good_a_lost_request(in_review: Calls) -> None:
    """The verdict's own write makes the settlement due, so nothing depends on the request."""
    in_review.decided(signed())

    in_review.recover()

    assert in_review.step_functions.started == [STARTED]


@pytest.mark.parametrize(("state", "owner"), [("VerifyKyc", OWNER), ("ReleaseFunds", "execution-1")])
def test_a_webhook_may_precede_or_repeat_our_own_answer(calls: Calls, state: str, owner: str) -> None:
    calls.before(state)

    assert calls.decided(signed()) == ACCEPTED

    assert (calls.row()["verdict"], calls.row()["owner"]) == ("APPROVED", owner)
    assert calls.functions.sent == [RESUME]
    assert calls.recover_now(**RESUME)["action"] == ("settle" if owner == OWNER else "none")


@pytest.mark.parametrize("again", [signed, SECOND])
def test_the_same_verdict_again_writes_nothing_and_only_asks_again(
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
def test_a_contradiction_is_refused_counted_and_logged_without_its_reason(
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


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_a_first_verdict_past_processing_is_refused(in_review: Calls, status: Status) -> None:
    in_review.alter(status=status)

    refused(in_review, signed(), 409, "StepFenced", f"verify: the settlement is {status}")

    assert in_review.functions.sent == []


@pytest.mark.parametrize(("milliseconds", "accepted"), [(86_399_999, True), (86_400_000, False)])
def test_a_review_may_end_up_to_its_last_moment(in_review: Calls, milliseconds: int, accepted: bool) -> None:
    in_review.later(milliseconds=milliseconds)
    event = replace(signed, at=past(milliseconds=milliseconds))()

    if accepted:
        assert in_review.decided(event) == ACCEPTED
    else:
        message = "verify: the settlement's deadline was 2026-11-21T12:00:00.123Z"
        refused(in_review, event, 409, "DeadlineExceeded", message)
        assert in_review.functions.sent == []


def test_every_refusal_of_a_settlement_has_one_http_status() -> None:
    assert {error.__name__: status for error, status in _webhook.STATUSES.items()} == {
        "InvalidRequest": 400,
        "SignatureRefused": 401,
        "SettlementNotFound": 404,
        "DeadlineExceeded": 409,
        "IdempotencyConflict": 409,
        "StepFenced": 409,
        "KycUnavailable": 503,
        "RowDamaged": 503,
        "StartUnavailable": 503,
        "StoreUnavailable": 503,
    }
    assert all(issubclass(error, SettlementError) for error in _webhook.STATUSES)


# Evidence of our own question without a verdict on the row: its call died between the two


@pytest.fixture(params=["APPROVED", "REJECTED"])
def with_evidence(in_review: Calls, request: pytest.FixtureRequest) -> Calls:
    """A settlement in review, with evidence of an earlier answer."""
    evidence = {
        "pk": f"EVIDENCE#{KEY}",
        "sk": f"{KEY}:verify",
        "step": "verify",
        "posted_at": CLAIMED_AT,
        "request_hash": HASH,
        "decision": request.param,
        "reference": "ver_1",
        "reason": "nothing is known",
        "provider": "verifications",
    }
    in_review.ledger.put(evidence)
    return in_review


def test_the_function_follows_the_webhooks_decision_over_its_own_answer(with_evidence: Calls) -> None:
    answered = with_evidence.entry("verify")["decision"]
    decision = "REJECTED" if answered == "APPROVED" else "APPROVED"
    with_evidence.decided(signed(decision=decision))
    asked = list(with_evidence.provider.asked)

    with with_evidence.writes_nothing():
        if decision == "APPROVED":
            assert with_evidence("VerifyKyc", execution=OWNER) is None
        else:
            with pytest.raises(KycRejected):
                with_evidence("VerifyKyc", execution=OWNER)

    assert with_evidence.provider.asked == asked


# A call that fails half way


@pytest.mark.parametrize(
    "failure",
    [throttled("Invoke"), unanswered(), EndpointConnectionError(endpoint_url="https://x.invalid")],
)
def test_a_request_failure_is_reported_and_the_next_call_retries(
    in_review: Calls, failure: Exception
) -> None:
    in_review.functions.failing = failure

    message = f"{KEY}: not resumed yet: {type(failure).__name__}"
    assert in_review.decided(signed()) == (503, {"error": "StartUnavailable", "message": message})

    assert in_review.row()["verdict"] == "APPROVED"
    in_review.functions.failing = None
    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED
    assert in_review.functions.sent == [RESUME]


def test_the_next_call_asks_if_the_function_died_after_commit(in_review: Calls) -> None:
    in_review.functions.failing = Died()
    with pytest.raises(Died):
        in_review.decided(signed())
    in_review.functions.failing = None

    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED

    assert in_review.functions.sent == [RESUME]


@pytest.mark.parametrize("operation", ["read", "transact"])
@pytest.mark.parametrize("failure", [StoreUnavailable("DynamoDB: ReadTimeoutError"), Died()])
def test_a_silent_table_is_reported_and_nothing_is_started(
    in_review: Calls, monkeypatch: pytest.MonkeyPatch, operation: str, failure: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise failure

    with monkeypatch.context() as patch, in_review.writes_nothing():
        patch.setattr(_dependencies.store, operation, fail)
        if isinstance(failure, Died):
            with pytest.raises(Died):
                in_review.decided(signed())
        else:
            answer = {"error": "StoreUnavailable", "message": "DynamoDB: ReadTimeoutError"}
            assert in_review.decided(signed()) == (503, answer)
        patch.undo()

    assert in_review.functions.sent == []
    assert in_review.decided(signed()) == ACCEPTED


@pytest.mark.parametrize("twin", [signed, SECOND], ids=["the same event", "another event"])
def test_of_two_concurrent_calls_one_writes_and_both_answer_alike(
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
        (STOLEN(), "webhook-signature: is by no secret that is shared with this stage"),
        (STOLEN("{"), "webhook-signature: is by no secret that is shared with this stage"),
        (signed() | {"body": text(VERDICT | {"decision": "REJECTED"})}, "webhook-signature: is by no secret"),
        (signed() | {"headers": {}}, "webhook: must have the headers webhook-id, -timestamp and -signature"),
    ],
    ids=["a stolen secret", "a stolen secret and no JSON", "another body", "no headers"],
)
def test_an_unsigned_call_is_refused_without_mention_of_its_body(
    in_review: Calls, event: dict[str, Any], message: str
) -> None:
    refused(in_review, event, 401, "SignatureRefused", message)

    assert in_review.functions.sent == []


@pytest.mark.parametrize("without", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["missing", "malformed"])
def test_an_unsignable_call_is_refused_before_any_call_of_aws(
    in_review: Calls, monkeypatch: pytest.MonkeyPatch, without: str, is_sent: bool
) -> None:
    """Strangers can send any number of calls: each must be cheap."""
    event = signed()
    headers = {name: value for name, value in event["headers"].items() if name != without}
    monkeypatch.setattr(_dependencies.store, "client", None)

    status, answer = in_review.decided(
        event | {"headers": headers | ({without: "\u0661"} if is_sent else {})}
    )

    assert (status, answer["error"]) == (401, "SignatureRefused")
    assert in_review.secrets.read == []


def test_a_recorded_call_is_refused_before_any_call_of_aws(in_review: Calls) -> None:
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
def test_an_unusual_signed_call_is_accepted(in_review: Calls, event: dict[str, Any]) -> None:
    assert in_review.decided(event) == ACCEPTED


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(("size", "accepted"), [(16_384, True), (16_385, False), (1_048_576, False)])
def test_a_body_is_bounded_in_bytes_before_anything_else(
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
MANY_BYTES = json.dumps(VERDICT | {"reason": "\u00e9" * 9_000}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        pytest.param(
            signed(MANY_BYTES), "body: must be at most 16384 bytes", id="many bytes of few characters"
        ),
        *(
            pytest.param(
                signed() | {"body": body, "isBase64Encoded": True}, "body: must be text", id=f"{body!a}"
            )
            for body in ("%%%", "YQ", "\u00e9")
        ),
        pytest.param(signed() | {"body": "\ud800"}, "body: must be text", id="no Unicode"),
        pytest.param(signed("") | {"body": None}, "body: must be JSON", id="no body"),
        pytest.param(signed("") | {"body": ""}, "body: must be JSON", id="an empty body"),
        pytest.param(signed("{"), "body: must be JSON", id="no JSON"),
        pytest.param(signed("[" * 16_000), "body: must be nested at most 100 levels deep", id="deep JSON"),
        pytest.param(signed("9" * 5_000), "body: must be JSON", id="a long number"),
        pytest.param(
            signed(text(VERDICT)[:-1] + ', "decision": "REJECTED"}'),
            "body: must have each field once, and has decision twice",
            id="two decisions",
        ),
        pytest.param(signed("\ufeff" + text(VERDICT)), "body: must begin without", id="a byte order mark"),
        pytest.param(signed("null"), OBJECT, id="null"),
        pytest.param(signed(text([VERDICT])), OBJECT, id="a list"),
        pytest.param(signed(canary=1), OBJECT, id="an unknown field"),
        pytest.param(signed("{}"), "decision: must be one of", id="nothing in it"),
        pytest.param(signed(decision="REVIEW"), "decision: must be APPROVED or REJECTED", id="a review"),
        pytest.param(signed(reference="canary b"), "reference: must be", id="a free text"),
        pytest.param(signed(reason={"canary": 1}), "reason: must be a string", id="no text as reason"),
        *(
            pytest.param(signed(idempotency_key=name), KEY_OF_ANOTHER_KIND, id=f"key {name!a:.20}")
            for name in (None, 7, "", ":verify", KEY, f"{KEY}:hold", "short:verify", f"{KEY}:verify:verify")
        ),
        *(
            pytest.param(replace(signed, id=name)(), EVENT_ID, id=f"event {name!a:.10}")
            for name in ("x" * 201, "evt 1", "evt\t1")
        ),
    ],
)
def test_a_signed_invalid_call_is_refused_with_the_faulty_field(
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
