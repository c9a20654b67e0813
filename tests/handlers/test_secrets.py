"""A secret that cannot be read is counted each time, for the alarm, by every function that needs it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parameters import base as parameters
from botocore.exceptions import EndpointConnectionError

from handlers import _kyc, _secrets
from settlement.model.errors import KycUnavailable
from tests.conftest import Ledger
from tests.handlers.calls import KEY, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.provider_stage import Stage, stage
from tests.handlers.stand_ins import (
    API_KEY,
    NEW_API_KEY,
    PREVIOUS,
    SECRET,
    Secrets,
    Starts,
    signed,
    throttled,
    unanswered,
)

on_one_engine = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

UNREADABLE = [
    pytest.param(throttled("GetSecretValue"), "secret: GetParameterError", id="throttled"),
    pytest.param(unanswered(), "secret: GetParameterError", id="unanswered"),
    pytest.param(
        EndpointConnectionError(endpoint_url="https://x.invalid"),
        "secret: GetParameterError",
        id="unreachable",
    ),
    pytest.param("canary, and no JSON", "secret: TransformParameterError", id="no JSON"),
    pytest.param("", "secret: TransformParameterError", id="nothing"),
    pytest.param("[]", "secret: must be a JSON object", id="a list"),
    pytest.param("null", "secret: must be a JSON object", id="null"),
    pytest.param('"canary"', "secret: must be a JSON object", id="a text"),
    pytest.param("7", "secret: must be a JSON object", id="a number"),
]
READABLE = {"api_key": API_KEY, "current": SECRET, "previous": PREVIOUS}
CREDENTIALS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf"
SIGNING = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:signing-AbCdEf"


@pytest.fixture
def kyc(
    calls: Calls, ledger: Ledger, secrets: Secrets, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> Stage:
    """A held settlement, with the stage's real client of the provider."""
    made = stage(ledger, monkeypatch)
    monkeypatch.setattr(_kyc, "ask", made.ask)
    calls.before("VerifyKyc")
    return made


