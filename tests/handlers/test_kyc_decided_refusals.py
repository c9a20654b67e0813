"""KycDecided: a call that is unsigned, late or against the contract is refused and writes nothing."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.handlers.calls import Calls
from tests.handlers.stand_ins import PREVIOUS, THIRD, VERDICT, Secrets, Starts, past, signed, text

Headers = dict[str, str]

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)


def refusal(in_review: Calls, starts: Starts, event: Any) -> tuple[int, str, str]:
    """Return how a call is refused, and check that it writes and starts nothing."""
    with in_review.writes_nothing():
        status, content = in_review.decided(event)
    assert starts.asked == 0
    assert content.keys() == {"error", "message"}
    return status, content["error"], content["message"]


def without(name: str) -> Callable[[Headers], Headers]:
    return lambda headers: {other: headers[other] for other in headers if other != name}


def changed(name: str, to: Callable[[str], str]) -> Callable[[Headers], Headers]:
    return lambda headers: headers | {name: to(headers[name])}


UNSIGNED = [
    *(without(f"webhook-{name}") for name in ("id", "timestamp", "signature")),
    *(changed(f"webhook-{name}", lambda _: "") for name in ("id", "timestamp", "signature")),
    changed("webhook-timestamp", lambda _: "yesterday"),
    changed("webhook-timestamp", lambda sent: f"{sent}.5"),
    changed("webhook-timestamp", lambda sent: f"-{sent}"),
    changed("webhook-timestamp", lambda _: "9" * 5000),
    changed("webhook-timestamp", lambda _: "\u0661\u0662"),
    changed("webhook-timestamp", lambda sent: str(int(sent) - 1)),
    changed("webhook-id", lambda _: "evt_2"),
    changed("webhook-signature", lambda sent: sent.replace("v1,", "v2,")),
    changed("webhook-signature", lambda sent: sent.replace("v1,", "v1a,")),
    changed("webhook-signature", lambda sent: sent.removeprefix("v1,")),
    changed("webhook-signature", lambda sent: sent[:-1]),
    changed("webhook-signature", lambda sent: sent.swapcase()),
    changed("webhook-signature", lambda _: "v1,"),
    changed("webhook-signature", lambda _: "v1,\u00e9"),
    changed("webhook-signature", lambda _: "v1," * 10_000),
]


@pytest.mark.parametrize("change", UNSIGNED, ids=range(len(UNSIGNED)))
def test_headers_that_sign_nothing_are_refused(
    in_review: Calls, starts: Starts, change: Callable[[Headers], Headers]
) -> None:
    assert refusal(in_review, starts, signed(change=change))[:2] == (401, "SignatureRefused")


def test_an_event_s_id_beyond_ascii_signs_nothing(in_review: Calls, starts: Starts) -> None:
    event = replace(signed, id="evt_\u00e9")()

    assert refusal(in_review, starts, event)[:2] == (401, "SignatureRefused")


def test_a_body_that_was_changed_on_its_way_is_refused(in_review: Calls, starts: Starts) -> None:
    event = signed(decision="REJECTED")
    event["body"] = event["body"].replace("REJECTED", "APPROVED")

    assert refusal(in_review, starts, event)[:2] == (401, "SignatureRefused")


@pytest.mark.parametrize("seconds", [-301, 301, -86_400])
def test_a_call_of_another_time_is_refused(in_review: Calls, starts: Starts, seconds: int) -> None:
    event = replace(signed, at=past(seconds=seconds))()

    assert refusal(in_review, starts, event) == (
        401,
        "SignatureRefused",
        "webhook-timestamp: is more than 5 minutes away",
    )


@pytest.mark.parametrize("seconds", [-299, 300])
def test_a_call_within_the_tolerance_is_accepted(in_review: Calls, seconds: int) -> None:
    assert in_review.decided(replace(signed, at=past(seconds=seconds))())[0] == 200


def test_a_recorded_call_is_refused_once_it_is_old(
    in_review: Calls, starts: Starts, later: Callable[..., None]
) -> None:
    event = signed()
    later(minutes=5, seconds=1)

    assert refusal(in_review, starts, event)[:2] == (401, "SignatureRefused")


def test_a_secret_that_is_not_shared_is_refused(in_review: Calls, starts: Starts) -> None:
    assert refusal(in_review, starts, replace(signed, secret=THIRD)()) == (
        401,
        "SignatureRefused",
        "webhook-signature: is by no secret that is shared with this stage",
    )


def test_only_a_signed_call_learns_the_fault_of_its_body(in_review: Calls, starts: Starts) -> None:
    event = replace(signed, secret=THIRD)("{")

    assert refusal(in_review, starts, event)[:2] == (401, "SignatureRefused")


@pytest.mark.parametrize("encode", [True, False])
def test_a_body_of_a_megabyte_is_refused_before_anything_else(
    in_review: Calls, starts: Starts, secrets: Secrets, encode: bool
) -> None:
    event = signed(text(VERDICT | {"reason": "x" * 1_048_576}), encode=encode)

    answer = refusal(in_review, starts, event)

    assert answer == (400, "InvalidRequest", "body: must be at most 16384 bytes")
    assert secrets.read == []


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(("size", "status"), [(16_384, 200), (16_385, 400)])
def test_a_body_is_bounded_in_bytes(
    in_review: Calls, starts: Starts, size: int, status: int, encode: bool
) -> None:
    body = text(VERDICT | {"reason": ""})
    filled = body.replace('""', '"' + "x" * (size - len(body)) + '"')
    assert len(filled) == size

    assert in_review.decided(signed(filled, encode=encode))[0] == status


def test_a_body_is_bounded_in_bytes_and_not_in_characters(in_review: Calls, starts: Starts) -> None:
    body = json.dumps(VERDICT | {"reason": "\u00e9" * 9_000}, ensure_ascii=False)

    answer = refusal(in_review, starts, signed(body))

    assert answer == (400, "InvalidRequest", "body: must be at most 16384 bytes")


def test_a_body_in_base64_is_read(in_review: Calls) -> None:
    assert in_review.decided(signed(encode=True))[0] == 200


@pytest.mark.parametrize("body", ["%%%", "YQ", "\u00e9"])
def test_a_body_that_only_claims_to_be_in_base64_is_refused(
    in_review: Calls, starts: Starts, body: str
) -> None:
    event = signed() | {"body": body, "isBase64Encoded": True}

    assert refusal(in_review, starts, event) == (400, "InvalidRequest", "body: must be text")


def test_a_body_that_is_not_unicode_is_refused(in_review: Calls, starts: Starts) -> None:
    event = signed() | {"body": "\ud800"}

    assert refusal(in_review, starts, event) == (400, "InvalidRequest", "body: must be text")


@pytest.mark.parametrize("event", [{"body": None}, {"body": ""}])
def test_no_body_at_all_is_refused(in_review: Calls, starts: Starts, event: dict[str, Any]) -> None:
    assert refusal(in_review, starts, signed("") | event) == (400, "InvalidRequest", "body: must be JSON")


def test_signed_bytes_that_are_not_utf_8_are_refused(
    in_review: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.kyc_decided.verify", lambda *_: "evt_1")
    body = base64.b64encode(text(VERDICT).encode().replace(b"ver_1", b"ver_\xff")).decode()

    answer = refusal(in_review, starts, signed() | {"body": body, "isBase64Encoded": True})

    assert answer == (400, "InvalidRequest", "body: must be JSON")


OBJECT = "body: must be a JSON object with the fields decision, idempotency_key, reason, reference"
KEY_OF_ANOTHER_KIND = "idempotency_key: must be the one that the verification was asked with"
MALFORMED = [
    pytest.param("{", "body: must be JSON", id="no JSON"),
    pytest.param("[" * 16_000, "body: must be JSON", id="deep JSON"),
    pytest.param('{"reason":' * 1_600 + "0" + "}" * 1_600, "body: must be", id="deep objects"),
    pytest.param("9" * 5_000, "body: must be JSON", id="a long number"),
    pytest.param("null", OBJECT, id="null"),
    pytest.param("NaN", OBJECT, id="no number"),
    pytest.param(text([VERDICT]), OBJECT, id="a list"),
    pytest.param(text(VERDICT | {"canary": 1}), OBJECT, id="an unknown field"),
    pytest.param("{}", "decision: must be one of", id="nothing in it"),
    pytest.param(text(VERDICT | {"decision": "REVIEW"}), "decision: must be APPROVED or", id="a review"),
    pytest.param(text(VERDICT | {"decision": "approved"}), "decision: must be one of", id="lower case"),
    pytest.param(text(VERDICT | {"decision": ["APPROVED"]}), "decision: must be one of", id="a list of it"),
    pytest.param(text(VERDICT | {"decision": None}), "decision: must be one of", id="null as decision"),
    pytest.param(text(VERDICT | {"reference": "a b"}), "reference: must be", id="a free text"),
    pytest.param(text(VERDICT | {"reference": "x" * 101}), "reference: must be", id="a long reference"),
    pytest.param(text(VERDICT | {"reference": "ver_1\n"}), "reference: must be", id="a line's end"),
    pytest.param(text(VERDICT | {"reason": {"a": 1}}), "reason: must be a string", id="no text as reason"),
    *(
        pytest.param(text(VERDICT | {"idempotency_key": name}), KEY_OF_ANOTHER_KIND, id=f"key {name!r:.20}")
        for name in (None, 7, "", ":verify", "order-2026-000101", "order-2026-000101:hold", "short:verify")
    ),
    pytest.param(
        text(VERDICT | {"idempotency_key": "order-2026-000101:verify:verify"}),
        KEY_OF_ANOTHER_KIND,
        id="twice",
    ),
    pytest.param(
        text(VERDICT | {"idempotency_key": "order-2026-00010\u0661:verify"}), KEY_OF_ANOTHER_KIND, id="digits"
    ),
]


@pytest.mark.parametrize(("body", "message"), MALFORMED)
def test_a_signed_body_that_is_not_of_the_contract_is_refused(
    in_review: Calls, starts: Starts, body: str, message: str
) -> None:
    status, error, text = refusal(in_review, starts, signed(body))

    assert (status, error) == (400, "InvalidRequest")
    assert text.startswith(message)
    assert "canary" not in text


@pytest.mark.parametrize("event_id", ["x" * 201, "evt 1", "evt\t1"])
def test_an_event_s_id_is_short_and_printable(in_review: Calls, starts: Starts, event_id: str) -> None:
    answer = refusal(in_review, starts, replace(signed, id=event_id)())

    assert answer == (
        400,
        "InvalidRequest",
        "webhook-id: must be at most 200 printable characters of ASCII",
    )


def test_one_valid_signature_of_several_is_enough(in_review: Calls) -> None:
    other = replace(signed, secret=THIRD)()["headers"]["webhook-signature"]
    event = signed(change=changed("webhook-signature", lambda sent: f"v1a,AAAA {other} {sent}"))

    assert in_review.decided(event)[0] == 200


def test_the_previous_secret_is_accepted_too(in_review: Calls) -> None:
    assert in_review.decided(replace(signed, secret=PREVIOUS)())[0] == 200
