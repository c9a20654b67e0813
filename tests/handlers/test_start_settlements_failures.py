"""StartSettlements: a message that meets an unavailable service is received again or recovered."""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import StoreUnavailable
from settlement.model.state import SettlementState
from tests.handlers.calls import KEY, OTHER_CONTENT, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Died, Queues, Starts, text, throttled, unanswered
from tests.handlers.test_start_settlements import NAMELESS, OTHER, owner

Later = Callable[..., None]

LAST = WIRE | {"key": "order-2026-000103"}


@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered()])
@pytest.mark.parametrize("loses_answers", [False, True])
def test_a_message_whose_start_fails_is_received_again_and_started_once(
    calls: Calls, starts: Starts, queues: Queues, failure: Exception, loses_answers: bool
) -> None:
    starts.failure, starts.loses_answers = failure, loses_answers
    assert calls.receive(text(WIRE), text(OTHER)) == ["m-0", "m-1"]
    assert calls.row()["owner"] == owner(text(WIRE))
    starts.failure = None

    with calls.writes_nothing():
        assert calls.receive(text(WIRE), text(OTHER)) == []

    assert starts.names == [owner(text(WIRE)), owner(text(OTHER), OTHER["key"])]
    assert queues.sent == []


@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered(), Died()])
def test_a_settlement_that_was_claimed_and_never_started_is_recovered_without_a_second_delivery(
    calls: Calls, starts: Starts, queues: Queues, later: Later, failure: BaseException
) -> None:
    starts.failure = failure
    with suppress(Died):
        calls.receive(text(WIRE))
    starts.failure = None
    later(seconds=30)

    calls.recover()

    assert starts.made == [("SettlementStandard", f"{KEY}-r1", WIRE)]


@pytest.mark.parametrize("failure", [throttled("SendMessage"), unanswered()])
@pytest.mark.parametrize("body", ["no json", text(OTHER_CONTENT[0])])
def test_a_message_that_cannot_become_a_dead_letter_is_received_again_and_the_others_are_started(
    calls: Calls, starts: Starts, queues: Queues, failure: Exception, body: str
) -> None:
    calls("ClaimKey")
    queues.failure = failure
    assert calls.receive(body, text(OTHER)) == ["m-0"]
    assert (starts.names, queues.sent) == ([owner(text(OTHER), OTHER["key"])], [])
    queues.failure = None

    assert calls.receive(body) == []

    assert [sent["body"] for sent in queues.sent] == [body]


def failing(monkeypatch: pytest.MonkeyPatch, key: str, failure: Exception, *, after: bool) -> None:
    """Make the claim of one key fail, before or after it has committed."""
    claim = _dependencies.store.claim

    def fails(write: Any) -> SettlementState:
        if write.parameters["Item"]["pk"] != f"SETTLEMENT#{key}":
            return claim(write)
        if after:
            claim(write)
        raise failure

    monkeypatch.setattr(_dependencies.store, "claim", fails)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("failure", [StoreUnavailable("DynamoDB: x"), throttled("PutItem"), ValueError("x")])
def test_a_message_whose_claim_gets_no_answer_is_received_again_and_the_others_are_started(
    calls: Calls,
    starts: Starts,
    queues: Queues,
    monkeypatch: pytest.MonkeyPatch,
    *,
    failure: Exception,
    after: bool,
) -> None:
    claim = _dependencies.store.claim
    failing(monkeypatch, KEY, failure, after=after)
    assert calls.receive(text(WIRE), text(OTHER)) == ["m-0"]
    assert starts.names == [owner(text(OTHER), OTHER["key"])]
    monkeypatch.setattr(_dependencies.store, "claim", claim)

    assert calls.receive(text(WIRE)) == []

    assert starts.names[1:] == [owner(text(WIRE))]
    assert queues.sent == []


