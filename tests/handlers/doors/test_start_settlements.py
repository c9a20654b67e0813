import hashlib
import io
import json
import re
from contextlib import suppress
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core import telemetry
from settlement.core.model.errors import StoreUnavailable
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, NONCE, OTHER_CONTENT, WIRE, WITHOUT_FEE
from tests.world.services import Died, text, throttled, unanswered

NAMELESS = {name: value for name, value in WIRE.items() if name != "key"}
OTHER = WIRE | {"key": "order-2026-000102"}
LAST = WIRE | {"key": "order-2026-000103"}
MACHINE, STANDARD = "SettlementExpress", "SettlementStandard"


def owner(body: str, key: str = KEY) -> str:
    return f"{key}-{hashlib.sha256(body.encode()).hexdigest()[:12]}"


FIRST, SECOND = owner(text(WIRE)), owner(text(OTHER), OTHER["key"])


def test_a_message_claims_the_key_and_starts_its_owners_execution(calls: Calls) -> None:
    body = text(WITHOUT_FEE)

    assert calls.receive(body) == []

    assert calls.step_functions.started == [(MACHINE, owner(body), WIRE)]
    row = calls.row()
    assert (row["owner"], row["claimed_at"], row["status"]) == (owner(body), CLAIMED_AT, "PROCESSING")
    assert (calls.queues.sent, calls.counted()) == ([], {"StepCalled": 1, "Claimed": 1})
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    assert calls("HoldFunds", execution=owner(body))["settlement"] == WIRE


def test_only_a_settlement_named_in_the_configuration_is_traced(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"full": False, "keys": [OTHER["key"]]})

    assert calls.receive(text(WIRE), text(OTHER)) == []

    assert calls.step_functions.traced.keys() == {SECOND}
    assert re.fullmatch(r"Root=1-[0-9a-f]{8}-[0-9a-f]{24};Sampled=1", calls.step_functions.traced[SECOND])


def test_each_message_of_a_batch_gets_its_own_result(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.counted()
    good = [text(WIRE | {"key": f"order-2026-00020{number}"}) for number in range(3)]
    conflict, bad = text(OTHER_CONTENT[0]), text(OTHER | {"note": "x"})

    assert calls.receive(good[0], "no json", conflict, good[1], bad, good[2], text(WIRE), "[]") == []

    assert calls.step_functions.names == [owner(body, json.loads(body)["key"]) for body in good]
    assert [(sent["message_id"], sent["body"]) for sent in calls.queues.sent] == [
        ("m-1", "no json"),
        ("m-2", conflict),
        ("m-4", bad),
        ("m-7", "[]"),
    ]
    reasons = [
        "InvalidRequest: message: must be JSON: Expecting value",
        f"IdempotencyConflict: key: {KEY} was claimed by a request with other content",
        "InvalidRequest: note: unknown field",
        "InvalidRequest: request: must be a JSON object",
    ]
    for sent, reason in zip(calls.queues.sent, reasons, strict=True):
        assert sent["reason"].startswith(reason)
    assert calls.counted() == {"StepCalled": 1, "Claimed": 3, "StartRefused": 4, "IdempotencyReplay": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("", "message: must be JSON: Expecting value", id="nothing"),
        pytest.param("[" * 100_000, "message: must be nested at most 100 levels deep", id="deep nesting"),
        pytest.param(text(NAMELESS), "key: missing", id="no key"),
        pytest.param(text(WIRE | {"x" * 200_000: ""}), "x" * 40 + ": unknown field", id="200 kB of a name"),
    ],
)
def test_an_invalid_message_becomes_a_dead_letter_with_the_reason(
    calls: Calls, body: str, reason: str
) -> None:
    calls.change_config(idempotency_key="optional")  # a message needs its key in every stage

    with calls.writes_nothing():
        assert calls.receive(body) == []

    (sent,) = calls.queues.sent
    assert (sent["body"], sent["message_id"]) == (body, "m-0")
    assert sent["reason"].startswith(f"InvalidRequest: {reason}")
    assert (calls.step_functions.called, calls.counted()) == ([], {"StepCalled": 1, "StartRefused": 1})


@pytest.mark.parametrize("is_held", [False, True])
def test_a_redelivered_message_starts_again_only_before_the_hold(calls: Calls, is_held: bool) -> None:
    calls.before("HoldFunds")
    calls.receive(text(WIRE))
    if is_held:
        calls("HoldFunds", execution=FIRST)

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    assert (calls.step_functions.names, calls.queues.sent) == ([FIRST] if is_held else [FIRST, FIRST], [])


def test_the_same_request_in_different_json_text_is_a_replay(calls: Calls) -> None:
    calls.before("HoldFunds")
    calls("HoldFunds", OTHER)
    calls.counted()

    assert calls.receive(text(WIRE), json.dumps(WIRE, indent=2), text(OTHER)) == []

    assert (calls.step_functions.names, calls.queues.sent) == ([FIRST], [])
    assert calls.counted() == {"StepCalled": 1, "Claimed": 1, "IdempotencyReplay": 2}


def test_a_redelivered_message_does_not_replace_recoverys_execution(calls: Calls) -> None:
    calls.receive(text(WIRE))
    calls.later(minutes=1)
    calls.recover()

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    assert calls.step_functions.names == [FIRST, f"{KEY}-r1-{NONCE}"]


@pytest.mark.parametrize("claimed", [False, True])
def test_a_message_without_required_names_is_refused_unless_already_claimed(
    calls: Calls, claimed: bool
) -> None:
    if claimed:
        calls.after("HoldFunds")
    calls.change_config(party_names="required")

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    reasons = [] if claimed else ["InvalidRequest: payee_name: missing; payer_name: missing"]
    assert [sent["reason"] for sent in calls.queues.sent] == reasons
    assert calls.step_functions.called == []


