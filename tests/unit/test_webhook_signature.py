"""Signatures of webhook calls, checked against an independent library of the same specification."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks import webhooks
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from settlement.adapters.webhook_signature import SIGNATURES_MAX, TOLERANCE, verify
from settlement.model.errors import SignatureRefused

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SENT_AT = str(int(NOW.timestamp()))
CURRENT, PREVIOUS, FOREIGN = (
    "whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3)
)
EVENT = "evt_2aGQ"
BODY = b'{"decision":"APPROVED","reference":"ver_1"}'

Headers = dict[str, str]


def signed(secret: str = CURRENT, event: str = EVENT, body: bytes = BODY, sent_at: datetime = NOW) -> Headers:
    """Return the headers that the library of the specification's authors makes."""
    return {
        "webhook-id": event,
        "webhook-timestamp": str(int(sent_at.timestamp())),
        "webhook-signature": Webhook(secret).sign(event, sent_at, body.decode()),
    }


def library_accepts(headers: Headers, body: bytes, secret: str = CURRENT, now: datetime = NOW) -> bool:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return now

    with mock.patch.object(webhooks, "datetime", Frozen):
        try:
            Webhook(secret).verify(body, headers, json_parse=False)
        except (WebhookVerificationError, ValueError):
            return False
    return True


def accepts(
    headers: Headers, body: bytes, secrets: tuple[str, ...] = (CURRENT,), now: datetime = NOW
) -> bool:
    try:
        verify(headers, body, secrets, now)
    except SignatureRefused:
        return False
    return True


def forgeries(headers: Headers, body: bytes) -> Iterator[tuple[Headers, bytes]]:
    """Yield the call with each part of the signed content replaced by a similar one."""
    for name in ("webhook-id", "webhook-timestamp"):
        for value in (headers[name] + "0", headers[name][:-1], headers[name][::-1] + "1"):
            yield headers | {name: value}, body
    for other in (body + b" ", body[:-1], b"", body.replace(b"APPROVED", b"REJECTED")):
        yield headers, other


# What is signed is accepted


@given(
    event=st.text(st.characters(codec="ascii"), min_size=1),
    body=st.text(st.characters(codec="utf-8")),
    secret=st.binary(min_size=24, max_size=64),
)
def test_a_call_that_the_library_signed_is_accepted(event: str, body: str, secret: bytes) -> None:
    shared = f"whsec_{base64.b64encode(secret).decode()}"
    headers = signed(shared, event, body.encode())

    assert verify(headers, body.encode(), [shared], NOW) == event
    assert library_accepts(headers, body.encode(), shared)


def test_a_secret_needs_no_prefix() -> None:
    assert verify(signed(), BODY, [CURRENT.removeprefix("whsec_")], NOW) == EVENT


@pytest.mark.parametrize("signer", [CURRENT, PREVIOUS])
@pytest.mark.parametrize("secrets", [(CURRENT, PREVIOUS), (PREVIOUS, CURRENT)])
def test_during_a_rotation_either_of_two_secrets_is_accepted(signer: str, secrets: tuple[str, ...]) -> None:
    assert verify(signed(signer), BODY, secrets, NOW) == EVENT


@pytest.mark.parametrize("secrets", [(), (FOREIGN,), (FOREIGN, PREVIOUS)])
def test_a_secret_that_is_not_shared_any_more_is_refused(secrets: tuple[str, ...]) -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-signature: is by no secret"):
        verify(signed(), BODY, secrets, NOW)


@pytest.mark.parametrize("order", ["{ours} {theirs}", "{theirs} {ours}", "v1a,AAAA {theirs} {ours} v2,AAAA"])
def test_one_good_signature_among_several_is_enough(order: str) -> None:
    ours, theirs = (signed(secret)["webhook-signature"] for secret in (CURRENT, FOREIGN))
    headers = signed() | {"webhook-signature": order.format(ours=ours, theirs=theirs)}

    assert verify(headers, BODY, [CURRENT], NOW) == EVENT
    assert library_accepts(headers, BODY)


def test_several_bad_signatures_are_not_a_good_one() -> None:
    signatures = [signed(secret)["webhook-signature"] for secret in (PREVIOUS, FOREIGN)]
    headers = signed() | {"webhook-signature": " ".join(signatures)}

    assert not accepts(headers, BODY)
    assert not library_accepts(headers, BODY)


@pytest.mark.parametrize("after", [0, 1, 20])
@pytest.mark.parametrize(
    ("before", "accepted"), [(0, True), (SIGNATURES_MAX - 1, True), (SIGNATURES_MAX, False)]
)
def test_a_bounded_number_of_signatures_is_checked(before: int, after: int, accepted: bool) -> None:
    ours, theirs = (signed(secret)["webhook-signature"] for secret in (CURRENT, FOREIGN))
    headers = signed() | {"webhook-signature": f"{theirs} " * before + ours + f" {theirs}" * after}

    assert accepts(headers, BODY) == accepted


@pytest.mark.parametrize("between", ["\t", "\n", "\x1f", ","], ids=["tab", "LF", "unit separator", "comma"])
def test_only_a_space_separates_signatures(between: str) -> None:
    theirs, ours = signed(FOREIGN)["webhook-signature"], signed()["webhook-signature"]
    headers = signed() | {"webhook-signature": f"{theirs}{between}{ours}"}

    assert not accepts(headers, BODY)
    assert not library_accepts(headers, BODY)


# Another version, or no signature


@pytest.mark.parametrize("version", ["v0", "v2", "v1a", "V1", "", "1"])
def test_a_signature_of_another_version_is_refused(version: str) -> None:
    signature = signed()["webhook-signature"].removeprefix("v1")
    headers = signed() | {"webhook-signature": f"{version}{signature}"}

    assert not accepts(headers, BODY)
    assert not library_accepts(headers, BODY)


