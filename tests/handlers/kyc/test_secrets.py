"""Secrets are cached for seconds; each failed read is counted, for the alarm."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parameters import base as parameters
from botocore.exceptions import EndpointConnectionError

from handlers.kyc import _provider as _kyc
from settlement.core.model.errors import KycUnavailable
from settlement.kyc import shared_secrets as _secrets
from tests.handlers.conftest import Calls
from tests.handlers.kyc.provider_stage import Stage, stage
from tests.world.environment import NOW
from tests.world.services import (
    API_KEY,
    NEW_API_KEY,
    PREVIOUS,
    SECRET,
    THIRD,
    Secrets,
    signed,
    throttled,
    unanswered,
)

UNREADABLE = [
    pytest.param(throttled("GetSecretValue"), "secret: GetParameterError", id="throttled"),
    pytest.param(unanswered(), "secret: GetParameterError", id="unanswered"),
    pytest.param(
        EndpointConnectionError(endpoint_url="https://x.invalid"),
        "secret: GetParameterError",
        id="unreachable",
    ),
    pytest.param("canary, and no JSON", "secret: TransformParameterError", id="no JSON"),
    pytest.param("[]", "secret: must be a JSON object", id="a list"),
    pytest.param("null", "secret: must be a JSON object", id="null"),
]
CREDENTIALS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf"
SIGNING = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:signing-AbCdEf"
REFUSED = {"StepCalled": 1, "KycSecretUnreadable": 1, "KycUnavailable": 1}
NO_API_KEY = "secret: api_key must be a string of printable ASCII"
NO_SECRET = "secret: current must be a signing secret"
NO_END = "secret: previous_until must be a time with its offset, as 2026-11-22T06:04:00Z"
LATER = "2026-11-21T13:00:00+01:00"


@pytest.fixture
def kyc(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A held settlement, with the real provider client."""
    made = stage(calls.ledger, monkeypatch)
    monkeypatch.setattr(_kyc, "ask", made.ask)
    calls.before("VerifyKyc")
    return made


@pytest.fixture
def cached_until(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the cache's clock, in seconds since the test began."""
    began = datetime(2026, 11, 20, 12)

    def move(seconds: float) -> None:
        now = SimpleNamespace(now=lambda: began + timedelta(seconds=seconds))
        monkeypatch.setattr(parameters, "datetime", now)

    move(0)
    return move


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *UNREADABLE,
        *(({"api_key": key}, NO_API_KEY) for key in (None, 7, "", "canary\r\nX-Evil: 1", "canary-\u00e9")),
    ],
)
def test_an_unreadable_api_key_is_counted_with_each_call(
    calls: Calls, kyc: Stage, content: Any, message: str
) -> None:
    calls.secrets.content = content
    calls.counted()

    for _ in range(2):
        with calls.writes_nothing(), pytest.raises(KycUnavailable) as refused:
            calls("VerifyKyc")
        assert str(refused.value) == message
        assert calls.counted() == REFUSED

    assert (kyc.sent, kyc.circuit(), set(calls.secrets.read)) == ([], {}, {CREDENTIALS})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *UNREADABLE,
        *((content, NO_SECRET) for content in ({}, {"stolen": SECRET}, {"current": "", "previous": None})),
        *(
            ({"current": text}, "")
            for text in ("whsec_", "bm90IGxvbmcgZW5vdWdo", "no base64!", 7, ["whsec_"])
        ),
    ],
)
def test_an_unreadable_or_unusable_signing_secret_is_counted_each_call(
    in_review: Calls, content: Any, message: str
) -> None:
    kept, in_review.secrets.content = in_review.secrets.content, content
    in_review.counted()

    for _ in range(2):
        with in_review.writes_nothing():
            status, answer = in_review.decided(signed(reference="ver_2"))
        assert (status, answer["error"]) == (503, "KycUnavailable")
        assert answer["message"] == (message or answer["message"])
        assert "canary" not in answer["message"]
        assert in_review.counted() == REFUSED

    assert (set(in_review.secrets.read), in_review.step_functions.called) == ({SIGNING}, [])
    in_review.secrets.content = kept
    if message in (
        "secret: GetParameterError",
        "secret: TransformParameterError",
    ):  # a failed read is not cached
        assert in_review.decided(signed())[0] == 200


