"""The handlers' calls of DynamoDB: five writes and one read on the happy path, few more on the others."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from settlement.ledger import keys
from tests.conftest import Ledger, make_ledger
from tests.handlers.calls import (
    CLAIMED_AT,
    EXECUTION_ARN,
    ORDER,
    REJECTED_BY_KYC,
    REVERSALS,
    WIRE,
    Calls,
    Found,
)
from tests.handlers.stand_ins import Starts
from tests.support.kyc import IN_REVIEW, Provider

STATES = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")


@pytest.fixture(params=["moto", "dynamodb-local"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The table on the engines, which report their operations."""
    yield from make_ledger(request)


@pytest.fixture
def operations(calls: Calls) -> list[str]:
    """The calls that reach DynamoDB, in order."""
    sent: list[str] = []
    calls.ledger.client.meta.events.register(
        "before-call.dynamodb", lambda model, **_: sent.append(model.name)
    )
    return sent


def test_the_happy_path_is_five_writes_and_one_read_before_the_provider_is_asked(
    calls: Calls, operations: list[str]
) -> None:
    calls.before("ClaimKey")
    operations.clear()

    for state in STATES:
        calls(state, claimed_at=CLAIMED_AT)

    verified = ["GetItem", "TransactWriteItems"]
    assert operations == ["PutItem", "TransactWriteItems", *verified, *["TransactWriteItems"] * 2]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_the_happy_path_takes_at_most_26_write_units_and_one_read_unit(calls: Calls) -> None:
    units: dict[bool, float] = {True: 0, False: 0}

    def answered(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed["ConsumedCapacity"]
        tables = consumed if isinstance(consumed, list) else [consumed]
        units[model.name == "GetItem"] += sum(table["CapacityUnits"] for table in tables)

    calls.before("ClaimKey")
    calls.ledger.client.meta.events.register("after-call.dynamodb", answered)

    for state in STATES:
        calls(state, claimed_at=CLAIMED_AT)

    calls.ledger.client.meta.events.unregister("after-call.dynamodb", answered)
    assert (0 < units[False] <= 26, units[True]) == (True, 1)


@pytest.mark.parametrize("state", ["HoldFunds", "ReleaseFunds", "CollectFee"])
def test_a_replayed_state_is_one_call(calls: Calls, operations: list[str], state: str) -> None:
    calls.after(state)
    operations.clear()

    calls(state, claimed_at=CLAIMED_AT)

    assert operations == ["TransactWriteItems"]


def test_a_replayed_verdict_is_two_reads_and_no_write(calls: Calls, operations: list[str]) -> None:
    calls.after("VerifyKyc")
    operations.clear()

    calls("VerifyKyc")

    assert operations == ["GetItem", "GetItem"]


def test_a_review_is_one_read_and_one_write_and_to_find_it_again_one_read(
    calls: Calls, provider: Provider, operations: list[str]
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    operations.clear()

    calls("VerifyKyc")
    calls("VerifyKyc")

    assert operations == ["GetItem", "UpdateItem", "GetItem"]


def test_a_replay_of_a_finished_settlement_is_one_claim_and_one_read(
    calls: Calls, operations: list[str]
) -> None:
    calls.after("CollectFee")
    operations.clear()

    claimed = calls("ClaimKey", execution="execution-2")
    calls.report(replayed=claimed["replayed"])

    assert operations == ["PutItem", "GetItem"]


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_a_compensation_is_two_writes_for_the_fence_one_a_reversal_and_one_read(
    calls: Calls, operations: list[str], state: str
) -> None:
    calls.after(state)
    operations.clear()

    calls.unwind(calls.begin(error=REJECTED_BY_KYC))
    calls.report()

    assert operations == ["PutItem", "UpdateItem", *["TransactWriteItems"] * 3, "GetItem"]


def test_a_reversal_on_request_is_two_writes_for_the_fence_and_one_a_reversal(
    calls: Calls, operations: list[str]
) -> None:
    calls.after("CollectFee")
    operations.clear()

    calls.unwind(calls.begin(reversal=ORDER))

    assert operations == ["TransactWriteItems", "UpdateItem", *["TransactWriteItems"] * 3]


@pytest.mark.parametrize(
    ("more", "called"),
    [({}, ["UpdateItem"]), ({"resolution": {**ORDER, "decision": "retry"}}, ["GetItem", "UpdateItem"])],
)
def test_a_resumed_compensation_begins_with_one_write_and_a_decision_with_a_read_before(
    calls: Calls, operations: list[str], more: dict[str, Any], called: list[str]
) -> None:
    calls.fall("release")
    operations.clear()

    calls.begin(**more)

    assert operations == called


@pytest.mark.parametrize("state", REVERSALS)
def test_a_replayed_reversal_is_one_call_and_one_that_is_known_none(
    calls: Calls, operations: list[str], state: str
) -> None:
    found = calls.reopened(state)
    calls.reverse(state, found)
    operations.clear()

    calls.reverse(state, found)
    assert operations == ["TransactWriteItems"]

    calls.reverse(state, found | {"reversed": list(REVERSALS.values())})
    assert operations == ["TransactWriteItems"]


def test_a_case_of_limbo_is_three_writes_and_three_reads(calls: Calls, operations: list[str]) -> None:
    found = calls.reopened("ReclaimFunds")
    operations.clear()

    calls.limbo(found)
    calls.alert(found)
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    calls.resolve("retry")

    entered, resolved = ["GetItem", "TransactWriteItems"], ["GetItem", "TransactWriteItems"]
    assert operations == [*entered, "GetItem", "UpdateItem", *resolved]


def test_a_decision_that_comes_again_is_two_reads(calls: Calls, operations: list[str]) -> None:
    calls.fall("release")
    calls.resolve("retry")
    operations.clear()

    calls.resolve("retry")

    assert operations == ["GetItem", "GetItem"]


def test_recovery_is_a_query_for_each_partition_and_a_read_and_a_write_for_each_due_settlement(
    calls: Calls, starts: Starts, later: Callable[..., None], operations: list[str]
) -> None:
    calls.after("HoldFunds")
    calls("ClaimKey", WIRE | {"key": "order-2026-000102"})
    operations.clear()

    calls.recover()
    assert operations == ["Query"] * (keys.IN_FLIGHT_SHARDS + 1)
    operations.clear()
    later(seconds=30)
    calls.recover()

    assert operations.count("Query") == keys.IN_FLIGHT_SHARDS + 1
    assert [name for name in operations if name != "Query"] == ["GetItem", "UpdateItem"] * 2


def test_a_message_of_the_start_queue_is_one_write(
    calls: Calls, starts: Starts, operations: list[str]
) -> None:
    calls.receive(json.dumps(WIRE))

    assert operations == ["PutItem"]


def results_of_a_compensation(calls: Calls) -> list[Found]:
    """Return every answer in a compensation, in order."""
    calls.after("ReleaseFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    results = [found, calls.reverse("RefundFee", found), calls.limbo(found)]
    results += [calls.alert(found), calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)]
    results += [calls.begin(resolution={**ORDER, "decision": "retry"}), calls.resolve("retry")]
    found = calls.begin()
    results += [found, calls.reverse("ReclaimFunds", found), calls.reverse("VoidHold", found)]
    return [*results, calls.report()]


def test_every_result_of_a_compensation_is_plain_json(calls: Calls) -> None:
    results = results_of_a_compensation(calls)

    assert json.loads(json.dumps(results)) == results
    assert results[-1]["status"] == "COMPENSATED"


@pytest.mark.parametrize(
    ("state", "more"),
    [
        ("ClaimKey", {}),
        ("HoldFunds", {}),
        ("VerifyKyc", {}),
        ("ReleaseFunds", {}),
        ("CollectFee", {"claimed_at": CLAIMED_AT}),
    ],
)
def test_a_result_is_plain_json(calls: Calls, state: str, more: dict[str, Any]) -> None:
    calls.before(state)

    result = calls(state, **more)

    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize(("state", "status"), [("VerifyKyc", "COMPENSATING"), ("CollectFee", "SETTLED")])
def test_a_report_is_plain_json(calls: Calls, state: str, status: str) -> None:
    calls.after(state)

    result = calls.report(replayed=False, error=REJECTED_BY_KYC)

    assert json.loads(json.dumps(result)) == result
    assert (result["status"], type(result["status"])) == (status, str)