@pytest.mark.parametrize("signature", ["v1,", "v1", "v1,AAAA", "v1,v1", ",", "=", "\u00e9", "v1,\u00e9"])
def test_a_malformed_signature_is_refused(signature: str) -> None:
    headers = signed() | {"webhook-signature": signature}

    assert not accepts(headers, BODY)
    assert not library_accepts(headers, BODY)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_header_is_needed(name: str) -> None:
    for headers in (
        signed() | {name: ""},
        {other: text for other, text in signed().items() if other != name},
    ):
        with pytest.raises(SignatureRefused, match=r"^webhook: must have the headers"):
            verify(headers, BODY, [CURRENT], NOW)
        assert not library_accepts(headers, BODY)


@pytest.mark.parametrize(
    "sent_at",
    [
        *("now", "-1", f"+{SENT_AT}", f"{SENT_AT}.0", f" {SENT_AT}", "nan", "inf", "1e9", "1_763_640_000"),
        *("\u0661" * 10, "9" * 13, "9" * 5000),
    ],
)
def test_a_time_that_is_no_count_of_seconds_is_refused_even_if_it_is_signed(sent_at: str) -> None:
    with mock.patch.object(webhooks, "floor", return_value=sent_at):
        headers = signed() | {"webhook-timestamp": sent_at}

    with pytest.raises(SignatureRefused, match=r"^webhook: must have the headers"):
        verify(headers, BODY, [CURRENT], NOW)


def test_a_time_of_twelve_digits_is_valid_but_too_far_away() -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-timestamp: is more than 5 minutes away$"):
        verify(signed() | {"webhook-timestamp": "9" * 12}, BODY, [CURRENT], NOW)


# Old and new


@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.parametrize(
    ("distance", "in_time"),
    [
        (timedelta(0), True),
        (TOLERANCE - timedelta(seconds=1), True),
        (TOLERANCE, True),
        (TOLERANCE + timedelta(seconds=1), False),
        (timedelta(days=365), False),
    ],
    ids=str,
)
def test_a_call_is_good_for_five_minutes_in_either_direction(
    direction: int, distance: timedelta, in_time: bool
) -> None:
    headers = signed(sent_at=NOW + direction * distance)

    assert timedelta(minutes=5) == TOLERANCE
    assert accepts(headers, BODY) == in_time
    assert library_accepts(headers, BODY) == in_time


@pytest.mark.parametrize(("direction", "in_time"), [(1, True), (-1, False)])
def test_a_millisecond_beyond_the_five_minutes_is_too_far(direction: int, in_time: bool) -> None:
    """Our clock has milliseconds, the header has none: a call that ages is refused with the first of them."""
    now = NOW + timedelta(milliseconds=1)
    headers = signed(sent_at=NOW + direction * TOLERANCE)

    assert accepts(headers, BODY, now=now) == in_time
    assert library_accepts(headers, BODY, now=now) == in_time


def test_a_refusal_of_the_time_does_not_tell_the_difference() -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-timestamp: is more than 5 minutes away$"):
        verify(signed(sent_at=NOW - timedelta(hours=1)), BODY, [CURRENT], NOW)


# Forged


def test_nothing_that_is_signed_can_be_replaced() -> None:
    for headers, body in forgeries(signed(), BODY):
        assert not accepts(headers, body), (headers, body)
        assert not library_accepts(headers, body), (headers, body)


@given(bit=st.integers(0, len(BODY) * 8 - 1))
def test_no_bit_of_the_body_can_be_flipped(bit: int) -> None:
    forged = bytearray(BODY)
    forged[bit // 8] ^= 1 << bit % 8

    assert not accepts(signed(), bytes(forged))


@given(bit=st.integers(0, 255))
def test_no_bit_of_the_signature_can_be_flipped(bit: int) -> None:
    digest = bytearray(base64.b64decode(signed()["webhook-signature"].removeprefix("v1,")))
    digest[bit // 8] ^= 1 << bit % 8
    headers = signed() | {"webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}

    assert not accepts(headers, BODY)
    assert not library_accepts(headers, BODY)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@given(data=st.data())
def test_no_bit_of_a_headers_text_can_be_flipped(name: str, data: st.DataObject) -> None:
    text = bytearray(signed()[name].encode())
    bit = data.draw(st.integers(0, len(text) * 8 - 1))
    text[bit // 8] ^= 1 << bit % 8

    assert not accepts(signed() | {name: text.decode("latin-1")}, BODY)


@pytest.mark.parametrize("end", range(44))
def test_the_beginning_of_a_signature_is_not_the_signature(end: int) -> None:
    headers = signed() | {"webhook-signature": signed()["webhook-signature"][: len("v1,") + end]}

    assert not accepts(headers, BODY)


# Any input


@given(event=st.text(), sent_at=st.text(), signature=st.text(), body=st.binary())
@example(event="\ud800", sent_at=SENT_AT, signature="v1,AAAA", body=b"")
@example(event=EVENT, sent_at=SENT_AT, signature="v1,\ud800", body=b"")
@example(event=EVENT, sent_at=SENT_AT, signature="v1,\u00e9", body=b"")
@example(event=EVENT, sent_at="\u00b2", signature="v1,AAAA", body=b"")
def test_any_unsigned_headers_are_refused(event: str, sent_at: str, signature: str, body: bytes) -> None:
    headers = {"webhook-id": event, "webhook-timestamp": sent_at, "webhook-signature": signature}

    assert not accepts(headers, body)