BAD_PREVIOUS: list[dict[str, Any]] = [
    {"previous": "whsec_", "previous_until": LATER},
    {"previous": 7, "previous_until": LATER},
    *(
        {"previous": PREVIOUS, "previous_until": end}
        for end in (None, "", "soon", 1_795_000_000, "2026-11-21T12:00:00")
    ),
    {"previous": PREVIOUS},
]


@pytest.mark.parametrize("bad", BAD_PREVIOUS)
def test_an_unusable_previous_secret_is_reported_without_stopping_the_current(
    in_review: Calls, log: io.StringIO, bad: dict[str, Any]
) -> None:
    in_review.secrets.content = {"current": SECRET} | bad
    in_review.counted()

    by_previous = in_review.decided(replace(signed, secret=PREVIOUS)())
    by_current = in_review.decided(signed())

    assert (by_previous[0], by_previous[1]["error"]) == (401, "SignatureRefused")
    assert by_current[0] == 200
    assert in_review.counted() == {"StepCalled": 2, "KycSecretUnreadable": 2, "SignatureRefused": 1}
    told = [json.loads(line) for line in log.getvalue().splitlines() if "unusable" in line]
    expected = (
        (NO_END,) if bad["previous"] == PREVIOUS else ("signing secret: must be base64 of at least 24 bytes",)
    )
    assert {(line["unusable"], line["reason"]) for line in told} == {("previous", *expected)}
    assert "canary" not in log.getvalue()


def test_an_unusable_current_secret_does_not_stop_the_previous_one(in_review: Calls) -> None:
    in_review.secrets.content = {"current": "whsec_", "previous": PREVIOUS, "previous_until": LATER}
    in_review.counted()

    assert in_review.decided(replace(signed, secret=PREVIOUS)())[0] == 200

    assert in_review.counted() == {"StepCalled": 1, "KycSecretUnreadable": 1}


def test_secrets_that_can_be_read_are_not_counted(calls: Calls, kyc: Stage) -> None:
    calls.counted()

    calls("VerifyKyc")
    assert calls.decided(signed())[0] == 200

    assert calls.counted() == {"StepCalled": 2, "KycCircuit": 0}
    assert (calls.secrets.read, kyc.sent) == ([CREDENTIALS, SIGNING], [API_KEY])


@pytest.mark.parametrize(
    ("read", "seconds"),
    [
        (lambda: _secrets.read(CREDENTIALS, cache_seconds=_kyc.SECRET_CACHE_SECONDS)["api_key"], 60),
        (lambda: _secrets.signing_secrets(NOW)[0], 10),
    ],
)
def test_each_kind_of_secret_is_cached_for_its_own_time(
    secrets: Secrets, cached_until: Callable[[float], None], read: Callable[[], object], seconds: int
) -> None:
    first = read()
    secrets.content = {"api_key": NEW_API_KEY, "current": PREVIOUS}

    cached_until(seconds - 0.001)
    assert (read(), len(secrets.read)) == (first, 1)
    cached_until(seconds + 0.001)

    assert read() in (NEW_API_KEY, PREVIOUS)
    assert len(secrets.read) == 2


@pytest.mark.parametrize(
    ("content", "active"),
    [
        ({"api_key": API_KEY, "current": SECRET, "previous": PREVIOUS}, [SECRET, PREVIOUS]),
        ({"current": SECRET, "previous": None}, [SECRET]),
        ({"current": SECRET, "stolen": THIRD}, [SECRET]),
        ({"current": "", "previous": PREVIOUS}, [PREVIOUS]),
    ],
)
def test_the_current_and_the_previous_signing_secret_are_valid(
    secrets: Secrets, content: dict[str, Any], active: list[str]
) -> None:
    secrets.content = content | {"previous_until": LATER}

    assert _secrets.signing_secrets(NOW) == active
    assert secrets.read == [SIGNING]


@pytest.mark.parametrize(("milliseconds", "active"), [(-1, [SECRET, PREVIOUS]), (0, [SECRET])])
def test_the_previous_signing_secret_is_refused_once_it_has_expired(
    secrets: Secrets, milliseconds: int, active: list[str]
) -> None:
    secrets.content = {"current": SECRET, "previous": PREVIOUS, "previous_until": LATER}
    now = datetime.fromisoformat(LATER) + timedelta(milliseconds=milliseconds)

    assert _secrets.signing_secrets(now) == active
