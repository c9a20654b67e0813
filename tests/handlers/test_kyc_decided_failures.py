"""KycDecided: the provider's next call repairs a call that failed half way; secrets may be rotated."""

import base64
import hashlib
import hmac
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parameters import base as parameters
from botocore.exceptions import EndpointConnectionError

from settlement.model.errors import StoreUnavailable
from tests.handlers.calls import KEY, WIRE, Calls
from tests.handlers.stand_ins import (
    OWNER,
    PREVIOUS,
    SECRET,
    THIRD,
    Caller,
    Died,
    Secrets,
    Starts,
    signed,
    throttled,
    unanswered,
)

ACCEPTED = (200, {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED"})
STARTED = ("SettlementStandard", OWNER, WIRE)
OF_NO_KEY = "whsec_"
SIGNING_CACHE_SECONDS = 10
"""The time after which a rotated secret is in use."""


def pass_time(monkeypatch: pytest.MonkeyPatch, **by: float) -> None:
    """Move the clock of the secrets' cache."""
    moved = SimpleNamespace(now=lambda: datetime.now() + timedelta(**by))
    monkeypatch.setattr(parameters, "datetime", moved)


def test_the_next_call_starts_the_execution_if_the_function_died_after_its_commit(
    in_review: Calls, starts: Starts
) -> None:
    starts.failure = Died()
    with pytest.raises(Died):
        in_review.decided(signed())
    assert in_review.row()["verdict"] == "APPROVED"
    starts.failure = None

    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED

    assert starts.made == [STARTED]


def test_a_function_that_dies_before_the_commit_leaves_nothing(
    in_review: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(writes: Any) -> None:
        raise Died

    with monkeypatch.context() as patch, in_review.writes_nothing():
        patch.setattr(in_review.ledger.store.__class__, "transact", lambda self, writes: die(writes))
        with pytest.raises(Died):
            in_review.decided(signed())

    assert in_review.decided(signed()) == ACCEPTED
    assert starts.made == [STARTED]


@pytest.mark.parametrize(
    "failure",
    [throttled("StartExecution"), unanswered(), EndpointConnectionError(endpoint_url="https://x.invalid")],
)
def test_a_failed_start_is_reported_and_the_next_call_starts(
    in_review: Calls, starts: Starts, failure: Exception
) -> None:
    starts.failure = failure

    status, content = in_review.decided(signed())

    assert (status, content["error"]) == (503, "StartUnavailable")
    assert content["message"] == f"{OWNER}: not started: {type(failure).__name__}"
    assert in_review.row()["verdict"] == "APPROVED"
    starts.failure = None
    with in_review.writes_nothing():
        assert in_review.decided(signed()) == ACCEPTED
    assert starts.made == [STARTED]


@pytest.mark.parametrize("operation", ["read", "transact"])
def test_an_unavailable_table_is_reported_and_nothing_is_started(
    in_review: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def fail(*_: Any) -> None:
        raise StoreUnavailable("DynamoDB: ReadTimeoutError")

    with monkeypatch.context() as patch:
        patch.setattr(in_review.ledger.store.__class__, operation, fail)
        answer = in_review.decided(signed())

    assert answer == (503, {"error": "StoreUnavailable", "message": "DynamoDB: ReadTimeoutError"})
    assert starts.asked == 0
    assert in_review.decided(signed()) == ACCEPTED


def test_of_two_concurrent_calls_one_writes_and_both_get_the_same_answer(
    in_review: Calls, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, answers = in_review.ledger.store, []
    transact = store.transact

    def twin_first(writes: Any) -> None:
        monkeypatch.setattr(store.__class__, "transact", lambda self, writes: transact(writes))
        answers.append(in_review.decided(signed()))
        with in_review.writes_nothing():
            transact(writes)

    monkeypatch.setattr(store.__class__, "transact", lambda self, writes: twin_first(writes))

    with pytest.warns(UserWarning, match="No application metrics"):  # the twin has published all of them
        answers.append(in_review.decided(signed()))

    assert answers == [ACCEPTED, ACCEPTED]
    assert starts.made == [STARTED]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("failure", [throttled("GetSecretValue"), unanswered(), "no JSON", "[]"])
def test_an_unreadable_secret_is_reported_and_nothing_is_written(
    in_review: Calls, secrets: Secrets, starts: Starts, failure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, secrets.content = secrets.content, failure

    with in_review.writes_nothing():
        status, content = in_review.decided(signed())

    assert (status, content["error"], starts.asked) == (503, "KycUnavailable", 0)
    assert "canary" not in content["message"]
    secrets.content = kept
    pass_time(monkeypatch, seconds=SIGNING_CACHE_SECONDS + 1)
    assert in_review.decided(signed()) == ACCEPTED


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    ("content", "secret", "status"),
    [
        ({"current": SECRET, "previous": PREVIOUS}, SECRET, 200),
        ({"current": SECRET, "previous": PREVIOUS}, PREVIOUS, 200),
        ({"current": SECRET, "previous": PREVIOUS}, THIRD, 401),
        ({"current": SECRET, "previous": None}, SECRET, 200),
        ({"current": SECRET, "previous": None}, PREVIOUS, 401),
        ({"current": SECRET, "previous": ""}, SECRET, 200),
        ({"current": SECRET}, SECRET, 200),
        ({"current": SECRET, "stolen": THIRD}, THIRD, 401),
        ({"current": SECRET.removeprefix("whsec_")}, SECRET, 200),
    ],
)
def test_the_two_secrets_of_the_stage_are_accepted_and_no_third_is(
    in_review: Calls, secrets: Secrets, content: dict[str, str], secret: str, status: int
) -> None:
    secrets.content = content

    assert in_review.decided(replace(signed, secret=secret)())[0] == status


class OfNoKey(Caller):
    """Sign with the empty key, as any caller can; the library itself refuses to do it."""

    def __call__(self, body: Any = None, **more: Any) -> dict[str, Any]:
        event = super().__call__(body, **more)
        headers = event["headers"]
        signed_text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{event['body']}"
        digest = hmac.digest(b"", signed_text.encode(), hashlib.sha256)
        headers["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
        return event


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    "content", [{"current": SECRET, "previous": OF_NO_KEY}, {"current": OF_NO_KEY, "previous": None}]
)
def test_a_secret_without_a_key_is_no_secret(
    in_review: Calls, secrets: Secrets, starts: Starts, content: dict[str, Any]
) -> None:
    secrets.content = content

    with in_review.writes_nothing():
        status, content = in_review.decided(OfNoKey()())

    assert (status, content["error"], starts.asked) == (503, "KycUnavailable", 0)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("broken", [7, ["whsec_"], {"a": 1}, "whsec_%%%", "canary-\u00e9", True])
def test_an_unusable_secret_is_answered_and_does_not_crash(
    in_review: Calls, secrets: Secrets, starts: Starts, broken: Any
) -> None:
    secrets.content = {"current": broken, "previous": None}

    with in_review.writes_nothing():
        status, content = in_review.decided(signed())

    assert (status, content["error"], starts.asked) == (503, "KycUnavailable", 0)
    assert "canary" not in content["message"]


def test_a_rotated_secret_is_read_once_the_cache_has_run_out(
    in_review: Calls, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_review.decided(signed())
    secrets.content = {"current": THIRD, "previous": SECRET}
    rotated = replace(signed, secret=THIRD)()

    assert in_review.decided(rotated)[0] == 401
    assert len(secrets.read) == 1
    pass_time(monkeypatch, seconds=SIGNING_CACHE_SECONDS + 1)

    assert in_review.decided(rotated) == ACCEPTED
    assert in_review.decided(signed()) == ACCEPTED
    assert len(secrets.read) == 2


def test_a_secret_that_was_withdrawn_is_refused_once_the_cache_has_run_out(
    in_review: Calls, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_review.decided(signed())
    secrets.content = {"current": THIRD, "previous": None}
    pass_time(monkeypatch, seconds=SIGNING_CACHE_SECONDS + 1)

    assert in_review.decided(signed())[0] == 401