@pytest.mark.parametrize(
    ("failure", "metric"),
    [(StoreUnavailable("DynamoDB: x"), "StoreUnavailable"), (ValueError("x"), "FunctionFailed")],
)
def test_a_message_that_fails_is_counted_and_logged_as_a_call_that_fails_is(
    calls: Calls,
    starts: Starts,
    queues: Queues,
    counted: Counted,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    *,
    failure: Exception,
    metric: str,
) -> None:
    failing(monkeypatch, KEY, failure, after=False)

    calls.receive(text(WIRE), text(OTHER))

    assert counted() == {"StepCalled": 1, "Claimed": 1, metric: 1}
    assert type(failure).__name__ in log.getvalue()


def test_a_start_that_fails_is_counted_and_logged_as_a_call_that_fails_is(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted, log: io.StringIO
) -> None:
    starts.failure = throttled("StartExecution")

    calls.receive(text(WIRE))

    assert counted() == {"StepCalled": 1, "Claimed": 1, "StartUnavailable": 1}
    assert "StartUnavailable" in log.getvalue()


def test_a_whole_batch_that_fails_is_reported_message_by_message(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    starts.failure = throttled("StartExecution")
    bodies = [text(WIRE | {"key": f"order-2026-00020{number}"}) for number in range(10)]

    assert calls.receive(*bodies) == [f"m-{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("left_ms", "failed", "started"),
    [
        pytest.param([11_000, 11_000], [], ["m-0", "m-1"], id="enough"),
        pytest.param([11_000, 10_999], ["m-1"], ["m-0"], id="enough for one"),
        pytest.param([10_999, 10_998], ["m-0", "m-1"], [], id="not enough"),
    ],
)
def test_a_message_for_which_no_time_is_left_is_received_again_and_not_begun(
    calls: Calls,
    *,
    starts: Starts,
    queues: Queues,
    counted: Counted,
    left_ms: list[int],
    failed: list[str],
    started: list[str],
) -> None:
    names = [owner(text(WIRE)), owner(text(OTHER), OTHER["key"])][: len(started)]

    assert calls.receive(text(WIRE), text(OTHER), left_ms=iter(left_ms)) == failed

    assert (starts.names, len(calls.ledger.rows())) == (names, len(started))
    times = {"Claimed": len(started), "StartUnavailable": len(failed)}
    assert counted() == {"StepCalled": 1} | {name: number for name, number in times.items() if number}
    assert calls.receive(text(WIRE), text(OTHER)) == []
    assert starts.names == [owner(text(WIRE)), owner(text(OTHER), OTHER["key"])]


def test_each_line_of_the_log_carries_the_key_of_its_own_message(
    calls: Calls, starts: Starts, queues: Queues, log: io.StringIO
) -> None:
    calls("ClaimKey")
    log.truncate(0)
    starts.failure = throttled("StartExecution")

    calls.receive(text(OTHER), text(NAMELESS), "no json", text(OTHER_CONTENT[0]), text(LAST))

    lines = [json.loads(line) for line in log.getvalue().strip("\0").splitlines()]
    refused = [(line["message_id"], line.get("key")) for line in lines if line["message"] == "refused"]
    assert refused == [("m-1", None), ("m-2", None), ("m-3", KEY)]
    failed = [(line["message_id"], line.get("key")) for line in lines if line["message"] == "not started"]
    assert failed == [("m-0", OTHER["key"]), ("m-4", LAST["key"])]
    claims = [line["key"] for line in lines if line["message"] == "dynamodb"]
    assert claims == [OTHER["key"], KEY, LAST["key"]]


def test_no_payload_is_logged_at_any_end_of_a_message(
    calls: Calls, starts: Starts, queues: Queues, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    marked = WIRE | {"payer": "canary-payer", "payee": "canary-payee", "amount": "66391826047.31"}
    calls("ClaimKey")
    other = marked | {"key": OTHER["key"]}
    bodies = [text(marked), text(other), text(other | {"note": "canary-note"}), "canary-text"]

    calls.receive(*bodies)
    queues.failure, starts.failure = throttled("SendMessage"), throttled("StartExecution")
    calls.receive(*bodies)

    told = log.getvalue() + "".join(capfd.readouterr())
    assert "canary" not in told
    assert "66391826047" not in told
