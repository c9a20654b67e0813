"""HoldFunds lets one execution of a key run, and gives all others the reason."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import (
    AlreadyClaimed,
    IdempotencyConflict,
    InsufficientFunds,
    InvalidRequest,
    StoreUnavailable,
)
from tests.handlers.conftest import HELD, Calls
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, REPLAYED, SETTLEMENT_ARN, WIRE, WITHOUT_FEE
from tests.world.rooms import needs
from tests.world.services import Died

NAMELESS = {name: text for name, text in WIRE.items() if name != "key"}

FIRST, SECOND = f"{SETTLEMENT_ARN}:one", f"{SETTLEMENT_ARN}:two"
NAMED = WIRE | {"payer_name": "Alice Muster", "payee_name": "Bob Muster"}
REFUSED = {"Error": "InsufficientFunds", "Cause": '{"errorMessage": "payer: has too little"}'}


@pytest.fixture
def optional_keys(change_config: Callable[..., None]) -> None:
    change_config(idempotency_key="optional")


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except AlreadyClaimed:
        return True
    return False


# The owner


@pytest.mark.parametrize("owner_epoch", [0, 2])
def test_a_repeated_call_of_the_owner_returns_the_same_hold(funded: Calls, owner_epoch: int) -> None:
    funded("HoldFunds")
    funded.alter(owner_epoch=owner_epoch)
    funded.later()
    funded.counted()

    with funded.writes_nothing():
        assert funded("HoldFunds") == HELD | {"owner_epoch": owner_epoch}

    metric = "ClaimTakenOver" if owner_epoch else "ClaimRepeated"
    assert funded.counted() == {"StepCalled": 1, metric: 1}


@pytest.mark.parametrize("failure", [Died(), StoreUnavailable("DynamoDB: ReadTimeoutError")], ids=repr)
def test_a_retry_finds_a_commit_without_answer_and_moves_nothing(
    funded: Calls, failure: BaseException
) -> None:
    with funded.fails("transact", failure, after=True), pytest.raises(type(failure)):
        funded("HoldFunds")
    assert funded.account("alice")["available"] == 5180
    funded.later(minutes=20)  # the answer does not change after the deadline

    with funded.writes_nothing():
        assert funded("HoldFunds") == HELD

    assert (funded.row()["escrow"], funded.row()["hold_at"]) == (4820, CLAIMED_AT)


@pytest.mark.parametrize("owner_epoch", [0, 2])
@pytest.mark.parametrize("claimed", [False, True])
def test_another_execution_cannot_run_a_claimed_settlement(
    calls: Calls, owner_epoch: int, claimed: bool
) -> None:
    if claimed:
        calls.claimed()
    else:
        calls.after("HoldFunds")
    calls.alter(owner_epoch=owner_epoch)
    calls.counted()

    message = f"^key: {KEY} is PROCESSING, and not for this execution to run$"
    with calls.writes_nothing(), pytest.raises(AlreadyClaimed, match=message):
        calls("HoldFunds", execution="execution-2")

    assert calls.counted() == {"StepCalled": 1, "IdempotencyReplay": 1, "AlreadyClaimed": 1}


def test_only_its_own_execution_can_hold_a_queue_claimed_key(calls: Calls) -> None:
    owner = calls.claimed()

    with calls.writes_nothing(), pytest.raises(AlreadyClaimed):
        calls("HoldFunds")
    assert calls("HoldFunds", execution=owner) == HELD

    assert (calls.row()["escrow"], calls.account("alice")["available"]) == (4820, 5180)
    with calls.writes_nothing():
        assert calls("HoldFunds", execution=owner) == HELD
        with pytest.raises(AlreadyClaimed):
            calls("HoldFunds")


@pytest.mark.parametrize("state", [None, "HoldFunds", "ReleaseFunds"])
def test_only_the_newest_owner_can_run_a_recovered_settlement(calls: Calls, state: str | None) -> None:
    owners = ["execution-1"]
    if state:
        calls.after(state)
    else:
        owners = [calls.claimed()]

    for minutes in (1, 3):
        calls.later(minutes=minutes)
        calls.recover()
        owners.append(calls.step_functions.names[-1])
        refused = [is_refused(lambda owner=owner: calls("HoldFunds", execution=owner)) for owner in owners]  # type: ignore[misc]
        assert refused == [True] * (len(owners) - 1) + [False]


# A payer whose row is too busy for the transaction


BUSY = StoreUnavailable("DynamoDB: TransactionCanceledException: TransactionConflict")


def test_an_unanswered_hold_claims_the_key_for_the_next_try(funded: Calls) -> None:
    with funded.fails("transact", BUSY), pytest.raises(StoreUnavailable) as raised:
        funded("HoldFunds")
    assert raised.value is BUSY
    row = funded.row()
    assert (row["status"], row["owner"], row["escrow"]) == ("PROCESSING", "execution-1", 0)
    assert "hold_at" not in row
    assert (funded.entries(), funded.account("alice")["available"]) == (set(), 10_000)
    funded.later()
    funded.counted()

    assert funded("HoldFunds") == HELD

    assert funded.row() == row | {"escrow": 4820, "hold_at": LATER_AT, "sequence": 2}
    assert funded.account("alice")["available"] == 5180
    assert funded.counted() == {"StepCalled": 1, "ClaimRepeated": 1}


def test_recovery_resumes_a_payment_whose_hold_never_got_an_answer(funded: Calls) -> None:
    with funded.fails("transact", BUSY), pytest.raises(StoreUnavailable):
        funded("HoldFunds")
    funded.later(minutes=1)

    funded.recover()

    (owner,) = funded.step_functions.names
    assert funded("HoldFunds", execution=owner) == HELD | {"owner_epoch": 1}
    assert funded.account("alice")["available"] == 5180


def test_the_holds_error_is_raised_if_the_claim_fails_too(funded: Calls) -> None:
    silent = StoreUnavailable("DynamoDB: ReadTimeoutError")

    with (
        funded.writes_nothing(),
        funded.fails("transact", BUSY),
        funded.fails("claim", silent),
        pytest.raises(StoreUnavailable) as raised,
    ):
        funded("HoldFunds")

    assert raised.value is BUSY
    assert funded("HoldFunds") == HELD


def test_a_failed_hold_does_not_take_another_executions_claim(calls: Calls) -> None:
    owner = calls.claimed()

    with calls.writes_nothing():
        with calls.fails("transact", BUSY), pytest.raises(StoreUnavailable):
            calls("HoldFunds")
        with pytest.raises(AlreadyClaimed):
            calls("HoldFunds")

    assert calls("HoldFunds", execution=owner) == HELD


# The content


def test_of_two_concurrent_executions_one_holds_and_one_is_refused(funded: Calls) -> None:
    funded.meanwhile(_dependencies.store, "transact", lambda: funded("HoldFunds"))

    with pytest.raises(AlreadyClaimed):
        funded("HoldFunds", execution="execution-2")

    assert (funded.row()["owner"], funded.account("alice")["available"]) == ("execution-1", 5180)


def test_a_refused_request_conflicts_after_another_request_holds_the_key(calls: Calls) -> None:
    """A refused hold leaves the key unclaimed until RejectSettlement claims it."""
    calls.ledger.open("alice", 4819)
    calls.ledger.open("bob", 500)
    with pytest.raises(InsufficientFunds):
        calls("HoldFunds")
    less = WIRE | {"amount": "48.19"}
    calls("HoldFunds", less, execution="execution-2")

    with calls.writes_nothing():
        for state in ("HoldFunds", "RejectSettlement"):
            with pytest.raises(IdempotencyConflict, match=f"^key: {KEY} was claimed"):
                calls(state, error=REFUSED)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("PROCESSING", 4819)
    assert calls.account("alice")["available"] == 0


def test_a_request_without_a_fee_matches_the_claimed_fee(funded: Calls) -> None:
    funded("HoldFunds", WIRE | {"fee": "1.00"})

    with funded.writes_nothing():
        assert funded("HoldFunds", WITHOUT_FEE) == HELD | {"settlement": WIRE | {"fee": "1.00"}}


@needs("doors")
def test_a_claimed_fee_stays_although_the_schedule_changes(calls: Calls) -> None:
    owner = calls.claimed(WITHOUT_FEE)
    calls.change_config(fee_basis_points=200)

    assert calls("HoldFunds", WITHOUT_FEE, execution=owner) == HELD

    assert calls.row()["fee"] == 48


# A request without a key


@pytest.mark.usefixtures("optional_keys")
def test_a_request_without_a_key_gets_its_executions_key(funded: Calls) -> None:
    first = funded("HoldFunds", NAMELESS, execution_arn=FIRST)

    key = "minted-" + hashlib.sha256(FIRST.encode()).hexdigest()[:32]
    assert first == HELD | {"settlement": WIRE | {"key": key}}
    assert [row["pk"] for row in funded.ledger.rows() if "status" in row] == [f"SETTLEMENT#{key}"]
    assert funded.counted() == {"StepCalled": 1, "Claimed": 1, "IdempotencyKeyMissing": 1}
    with funded.writes_nothing():
        assert funded("HoldFunds", NAMELESS, execution_arn=FIRST) == first
    assert funded("HoldFunds", NAMELESS, execution_arn=SECOND)["settlement"]["key"] != key


@pytest.mark.usefixtures("optional_keys")
@pytest.mark.parametrize("state", ["HoldFunds", "RejectSettlement"])
def test_the_calls_log_line_has_the_minted_key(
    funded: Calls, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    funded(state, NAMELESS, execution_arn=FIRST, error=REFUSED)

    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line["key"] == "minted-" + hashlib.sha256(FIRST.encode()).hexdigest()[:32]


@pytest.mark.usefixtures("optional_keys")
def test_rejection_and_report_use_the_same_minted_key(calls: Calls) -> None:
    calls.ledger.open("alice", 4819)
    calls.ledger.open("bob", 500)

    rejected = calls("RejectSettlement", NAMELESS, execution_arn=FIRST, error=REFUSED)

    assert rejected["key"] == "minted-" + hashlib.sha256(FIRST.encode()).hexdigest()[:32]
    report = calls.report(NAMELESS, execution=FIRST.rpartition(":")[2], **REPLAYED)
    assert report == rejected | {"replayed": True}
    with calls.writes_nothing(), pytest.raises(AlreadyClaimed):
        calls("HoldFunds", NAMELESS, execution_arn=FIRST)


@pytest.mark.usefixtures("optional_keys")
def test_hold_funds_counts_a_missing_key_only_in_valid_requests(calls: Calls) -> None:
    calls.ledger.open("alice", 4819)
    calls.ledger.open("bob", 500)
    with pytest.raises(InsufficientFunds):
        calls("HoldFunds", NAMELESS, execution_arn=FIRST)
    assert calls.counted() == {"StepCalled": 1, "InsufficientFunds": 1, "IdempotencyKeyMissing": 1}

    calls("RejectSettlement", NAMELESS, execution_arn=FIRST, error=REFUSED)
    calls.report(NAMELESS, execution=FIRST.rpartition(":")[2], **REPLAYED)
    with pytest.raises(InvalidRequest):
        calls("HoldFunds", NAMELESS | {"amount": "-1.00"}, execution_arn=FIRST)

    assert calls.counted() == {"StepCalled": 3, "Rejected": 1, "InvalidRequest": 1}


# The parties' names, required of new claims alone


@pytest.mark.parametrize(
    ("settlement", "execution", "refusal", "metrics"),
    [
        (WIRE, "execution-2", AlreadyClaimed, {"IdempotencyReplay": 1}),
        (WIRE | {"amount": "48.21"}, "execution-1", IdempotencyConflict, {}),
        (NAMED, "execution-1", IdempotencyConflict, {}),  # the first request was not screened by these names
    ],
)
def test_a_settlement_held_without_names_replays_after_names_become_required(
    funded: Calls, settlement: Any, execution: str, refusal: type[Exception], metrics: dict[str, int]
) -> None:
    """Recovery and the webhook start executions with claimed content. A refusal would leave money held."""
    funded("HoldFunds")
    funded.change_config(party_names="required")

    with funded.writes_nothing():
        assert funded("HoldFunds") == HELD
        funded.counted()
        with pytest.raises(refusal):
            funded("HoldFunds", settlement, execution=execution)

    assert funded.counted() == {"StepCalled": 1, refusal.__name__: 1} | metrics


@pytest.mark.parametrize("depth", [101, 1_200, 4_000])
def test_a_deeply_nested_request_is_refused_by_its_field(calls: Calls, depth: int) -> None:
    """Lambda and the embedded AWS must be able to read the request, or the caller would get no reason."""
    deep = json.loads("[" * depth + "]" * depth)

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"amount: must be a decimal string"):
        calls("HoldFunds", settlement=WIRE | {"amount": deep})
