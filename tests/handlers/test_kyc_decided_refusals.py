"""KycDecided: what is not signed, not in time or not of the contract is refused, and nothing is written."""

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


def refusal(parked: Calls, starts: Starts, event: Any) -> tuple[int, str, str]:
    """How a call is refused, by which nothing is written and nothing started."""
    with parked.writes_nothing():
        status, content = parked.decided(event)
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
    parked: Calls, starts: Starts, change: Callable[[Headers], Headers]
) -> None:
    assert refusal(parked, starts, signed(change=change))[:2] == (401, "SignatureRefused")


def test_an_event_s_id_beyond_ascii_signs_nothing(parked: Calls, starts: Starts) -> None:
    event = replace(signed, id="evt_\u00e9")()

    assert refusal(parked, starts, event)[:2] == (401, "SignatureRefused")


def test_a_body_that_was_changed_on_its_way_is_refused(parked: Calls, starts: Starts) -> None:
    event = signed(decision="REJECTED")
    event["body"] = event["body"].replace("REJECTED", "APPROVED")

    assert refusal(parked, starts, event)[:2] == (401, "SignatureRefused")


@pytest.mark.parametrize("seconds", [-301, 301, -86_400])
def test_a_call_of_another_time_is_refused(parked: Calls, starts: Starts, seconds: int) -> None:
    event = replace(signed, at=past(seconds=seconds))()

    assert refusal(parked, starts, event) == (
        401,
        "SignatureRefused",
        "webhook-timestamp: is more than 5 minutes away",
    )


@pytest.mark.parametrize("seconds", [-299, 300])
def test_a_call_of_about_now_is_taken(parked: Calls, seconds: int) -> None:
    assert parked.decided(replace(signed, at=past(seconds=seconds))())[0] == 200


def test_a_recorded_call_is_refused_once_it_is_old(
    parked: Calls, starts: Starts, later: Callable[..., None]
) -> None:
    event = signed()
    later(minutes=5, seconds=1)

    assert refusal(parked, starts, event)[:2] == (401, "SignatureRefused")


def test_a_secret_that_is_not_shared_is_refused(parked: Calls, starts: Starts) -> None:
    assert refusal(parked, starts, replace(signed, secret=THIRD)()) == (
        401,
        "SignatureRefused",
        "webhook-signature: is by no secret that is shared with this stage",
    )


def test_what_is_wrong_with_a_body_is_told_to_those_only_who_can_sign(parked: Calls, starts: Starts) -> None:
    event = replace(signed, secret=THIRD)("{")

    assert refusal(parked, starts, event)[:2] == (401, "SignatureRefused")


@pytest.mark.parametrize("encode", [True, False])
def test_a_body_of_a_megabyte_is_refused_before_anything_else(
    parked: Calls, starts: Starts, secrets: Secrets, encode: bool
) -> None:
    event = signed(text(VERDICT | {"reason": "x" * 1_048_576}), encode=encode)

    answer = refusal(parked, starts, event)

    assert answer == (400, "InvalidRequest", "body: must be at most 16384 bytes")
    assert secrets.read == []


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(("size", "status"), [(16_384, 200), (16_385, 400)])
def test_a_body_is_bounded_in_bytes(
    parked: Calls, starts: Starts, size: int, status: int, encode: bool
) -> None:
    body = text(VERDICT | {"reason": ""})
    filled = body.replace('""', '"' + "x" * (size - len(body)) + '"')
    assert len(filled) == size

    assert parked.decided(signed(filled, encode=encode))[0] == status


def test_a_body_is_bounded_in_bytes_and_not_in_characters(parked: Calls, starts: Starts) -> None:
    body = json.dumps(VERDICT | {"reason": "\u00e9" * 9_000}, ensure_ascii=False)

    answer = refusal(parked, starts, signed(body))

    assert answer == (400, "InvalidRequest", "body: must be at most 16384 bytes")


def test_a_body_in_base64_is_read(parked: Calls) -> None:
    assert parked.decided(signed(encode=True))[0] == 200


@pytest.mark.parametrize("body", ["%%%", "YQ", "\u00e9"])
def test_a_body_that_only_claims_to_be_in_base64_is_refused(parked: Calls, starts: Starts, body: str) -> None:
    event = signed() | {"body": body, "isBase64Encoded": True}

    assert refusal(parked, starts, event) == (400, "InvalidRequest", "body: must be text")


def test_a_body_that_is_not_unicode_is_refused(parked: Calls, starts: Starts) -> None:
    event = signed() | {"body": "\ud800"}

    assert refusal(parked, starts, event) == (400, "InvalidRequest", "body: must be text")


@pytest.mark.parametrize("event", [{"body": None}, {"body": ""}])
def test_no_body_at_all_is_refused(parked: Calls, starts: Starts, event: dict[str, Any]) -> None:
    assert refusal(parked, starts, signed("") | event) == (400, "InvalidRequest", "body: must be JSON")


def test_signed_bytes_that_are_not_utf_8_are_refused(
    parked: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.kyc_decided.verify", lambda *_: "evt_1")
    body = base64.b64encode(text(VERDICT).encode().replace(b"ver_1", b"ver_\xff")).decode()

    answer = refusal(parked, starts, signed() | {"body": body, "isBase64Encoded": True})

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
    parked: Calls, starts: Starts, body: str, message: str
) -> None:
    status, error, told = refusal(parked, starts, signed(body))

    assert (status, error) == (400, "InvalidRequest")
    assert told.startswith(message)
    assert "canary" not in told


@pytest.mark.parametrize("event_id", ["x" * 201, "evt 1", "evt\t1"])
def test_an_event_s_id_is_short_and_printable(parked: Calls, starts: Starts, event_id: str) -> None:
    answer = refusal(parked, starts, replace(signed, id=event_id)())

    assert answer == (
        400,
        "InvalidRequest",
        "webhook-id: must be at most 200 printable characters of ASCII",
    )


def test_of_several_signatures_one_that_is_good_is_enough(parked: Calls) -> None:
    other = replace(signed, secret=THIRD)()["headers"]["webhook-signature"]
    event = signed(change=changed("webhook-signature", lambda sent: f"v1a,AAAA {other} {sent}"))

    assert parked.decided(event)[0] == 200


def test_the_previous_secret_is_good_as_well(parked: Calls) -> None:
    assert parked.decided(replace(signed, secret=PREVIOUS)())[0] == 200
