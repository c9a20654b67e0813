"""ClaimKey is the idempotency check: one execution with one content runs, every other one learns why not."""

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest
from settlement.model.status import Status
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, KEY, SETTLEMENT_ARN, WIRE, WITHOUT_FEE
from tests.world.functions import Calls
from tests.world.step_functions import StepFunctions

ADMITTED = {"settlement": WIRE, "claimed_at": CLAIMED_AT, "replayed": False, "owner_epoch": 0}
NAMELESS = {name: text for name, text in WIRE.items() if name != "key"}
"""A request without a key."""

FIRST, SECOND = f"{SETTLEMENT_ARN}:one", f"{SETTLEMENT_ARN}:two"
NAMED = WIRE | {"payer_name": "Alice Muster", "payee_name": "Bob Muster"}


@pytest.fixture
def optional_keys(change_config: Callable[..., None]) -> None:
    """Make keys optional, as on a stage whose clients learn to mint keys."""
    change_config(idempotency_key="optional")


def test_the_first_call_claims_the_key_for_its_execution(calls: Calls, counted: Counted) -> None:
    assert calls("ClaimKey") == ADMITTED

    (row,) = calls.ledger.rows()
    assert (row["status"], row["owner"], row["claimed_at"]) == ("PROCESSING", "execution-1", CLAIMED_AT)
    assert counted() == {"StepCalled": 1, "Claimed": 1}


@pytest.mark.parametrize(
    ("execution", "owner_epoch", "metric"),
    [
        ("execution-1", 0, "ClaimRepeated"),
        ("execution-1", 2, "ClaimTakenOver"),
        ("execution-2", 0, "IdempotencyReplay"),
        ("execution-2", 2, "IdempotencyReplay"),
    ],
)
def test_only_the_owner_runs_the_settlement_and_each_outcome_has_its_metric(
    calls: Calls, later: Later, counted: Counted, *, execution: str, owner_epoch: int, metric: str
) -> None:
    calls("ClaimKey")
    calls.alter(owner_epoch=owner_epoch)
    later()
    counted()

    with calls.writes_nothing():
        result = calls("ClaimKey", execution=execution)

    assert result == ADMITTED | {"owner_epoch": owner_epoch, "replayed": execution == "execution-2"}
    assert counted() == {"StepCalled": 1, metric: 1}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_no_execution_runs_a_settlement_that_is_past_processing(calls: Calls, status: Status) -> None:
    calls("ClaimKey")
    calls.alter(status=status)

    with calls.writes_nothing():
        assert calls("ClaimKey") == ADMITTED | {"replayed": True}


@pytest.mark.parametrize("state", ["ClaimKey", "ReleaseFunds"])
def test_each_new_owner_may_run_and_the_earlier_owners_may_not(
    calls: Calls, step_functions: StepFunctions, later: Later, state: str
) -> None:
    calls.after(state)
    owners = ["execution-1"]

    for minutes in (1, 3):
        later(minutes=minutes)
        calls.recover()
        owners.append(step_functions.names[-1])
        replays = [calls("ClaimKey", execution=owner)["replayed"] for owner in owners]
        assert replays == [True] * (len(owners) - 1) + [False]


def test_an_omitted_fee_is_the_claimed_one_and_not_the_schedules(calls: Calls) -> None:
    calls("ClaimKey", WIRE | {"fee": "1.00"})

    with calls.writes_nothing():
        assert calls("ClaimKey", WITHOUT_FEE) == ADMITTED | {"settlement": WIRE | {"fee": "1.00"}}


def test_a_new_request_without_a_fee_gets_the_scheduled_one(calls: Calls) -> None:
    assert calls("ClaimKey", WITHOUT_FEE) == ADMITTED


# A request without a key


def test_a_request_without_a_key_is_refused_if_keys_are_required(calls: Calls, counted: Counted) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^key: missing$"):
        calls("ClaimKey", NAMELESS, execution_arn=FIRST)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.usefixtures("optional_keys")
def test_a_request_without_a_key_gets_one_of_its_execution_if_keys_are_optional(
    calls: Calls, counted: Counted, log: io.StringIO
) -> None:
    first = calls("ClaimKey", NAMELESS, execution_arn=FIRST)

    key = "minted-" + hashlib.sha256(FIRST.encode()).hexdigest()[:32]
    assert first == ADMITTED | {"settlement": WIRE | {"key": key}}
    assert [row["pk"] for row in calls.ledger.rows()] == [f"SETTLEMENT#{key}"]
    assert counted() == {"StepCalled": 1, "Claimed": 1, "IdempotencyKeyMissing": 1}
    assert json.loads(log.getvalue().splitlines()[-1])["key"] == key
    with calls.writes_nothing():
        assert calls("ClaimKey", NAMELESS, execution_arn=FIRST) == first
    assert calls("ClaimKey", NAMELESS, execution_arn=SECOND)["settlement"]["key"] != key


@pytest.mark.usefixtures("optional_keys")
@pytest.mark.parametrize("request_", [WIRE | {"key": None}, WIRE | {"key": ""}, None, "48.20"], ids=repr)
def test_an_invalid_request_gets_no_key(calls: Calls, counted: Counted, request_: Any) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest):
        calls("ClaimKey", request_, execution_arn=FIRST)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.usefixtures("optional_keys")
def test_a_request_with_a_key_keeps_it_if_keys_are_optional(calls: Calls, counted: Counted) -> None:
    assert calls("ClaimKey", execution_arn=FIRST) == ADMITTED

    assert counted() == {"StepCalled": 1, "Claimed": 1}


# The parties' names, required of new claims alone


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, "payee_name: missing; payer_name: missing"),
        ({"payer_name": "Alice Muster"}, "payee_name: missing"),
        ({"payee_name": "Bob Muster"}, "payer_name: missing"),
    ],
)
def test_a_stage_that_requires_names_refuses_a_new_claim_without_them(
    calls: Calls, change_config: Callable[..., None], names: dict[str, str], message: str
) -> None:
    change_config(party_names="required")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=f"^{message}$"):
        calls("ClaimKey", WIRE | names)


def test_names_are_claimed_and_carried_on_in_their_canonical_form(
    calls: Calls, change_config: Callable[..., None]
) -> None:
    change_config(party_names="required")

    assert calls("ClaimKey", NAMED | {"payer_name": " Alice Muster "})["settlement"] == NAMED

    assert (calls.row()["payer_name"], calls.row()["payee_name"]) == ("Alice Muster", "Bob Muster")


def test_a_key_that_was_claimed_without_names_resumes_and_replays_on_a_stage_that_requires_them(
    calls: Calls, change_config: Callable[..., None], counted: Counted
) -> None:
    """Recovery and the webhook start executions with the claimed content: refused, money would stay held."""
    calls("ClaimKey")
    change_config(party_names="required")
    counted()

    with calls.writes_nothing():
        assert calls("ClaimKey") == ADMITTED
        assert calls("ClaimKey", execution="execution-2") == ADMITTED | {"replayed": True}
        for other in (WIRE | {"amount": "48.21"}, NAMED):  # the first request was not screened by these names
            with pytest.raises(IdempotencyConflict):
                calls("ClaimKey", other)

    assert counted() == {"StepCalled": 4, "Claimed": 1, "IdempotencyReplay": 1, "IdempotencyConflict": 2}


def test_a_deadline_is_content_like_any_other(calls: Calls) -> None:
    calls("ClaimKey", WIRE | {"deadline_seconds": 60})

    assert calls.row()["deadline_at"] == "2026-11-20T12:01:00.123Z"
    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=f"^key: {KEY} was claimed"):
        calls("ClaimKey")
