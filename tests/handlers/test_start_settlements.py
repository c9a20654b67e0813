"""StartSettlements: a message is claimed and started once, or becomes a dead letter with the reason."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import IdempotencyConflict
from tests.handlers.calls import CLAIMED_AT, KEY, OTHER_CONTENT, WIRE, WITHOUT_FEE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Queues, Starts, text

Later = Callable[..., None]

NAMELESS = {name: value for name, value in WIRE.items() if name != "key"}
OTHER = WIRE | {"key": "order-2026-000102"}


def owner(body: str, key: str = KEY) -> str:
    return f"{key}-{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def test_a_message_is_claimed_and_started_under_the_name_that_owns_it(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted
) -> None:
    body = text(WITHOUT_FEE)

    assert calls.receive(body) == []

    assert starts.made == [("SettlementStandard", owner(body), WIRE)]
    row = calls.row()
    assert (row["owner"], row["claimed_at"], row["status"]) == (owner(body), CLAIMED_AT, "PROCESSING")
    assert (queues.sent, counted()) == ([], {"StepCalled": 1, "Claimed": 1})


def test_the_started_execution_runs_the_settlement_that_was_claimed_for_it(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    calls.receive(text(WIRE))
    ((_, name, settlement),) = starts.made

    claimed = calls("ClaimKey", settlement, execution=name)
    assert not claimed["replayed"]
    for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(state, claimed["settlement"], execution=name, claimed_at=claimed["claimed_at"])

    assert calls.row()["status"] == "SETTLED"
    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []
    assert len(starts.made) == 1


@pytest.mark.parametrize("length", [16, 64])
def test_the_longest_key_too_makes_a_name_that_step_functions_takes(
    calls: Calls, starts: Starts, queues: Queues, length: int
) -> None:
    calls.receive(text(WIRE | {"key": "k" * length}))

    assert len(starts.names[0]) == length + 13 <= 80


def test_a_batch_of_good_bad_and_conflicting_messages_has_each_its_own_outcome(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted
) -> None:
    calls("ClaimKey")
    counted()
    good = [text(WIRE | {"key": f"order-2026-00020{number}"}) for number in range(5)]
    conflict, bad = text(OTHER_CONTENT[0]), text(OTHER | {"note": "x"})
    bodies = [*good[:2], "no json", good[2], conflict, good[3], bad, good[4], text(WIRE), "[]"]

    assert calls.receive(*bodies) == []

    assert starts.names == [owner(body, json.loads(body)["key"]) for body in good]
    aside = [(sent["message_id"], sent["body"], sent["reason"].partition(":")[0]) for sent in queues.sent]
    assert aside == [
        ("m-2", "no json", "InvalidRequest"),
        ("m-4", conflict, "IdempotencyConflict"),
        ("m-6", bad, "InvalidRequest"),
        ("m-9", "[]", "InvalidRequest"),
    ]
    assert counted() == {"StepCalled": 1, "Claimed": 5, "StartRefused": 4, "IdempotencyReplay": 1}


NOT_FIT = [
    pytest.param("", "message: must be a request in JSON", id="nothing"),
    pytest.param("{", "message: must be a request in JSON", id="broken JSON"),
    pytest.param("[" * 100_000, "message: must be a request in JSON", id="deep nesting"),
    pytest.param('{"amount":' + "9" * 5_000 + "}", "message: must be a request in JSON", id="a long number"),
    pytest.param("\ufeff" + text(WIRE), "message: must be a request in JSON", id="a byte order mark"),
    pytest.param("null", "request: must be a JSON object", id="null"),
    pytest.param("NaN", "request: must be a JSON object", id="NaN"),
    pytest.param(text([WIRE]), "request: must be a JSON object", id="a list"),
    pytest.param(text(text(WIRE)), "request: must be a JSON object", id="JSON in a text"),
    pytest.param(
        text(WIRE).replace('"48.20"', "NaN"), "amount: must be a decimal string", id="NaN as amount"
    ),
    pytest.param(text(WIRE | {"amount": 48.2}), "amount: must be a decimal string", id="a number as amount"),
    pytest.param(text(NAMELESS), "key: missing", id="no key"),
    pytest.param(text(WIRE | {"deadline_seconds": 29}), "deadline_seconds: must be", id="a short deadline"),
    pytest.param(text(WIRE | {"x" * 200_000: ""}), "x" * 40 + ": unknown field", id="200 kB of a name"),
    pytest.param(text(WIRE | {"payer": "a" * 200_000}), "payer: must be a string", id="200 kB of an account"),
    pytest.param(
        text(WIRE | {f"f{number}": 1 for number in range(9_000)}), "f0: unknown field", id="9,000 fields"
    ),
]


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("body", "reason"), NOT_FIT)
def test_a_message_that_breaks_the_contract_becomes_a_dead_letter_with_the_reason(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted, *, body: str, reason: str
) -> None:
    with calls.writes_nothing():
        assert calls.receive(body) == []

    (sent,) = queues.sent
    assert (sent["body"], sent["message_id"]) == (body, "m-0")
    assert sent["reason"].startswith("InvalidRequest: ")
    assert reason in sent["reason"]
    assert len(sent["reason"]) < 2_000
    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "StartRefused": 1})


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_a_key_is_refused_to_a_message_of_other_content(
    calls: Calls, starts: Starts, queues: Queues, other: dict[str, str]
) -> None:
    calls.receive(text(WIRE))

    with calls.writes_nothing():
        assert calls.receive(text(other)) == []

    assert [sent["reason"] for sent in queues.sent] == [
        f"IdempotencyConflict: key: {KEY} was claimed by a request with other content"
    ]
    assert starts.names == [owner(text(WIRE))]


@pytest.mark.parametrize("times", [1, 2])
def test_a_message_that_comes_again_starts_nothing_twice(
    calls: Calls, starts: Starts, queues: Queues, times: int
) -> None:
    calls.receive(text(WIRE))

    with calls.writes_nothing():
        assert calls.receive(*[text(WIRE)] * times) == []

    assert starts.names == [owner(text(WIRE))]


def test_the_same_request_in_other_white_space_is_a_replay(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted
) -> None:
    bodies = [text(WIRE), json.dumps(WIRE, indent=2), text(WIRE | {"amount": "48.2"})]

    assert calls.receive(*bodies) == []

    assert starts.names == [owner(bodies[0])]
    assert (queues.sent, counted()) == ([], {"StepCalled": 1, "Claimed": 1, "IdempotencyReplay": 2})


def test_a_settlement_that_an_execution_has_claimed_is_not_started_by_a_message(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    calls("ClaimKey")

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    assert (starts.asked, queues.sent, calls.row()["owner"]) == (0, [], "execution-1")


def test_a_message_that_comes_again_after_a_recovery_does_not_take_it_back(
    calls: Calls, starts: Starts, queues: Queues, later: Later
) -> None:
    calls.receive(text(WIRE))
    later(minutes=1)
    calls.recover()

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    assert starts.names == [owner(text(WIRE)), f"{KEY}-r1"]


@pytest.mark.parametrize("keys", ["optional", "required"])
def test_a_message_without_a_key_becomes_a_dead_letter_in_every_stage(
    calls: Calls, starts: Starts, queues: Queues, counted: Counted, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, idempotency_key=keys))

    with calls.writes_nothing():
        assert calls.receive(text(NAMELESS), text(NAMELESS)) == []

    reason = "InvalidRequest: key: missing"
    assert [(sent["message_id"], sent["reason"]) for sent in queues.sent] == [
        ("m-0", reason),
        ("m-1", reason),
    ]
    assert (starts.asked, counted()) == (0, {"StepCalled": 1, "StartRefused": 2})


def test_a_dead_letter_that_is_sent_back_starts_no_second_execution(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    conflict = text(OTHER_CONTENT[0])
    calls.receive(text(WIRE), conflict)

    with calls.writes_nothing():
        assert calls.receive(*[sent["body"] for sent in queues.sent]) == []

    assert (starts.names, len(queues.sent)) == ([owner(text(WIRE))], 2)


def test_the_key_that_a_conflict_names_is_not_started_by_it(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    calls.receive(text(OTHER_CONTENT[0]), text(WIRE))

    assert starts.names == [owner(text(OTHER_CONTENT[0]))]
    with pytest.raises(IdempotencyConflict):
        calls("ClaimKey", WIRE)


def test_a_deadline_that_a_message_names_is_the_settlements(
    calls: Calls, starts: Starts, queues: Queues
) -> None:
    request: dict[str, Any] = WIRE | {"deadline_seconds": 60}

    calls.receive(text(request))

    assert (starts.made[0][2], calls.row()["deadline_at"]) == (request, "2026-11-20T12:01:00.123Z")
