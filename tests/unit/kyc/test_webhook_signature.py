"""Webhook signatures, checked against an independent library of the same specification."""

import base64
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks import webhooks
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from settlement.core.model.errors import KycUnavailable, SignatureRefused
from settlement.kyc.webhook_signature import SIGNATURES_MAX, TOLERANCE, verify

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SENT_AT = str(int(NOW.timestamp()))
CURRENT, PREVIOUS, FOREIGN = (
    "whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3)
)
EVENT = "evt_2aGQ"
BODY = b'{"decision":"APPROVED","reference":"ver_1"}'

Headers = dict[str, str]


def signed(secret: str = CURRENT, event: str = EVENT, body: bytes = BODY, sent_at: datetime = NOW) -> Headers:
    """Return a webhook's headers, signed by the library of the specification's authors."""
    return {
        "webhook-id": event,
        "webhook-timestamp": str(int(sent_at.timestamp())),
        "webhook-signature": Webhook(secret).sign(event, sent_at, body.decode()),
    }


OURS, THEIRS = (signed(secret)["webhook-signature"] for secret in (CURRENT, FOREIGN))


def accepts(headers: Headers, body: bytes = BODY, now: datetime = NOW) -> bool:
    """Return whether our code accepts the webhook. Check that the library agrees."""
    try:
        accepted = verify(headers, body, [CURRENT], now) == headers["webhook-id"]
    except SignatureRefused:
        accepted = False
    assert accepted == library_accepts(headers, body, now=now)
    return accepted


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


# The signatures


@given(
    event=st.text(st.characters(codec="ascii"), min_size=1),
    body=st.text(st.characters(codec="utf-8")),
    secret=st.binary(min_size=24, max_size=64),
)
def test_a_webhook_signed_by_an_independent_library_is_accepted(event: str, body: str, secret: bytes) -> None:
    shared = f"whsec_{base64.b64encode(secret).decode()}"
    headers = signed(shared, event, body.encode())

    assert verify(headers, body.encode(), [shared], NOW) == event
    assert library_accepts(headers, body.encode(), shared)


