"""The handlers of a happy settlement send five writes to DynamoDB, and read nothing."""

import json
from typing import Any

import pytest

from tests.handlers.calls import CLAIMED_AT, Calls


@pytest.fixture
def operations(calls: Calls) -> list[str]:
    """The calls that reach DynamoDB, in order."""
    sent: list[str] = []
    calls.ledger.client.meta.events.register(
        "before-call.dynamodb", lambda model, **_: sent.append(model.name)
    )
    return sent


def test_the_happy_path_is_five_calls_and_no_read(calls: Calls, operations: list[str]) -> None:
    calls.before("ClaimKey")
    operations.clear()

    for state in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(state, claimed_at=CLAIMED_AT)

    assert operations == ["PutItem", *["TransactWriteItems"] * 4]


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_a_replayed_state_is_one_call(calls: Calls, operations: list[str], state: str) -> None:
    calls.after(state)
    operations.clear()

    calls(state, claimed_at=CLAIMED_AT)

    assert operations == ["TransactWriteItems"]


def test_a_replay_of_a_finished_settlement_is_one_claim_and_one_read(
    calls: Calls, operations: list[str]
) -> None:
    calls.after("CollectFee")
    operations.clear()

    claimed = calls("ClaimKey", execution="execution-2")
    calls("ReportOutcome", replayed=claimed["replayed"])

    assert operations == ["PutItem", "GetItem"]


@pytest.mark.parametrize(
    ("state", "more"),
    [
        ("ClaimKey", {}),
        ("HoldFunds", {}),
        ("VerifyKyc", {}),
        ("ReleaseFunds", {}),
        ("CollectFee", {"claimed_at": CLAIMED_AT}),
        ("ReportOutcome", {"replayed": True}),
    ],
)
def test_a_result_is_plain_json(calls: Calls, state: str, more: dict[str, Any]) -> None:
    calls.before(state)

    result = calls(state, **more)

    assert json.loads(json.dumps(result)) == result
