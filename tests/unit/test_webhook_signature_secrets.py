"""An unusable signing secret of the stage admits no call, and is reported as the stage's own fault."""

import base64
from datetime import timedelta

import pytest
from standardwebhooks import webhooks

from settlement.adapters.webhook_signature import verify
from settlement.model.errors import KycUnavailable, SignatureRefused
from tests.unit.test_webhook_signature import BODY, CURRENT, EVENT, NOW, SENT_AT, signed

UNFIT = [
    *(
        "whsec_%%%",
        "whsec_AAA",
        "whsec_AQEBAQ",
        "whsec_\u00e9\u00e9\u00e9\u00e9",
        "\ud800",
        "whsec_",
        "",
        "None",
    ),
    CURRENT.replace("_", "_%"),
    *(None, 7, ["a"], {}),
    "whsec_" + base64.b64encode(b"x" * 23).decode(),
]
"""Secrets that are no base64, no text, or so short that they could be guessed, such as the empty one."""


@pytest.mark.parametrize("secret", UNFIT, ids=ascii)
@pytest.mark.parametrize("beside", [(), (CURRENT,)], ids=["alone", "beside a good one"])
def test_an_unusable_secret_is_the_stages_fault_and_not_the_callers(
    secret: object, beside: tuple[str, ...]
) -> None:
    """The caller tries again after the secret is corrected; until then no call is admitted."""
    for headers in (signed(), signed() | {"webhook-signature": _signature_by(b"")}):
        with pytest.raises(KycUnavailable) as unavailable:
            verify(headers, BODY, [*beside, secret], NOW)

        assert str(unavailable.value) == "signing secret: must be base64 of at least 24 bytes"


def test_a_secret_of_the_least_length_is_accepted() -> None:
    secret = "whsec_" + base64.b64encode(b"x" * 24).decode()

    assert verify(signed(secret), BODY, [secret], NOW) == EVENT


def test_an_unsigned_call_does_not_learn_of_the_stages_fault() -> None:
    for headers in ({}, signed(sent_at=NOW - timedelta(hours=1))):
        with pytest.raises(SignatureRefused):
            verify(headers, BODY, ["whsec_"], NOW)


def _signature_by(key: bytes) -> str:
    digest = webhooks.hmac_data(key, f"{EVENT}.{SENT_AT}.{BODY.decode()}".encode())
    return f"v1,{base64.b64encode(digest).decode()}"