@pytest.fixture
def cached_until(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Stop the clock of the secrets' cache, this many seconds after the test began."""
    began = datetime(2026, 11, 20, 12)

    def move(seconds: float) -> None:
        now = SimpleNamespace(now=lambda: began + timedelta(seconds=seconds))
        monkeypatch.setattr(parameters, "datetime", now)

    move(0)
    return move


@on_one_engine
@pytest.mark.parametrize(("content", "message"), UNREADABLE)
def test_an_api_key_that_cannot_be_read_is_counted_with_each_call(
    calls: Calls, kyc: Stage, secrets: Secrets, counted: Counted, content: Any, message: str
) -> None:
    secrets.content = content
    counted()

    for _ in range(2):
        with calls.writes_nothing(), pytest.raises(KycUnavailable) as told:
            calls("VerifyKyc")
        assert str(told.value) == message
        assert counted() == {"StepCalled": 1, "KycSecretUnreadable": 1, "KycUnavailable": 1}

    assert (kyc.sent, set(secrets.read)) == ([], {CREDENTIALS})


@on_one_engine
@pytest.mark.parametrize(("content", "message"), UNREADABLE)
def test_a_signing_secret_that_cannot_be_read_is_counted_with_each_call(
    calls: Calls, kyc: Stage, secrets: Secrets, counted: Counted, content: Any, message: str
) -> None:
    secrets.content = content
    counted()

    for _ in range(2):
        with calls.writes_nothing():
            assert calls.decided(signed()) == (503, {"error": "KycUnavailable", "message": message})
        assert counted() == {"StepCalled": 1, "KycSecretUnreadable": 1, "KycUnavailable": 1}

    assert set(secrets.read) == {SIGNING}


@on_one_engine
def test_secrets_that_can_be_read_are_not_counted(
    calls: Calls, kyc: Stage, secrets: Secrets, counted: Counted
) -> None:
    secrets.content = READABLE
    counted()

    assert calls("VerifyKyc") == {"in_review": False}
    assert calls.decided(signed())[0] == 200

    assert counted() == {"StepCalled": 2, "KycCircuit": 0}
    assert secrets.read == [CREDENTIALS, SIGNING]


@on_one_engine
def test_a_key_that_cannot_be_looked_for_again_is_counted_and_the_refusal_is_left_open(
    calls: Calls, kyc: Stage, secrets: Secrets, counted: Counted
) -> None:
    calls("VerifyKyc")
    other = WIRE | {"key": "order-2026-000202"}
    for state in ("ClaimKey", "HoldFunds"):
        calls(state, other)
    secrets.content, kyc.answers = unanswered(), [(401, b"")]
    counted()

    with calls.writes_nothing(), pytest.raises(KycUnavailable, match=r"^secret: GetParameterError$"):
        calls("VerifyKyc", other)

    assert counted() == {"StepCalled": 1, "KycSecretUnreadable": 1, "KycUnavailable": 1, "KycCircuit": 0}
    assert kyc.sent == [API_KEY, API_KEY]


@pytest.mark.parametrize(
    ("read", "seconds"),
    [
        (lambda: _secrets.read(CREDENTIALS, cache_seconds=_kyc.SECRET_CACHE_SECONDS)["api_key"], 60),
        (lambda: _secrets.signing_secrets()[0], 10),
    ],
)
def test_a_secret_is_cached_for_as_long_as_it_says_and_then_read_anew(
    secrets: Secrets, cached_until: Callable[[float], None], read: Callable[[], object], seconds: int
) -> None:
    first = read()
    secrets.content = {"api_key": NEW_API_KEY, "current": PREVIOUS}

    cached_until(seconds - 0.001)
    assert (read(), len(secrets.read)) == (first, 1)
    cached_until(seconds + 0.001)

    assert read() in (NEW_API_KEY, PREVIOUS)
    assert len(secrets.read) == 2


@on_one_engine
def test_a_failed_read_is_not_cached(calls: Calls, kyc: Stage, secrets: Secrets, counted: Counted) -> None:
    secrets.content = throttled("GetSecretValue")
    assert calls.decided(signed())[0] == 503
    secrets.content = READABLE
    counted()

    assert calls.decided(signed()) == (200, {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED"})

    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize(
    ("content", "active"),
    [
        (READABLE, [SECRET, PREVIOUS]),
        ({"current": SECRET, "previous": None}, [SECRET]),
        ({"current": SECRET}, [SECRET]),
        ({"previous": PREVIOUS}, [PREVIOUS]),
        ({"current": "", "previous": PREVIOUS}, [PREVIOUS]),
    ],
)
def test_the_current_secret_and_the_one_before_are_the_stage_s(
    secrets: Secrets, content: dict[str, Any], active: list[str]
) -> None:
    secrets.content = content

    assert _secrets.signing_secrets() == active
    assert secrets.read == [SIGNING]


@pytest.mark.parametrize("content", [{}, {"stolen": SECRET}, {"current": "", "previous": None}])
@on_one_engine
def test_a_secret_without_a_signing_key_is_counted_and_the_refusal_is_not_final(
    calls: Calls, secrets: Secrets, counted: Counted, content: dict[str, Any]
) -> None:
    secrets.content = content

    assert calls.decided(signed())[0] == 503

    assert counted() == {"StepCalled": 1, "KycUnavailable": 1, "KycSecretUnreadable": 1}


@pytest.mark.parametrize("current", ["whsec_", "bm90IGxvbmcgZW5vdWdo", "no base64!", 7])
@on_one_engine
def test_a_secret_that_cannot_sign_is_counted(
    calls: Calls, secrets: Secrets, counted: Counted, current: Any
) -> None:
    secrets.content = {"current": current}

    assert calls.decided(signed())[0] == 503

    assert counted() == {"StepCalled": 1, "KycUnavailable": 1, "KycSecretUnreadable": 1}


@pytest.mark.parametrize("content", [{}, {"api_key": ""}, {"api_key": 7}, {"api_key": "a\nb"}])
@on_one_engine
def test_an_invalid_api_key_is_counted(
    kyc: Stage, calls: Calls, secrets: Secrets, counted: Counted, content: dict[str, Any]
) -> None:
    secrets.content = content
    counted()

    with pytest.raises(KycUnavailable):
        calls("VerifyKyc")

    assert counted() == {"StepCalled": 1, "KycUnavailable": 1, "KycSecretUnreadable": 1}