@pytest.mark.parametrize(
    ("signatures", "accepted"),
    [
        *((each, True) for each in (f"{OURS} {THEIRS}", f"{THEIRS} {OURS}", f"v1a,AAAA {OURS} v2,AAAA")),
        (f"{THEIRS} {signed(PREVIOUS)['webhook-signature']}", False),
        *((f"{THEIRS}{between}{OURS}", False) for between in ("\t", "\n", "\x1f", ",")),
        *((f"{version}{OURS.removeprefix('v1')}", False) for version in ("v0", "v2", "v1a", "V1", "", "1")),
        *((each, False) for each in ("v1,", "v1", "v1,AAAA", "v1,v1", ",", "=", "\u00e9", "v1,\u00e9")),
        *((OURS[: len("v1,") + end], False) for end in range(44)),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_one_valid_signature_in_the_header_is_enough(signatures: str, accepted: bool) -> None:
    assert accepts(signed() | {"webhook-signature": signatures}) == accepted


@pytest.mark.parametrize("after", [0, 1, 20])
@pytest.mark.parametrize(
    ("before", "accepted"), [(0, True), (SIGNATURES_MAX - 1, True), (SIGNATURES_MAX, False)]
)
def test_a_bounded_number_of_signatures_is_checked(before: int, after: int, accepted: bool) -> None:
    headers = signed() | {"webhook-signature": f"{THEIRS} " * before + OURS + f" {THEIRS}" * after}

    if accepted:
        assert verify(headers, BODY, [CURRENT], NOW) == EVENT
    else:
        with pytest.raises(SignatureRefused):
            verify(headers, BODY, [CURRENT], NOW)


# The headers


@pytest.mark.parametrize("name", signed())
def test_each_signature_header_is_required(name: str) -> None:
    missing = {other: text for other, text in signed().items() if other != name}

    for headers in (signed() | {name: ""}, missing):
        with pytest.raises(SignatureRefused, match=r"^webhook: must have the headers webhook-id, -time"):
            verify(headers, BODY, [CURRENT], NOW)
        assert not library_accepts(headers, BODY)


@pytest.mark.parametrize(
    "sent_at",
    [
        *("now", "-1", f"+{SENT_AT}", f"{SENT_AT}.0", f" {SENT_AT}", "nan", "inf", "1e9", "1_763_640_000"),
        *("\u0661" * 10, "9" * 13, "9" * 5000),
    ],
    ids=lambda value: ascii(value)[:14],
)
def test_a_malformed_webhook_timestamp_is_refused(sent_at: str) -> None:
    with mock.patch.object(webhooks, "floor", return_value=sent_at):
        headers = signed() | {"webhook-timestamp": sent_at}

    with pytest.raises(SignatureRefused, match=r"^webhook: must have the headers"):
        verify(headers, BODY, [CURRENT], NOW)


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
def test_a_webhook_is_valid_for_five_minutes_either_way(
    direction: int, distance: timedelta, in_time: bool
) -> None:
    """A webhook one millisecond too old is refused, although its header has only whole seconds."""
    headers = signed(sent_at=NOW + direction * distance)

    assert timedelta(minutes=5) == TOLERANCE
    assert accepts(headers) == in_time
    later = NOW + timedelta(milliseconds=1)
    assert accepts(headers, now=later) == (in_time and (direction, distance) != (-1, TOLERANCE))


@pytest.mark.parametrize("sent_at", [str(int(NOW.timestamp()) - 3600), "9" * 12])
def test_a_refused_timestamp_does_not_reveal_the_difference(sent_at: str) -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-timestamp: is more than 5 minutes away$"):
        verify(signed() | {"webhook-timestamp": sent_at}, BODY, [CURRENT], NOW)


# Forged


def test_changing_any_signed_part_invalidates_the_signature() -> None:
    for name in ("webhook-id", "webhook-timestamp"):
        text = signed()[name]
        for other in (text + "0", text[:-1], text[::-1] + "1"):
            assert not accepts(signed() | {name: other})
    for body in (BODY + b" ", BODY[:-1], b"", BODY.replace(b"APPROVED", b"REJECTED")):
        assert not accepts(signed(), body)


@given(data=st.data())
@pytest.mark.parametrize("part", ["body", "digest", *signed()])
def test_flipping_any_bit_invalidates_the_signature(part: str, data: st.DataObject) -> None:
    digest = base64.b64decode(OURS.removeprefix("v1,"))
    text = {"body": BODY, "digest": digest}.get(part) or signed()[part].encode()
    bit = data.draw(st.integers(0, len(text) * 8 - 1))
    forged = bytearray(text)
    forged[bit // 8] ^= 1 << bit % 8
    body, headers = BODY, signed()
    if part == "body":
        body = bytes(forged)
    elif part == "digest":
        headers["webhook-signature"] = f"v1,{base64.b64encode(forged).decode()}"
    else:
        headers[part] = forged.decode("latin-1")

    with pytest.raises(SignatureRefused):
        verify(headers, body, [CURRENT], NOW)


@given(event=st.text(), sent_at=st.text(), signature=st.text(), body=st.binary())
@example(event="\ud800", sent_at=SENT_AT, signature="v1,AAAA", body=b"")
@example(event=EVENT, sent_at=SENT_AT, signature="v1,\ud800", body=b"")
@example(event=EVENT, sent_at=SENT_AT, signature="v1,\u00e9", body=b"")
@example(event=EVENT, sent_at="\u00b2", signature="v1,AAAA", body=b"")
def test_random_headers_are_refused(event: str, sent_at: str, signature: str, body: bytes) -> None:
    headers = {"webhook-id": event, "webhook-timestamp": sent_at, "webhook-signature": signature}

    with pytest.raises(SignatureRefused):
        verify(headers, body, [CURRENT], NOW)


# The stage's secrets


@pytest.mark.parametrize("signer", [CURRENT, PREVIOUS])
@pytest.mark.parametrize("secrets", [(CURRENT, PREVIOUS), (PREVIOUS, CURRENT)])
def test_during_a_rotation_either_of_two_secrets_is_accepted(signer: str, secrets: tuple[str, ...]) -> None:
    assert verify(signed(signer), BODY, secrets, NOW) == EVENT


@pytest.mark.parametrize("secrets", [(), (FOREIGN,), (FOREIGN, PREVIOUS)])
def test_a_secret_that_is_not_shared_any_more_is_refused(secrets: tuple[str, ...]) -> None:
    with pytest.raises(SignatureRefused, match=r"^webhook-signature: is by no secret"):
        verify(signed(), BODY, secrets, NOW)


def test_a_secret_is_accepted_with_and_without_its_prefix() -> None:
    secret = base64.b64encode(b"x" * 24).decode()

    assert verify(signed(secret), BODY, [secret], NOW) == EVENT
    assert verify(signed(f"whsec_{secret}"), BODY, [f"whsec_{secret}"], NOW) == EVENT


@pytest.mark.parametrize(
    "secret",
    [
        *("whsec_%%%", "whsec_AAA", "whsec_AQEBAQ", "whsec_\u00e9\u00e9\u00e9\u00e9", "\ud800", "whsec_", ""),
        *("None", CURRENT.replace("_", "_%"), None, 7, ["a"], {}),
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("beside", [(), (CURRENT,)], ids=["alone", "beside a good one"])
def test_an_unusable_secret_makes_the_webhook_unavailable(secret: object, beside: tuple[str, ...]) -> None:
    digest = webhooks.hmac_data(b"", f"{EVENT}.{SENT_AT}.{BODY.decode()}".encode())
    by_the_empty_secret = {"webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}

    for headers in (signed(), signed() | by_the_empty_secret):
        with pytest.raises(KycUnavailable) as unavailable:
            verify(headers, BODY, [*beside, secret], NOW)
        assert str(unavailable.value) == "signing secret: must be base64 of at least 24 bytes"


def test_an_unsigned_webhook_does_not_reveal_an_unusable_secret() -> None:
    for headers in ({}, signed(sent_at=NOW - timedelta(hours=1))):
        with pytest.raises(SignatureRefused):
            verify(headers, BODY, ["whsec_"], NOW)