def test_the_started_execution_gets_the_messages_names_and_deadline(calls: Calls) -> None:
    request: dict[str, Any] = WIRE | {"payer_name": "Alice", "payee_name": "Bob", "deadline_seconds": 60}

    calls.receive(text(request))

    assert calls.step_functions.started[0][2] == request


# Services that are unavailable


@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered()])
@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_message_whose_start_fails_is_redelivered_and_started_again(
    calls: Calls, failure: Exception, loses_answers: bool
) -> None:
    calls.step_functions.failing["start_execution"] = failure
    calls.step_functions.loses_answers = loses_answers
    assert calls.receive(text(WIRE), text(OTHER)) == ["m-0", "m-1"]
    assert calls.counted() == {"StepCalled": 1, "Claimed": 2, "StartUnavailable": 2}
    calls.step_functions.failing.clear()

    with calls.writes_nothing():
        assert calls.receive(text(WIRE), text(OTHER)) == []

    lost = [FIRST, SECOND] if loses_answers else []
    assert (calls.step_functions.names, calls.queues.sent) == ([*lost, FIRST, SECOND], [])


def test_recovery_starts_a_claimed_settlement_that_never_started(calls: Calls) -> None:
    calls.step_functions.failing["start_execution"] = Died()
    with suppress(Died):
        calls.receive(text(WIRE))
    calls.step_functions.failing.clear()
    calls.later(seconds=30)

    calls.recover()

    assert calls.step_functions.started == [(STANDARD, f"{KEY}-r1-{NONCE}", WIRE)]


@pytest.mark.parametrize("failure", [throttled("SendMessage"), unanswered()])
@pytest.mark.parametrize("body", ["no json", text(OTHER_CONTENT[0])])
def test_a_message_whose_dead_letter_fails_is_redelivered_alone(
    calls: Calls, failure: Exception, body: str
) -> None:
    """An unanswered SQS call counts only as QueueUnavailable, because FunctionFailed would page someone."""
    calls.after("HoldFunds")
    calls.counted()
    calls.queues.failure = failure
    assert calls.receive(body, text(OTHER)) == ["m-0"]
    assert (calls.step_functions.names, calls.queues.sent) == ([SECOND], [])
    assert {name: n for name, n in calls.counted().items() if name.endswith(("Unavailable", "Failed"))} == {
        "QueueUnavailable": 1
    }
    calls.queues.failure = None

    assert calls.receive(body) == []

    assert [sent["body"] for sent in calls.queues.sent] == [body]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("failure", "metric"),
    [(StoreUnavailable("DynamoDB: x"), "StoreUnavailable"), (ValueError("x"), "FunctionFailed")],
)
def test_a_message_whose_claim_fails_is_redelivered_without_stopping_others(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, failure: Exception, metric: str, after: bool
) -> None:
    claim = _dependencies.store.claim

    def fails(write: Any) -> Any:
        if write.parameters["Item"]["pk"] != f"SETTLEMENT#{KEY}":
            return claim(write)
        if after:
            claim(write)
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(_dependencies.store, "claim", fails)
        assert calls.receive(text(WIRE), text(OTHER)) == ["m-0"]
    assert calls.counted() == {"StepCalled": 1, "Claimed": 1, metric: 1}

    assert calls.receive(text(WIRE)) == []

    assert (calls.step_functions.names, calls.queues.sent) == ([SECOND, FIRST], [])


@pytest.mark.parametrize(
    ("left_ms", "failed"),
    [
        pytest.param([11_000, 11_000], [], id="enough"),
        pytest.param([11_000, 10_999], ["m-1"], id="enough for one"),
        pytest.param([10_999, 10_998], ["m-0", "m-1"], id="not enough"),
    ],
)
def test_a_message_without_time_left_is_redelivered_unprocessed(
    calls: Calls, left_ms: list[int], failed: list[str]
) -> None:
    assert calls.receive(text(WIRE), text(OTHER), left_ms=iter(left_ms)) == failed

    begun = [FIRST, SECOND][: 2 - len(failed)]
    assert (calls.step_functions.names, len(calls.ledger.rows())) == (begun, len(begun))
    assert calls.receive(text(WIRE), text(OTHER)) == []
    assert calls.step_functions.names == [*begun, FIRST, SECOND]


def test_each_log_line_has_the_key_of_its_own_message(
    calls: Calls, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"full": True})
    calls.after("HoldFunds")
    log.truncate(0)
    calls.step_functions.failing["start_execution"] = throttled("StartExecution")

    calls.receive(text(OTHER), text(NAMELESS), "no json", text(OTHER_CONTENT[0]), text(LAST))

    lines = [json.loads(line) for line in log.getvalue().strip("\0").splitlines()]
    told = [
        (line["message"], line["message_id"], line.get("key"), line["error"])
        for line in lines
        if "message_id" in line
    ]
    assert told == [
        ("not started", "m-0", OTHER["key"], "StartUnavailable"),
        ("refused", "m-1", None, "InvalidRequest"),
        ("refused", "m-2", None, "InvalidRequest"),
        ("refused", "m-3", KEY, "IdempotencyConflict"),
        ("not started", "m-4", LAST["key"], "StartUnavailable"),
    ]
    claims = [line["key"] for line in lines if line["message"] == "dynamodb"]
    assert claims == [OTHER["key"], KEY, LAST["key"]]
