"""The claim: the owner of a key, its metrics, and a request without a key."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import IdempotencyConflict, InvalidRequest
from settlement.model.request import KEY as KEY_PATTERN
from tests.handlers.calls import CLAIMED_AT, KEY, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Starts

Later = Callable[..., None]

NAMELESS = {name: text for name, text in WIRE.items() if name != "key"}
FIRST = "arn:aws:states:eu-west-1:123456789012:execution:SettlementStandard:one"
SECOND = "arn:aws:states:eu-west-1:123456789012:execution:SettlementStandard:two"


@pytest.fixture
def optional(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make keys optional, as on a stage whose clients learn to mint keys."""
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, idempotency_key="optional"))


@pytest.mark.parametrize(
    ("execution", "owner_epoch", "outcome"),
    [
        ("execution-1", 0, "ClaimRepeated"),
        ("execution-1", 2, "ClaimTakenOver"),
        ("execution-2", 0, "IdempotencyReplay"),
        ("execution-2", 2, "IdempotencyReplay"),
    ],
)
def test_each_outcome_of_a_claim_is_counted_once_by_its_own_metric(
    calls: Calls, later: Later, counted: Counted, *, execution: str, owner_epoch: int, outcome: str
) -> None:
    calls("ClaimKey")
    calls.alter(owner_epoch=owner_epoch)
    later()
    counted()

    with calls.writes_nothing():
        result = calls("ClaimKey", execution=execution)

    assert counted() == {"StepCalled": 1, outcome: 1}
    assert result["replayed"] == (outcome == "IdempotencyReplay")


def test_the_first_claim_is_counted_as_one(calls: Calls, counted: Counted) -> None:
    calls("ClaimKey")

    assert counted() == {"StepCalled": 1, "Claimed": 1}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_each_new_owner_may_run_and_the_earlier_owners_may_not(
    calls: Calls, starts: Starts, later: Later, state: str
) -> None:
    calls.after(state)
    owners = ["execution-1"]

    for minutes in (1, 3, 10):
        later(minutes=minutes)
        calls.recover()
        owners.append(starts.names[-1])
        replays = [calls("ClaimKey", execution=owner)["replayed"] for owner in owners]
        assert replays == [True] * (len(owners) - 1) + [False]

    assert owners[1:] == [f"{KEY}-r1", f"{KEY}-r2", f"{KEY}-r3"]


def test_neither_the_compensating_execution_nor_an_earlier_owner_may_run_forward(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()

    with calls.writes_nothing():
        assert calls("ClaimKey")["replayed"]


def test_other_content_is_refused_after_a_recovery_too(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    calls.after("HoldFunds")
    later(minutes=1)
    calls.recover()
    counted()

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", WIRE | {"amount": "48.21"}, execution=f"{KEY}-r1")

    assert counted() == {"StepCalled": 1, "IdempotencyConflict": 1}


def test_a_deadline_is_content_like_any_other(calls: Calls) -> None:
    calls("ClaimKey", WIRE | {"deadline_seconds": 60})
    assert calls.row()["deadline_at"] == "2026-11-20T12:01:00.123Z"

    for other in (WIRE, WIRE | {"deadline_seconds": 61}, WIRE | {"deadline_seconds": 900}):
        with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
            calls("ClaimKey", other)
    assert not calls("ClaimKey", WIRE | {"deadline_seconds": 60})["replayed"]


@pytest.mark.parametrize("changed", [{"deadline_seconds": 60}, {"recover_after_seconds": 3_601}])
def test_a_settlement_with_a_named_deadline_ends_after_a_change_of_the_stage_config(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int]
) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    request = WIRE | {"deadline_seconds": 3_600}
    calls("ClaimKey", request)
    calls("HoldFunds", request)
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, **changed))
    later(minutes=2)
    calls.recover()
    ((_, owner, settlement),) = starts.made

    claimed = calls("ClaimKey", settlement, execution=owner)
    for state in ("VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(state, claimed["settlement"], execution=owner, claimed_at=CLAIMED_AT)

    assert calls.row()["status"] == "SETTLED"


def test_a_request_without_a_key_is_refused_if_keys_are_required(calls: Calls, counted: Counted) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^key: missing$"):
        calls("ClaimKey", NAMELESS, execution_arn=FIRST)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.usefixtures("optional")
def test_a_request_without_a_key_gets_one_if_keys_are_optional_and_is_counted(
    calls: Calls, counted: Counted, log: io.StringIO
) -> None:
    result = calls("ClaimKey", NAMELESS, execution_arn=FIRST)

    key = result["settlement"]["key"]
    assert key == "minted-" + hashlib.sha256(FIRST.encode()).hexdigest()[:32]
    assert KEY_PATTERN.fullmatch(key)
    assert result["settlement"] == WIRE | {"key": key}
    assert [row["pk"] for row in calls.ledger.rows()] == [f"SETTLEMENT#{key}"]
    assert counted() == {"StepCalled": 1, "Claimed": 1, "IdempotencyKeyMissing": 1}
    assert json.loads(log.getvalue().splitlines()[-1])["key"] == key


@pytest.mark.usefixtures("optional")
def test_a_retried_call_has_the_same_key_and_another_execution_another(calls: Calls) -> None:
    first = calls("ClaimKey", NAMELESS, execution_arn=FIRST)

    with calls.writes_nothing():
        assert calls("ClaimKey", NAMELESS, execution_arn=FIRST) == first
    second = calls("ClaimKey", NAMELESS, execution_arn=SECOND)

    assert second["settlement"]["key"] != first["settlement"]["key"]
    assert (len(calls.ledger.rows()), second["replayed"]) == (2, False)


@pytest.mark.usefixtures("optional")
def test_a_request_with_a_key_keeps_it_if_keys_are_optional(calls: Calls, counted: Counted) -> None:
    assert calls("ClaimKey", execution_arn=FIRST)["settlement"] == WIRE

    assert counted() == {"StepCalled": 1, "Claimed": 1}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.usefixtures("optional")
@pytest.mark.parametrize("key", [None, "", "short", 7])
def test_an_invalid_key_does_not_count_as_missing(calls: Calls, counted: Counted, key: Any) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^key: must be a string"):
        calls("ClaimKey", WIRE | {"key": key}, execution_arn=FIRST)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.usefixtures("optional")
@pytest.mark.parametrize("request_", [None, [], "48.20", 7])
def test_an_input_that_is_no_request_gets_no_key(calls: Calls, counted: Counted, request_: Any) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^request: must be a JSON object"):
        calls("ClaimKey", request_, execution_arn=FIRST)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.usefixtures("optional")
def test_a_minted_key_is_recovered_once_keys_have_become_required(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = calls("ClaimKey", NAMELESS, execution_arn=FIRST)["settlement"]["key"]
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, idempotency_key="required"))
    later(minutes=1)
    calls.recover()

    ((_, owner, settlement),) = starts.made
    claimed = calls("ClaimKey", settlement, execution=owner)

    assert (claimed["replayed"], claimed["settlement"]["key"]) == (False, key)
