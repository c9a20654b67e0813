"""The handlers' calls of DynamoDB: five writes and one read on the happy path, few more on the others."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger import keys
from tests.handlers.conftest import Later
from tests.world.constants import CLAIMED_AT, EXECUTION_ARN, ORDER, REJECTED_BY_KYC, WIRE
from tests.world.functions import Calls
from tests.world.provider import IN_REVIEW, Provider
from tests.world.services import signed, text

GET, PUT, UPDATE, TRANSACT = "get_item", "put_item", "update_item", "transact_write_items"
DECISION = {"resolution": {**ORDER, "decision": "retry"}}
Operations = Callable[[], list[str]]


@pytest.fixture
def operations(log: io.StringIO) -> Operations:
    """The calls that have reached DynamoDB since this was last called, in order."""

    def take() -> list[str]:
        lines = [json.loads(line) for line in log.getvalue().strip("\0").splitlines()]
        log.truncate(0)
        return [line["operation"] for line in lines if line["message"] == "dynamodb"]

    return take


def fall_and_await(calls: Calls) -> None:
    found = calls.begin(reversal=ORDER)
    calls.limbo(found)
    calls.alert(found)
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    calls.resolve("retry")


def replayed(calls: Calls) -> None:
    calls("ClaimKey", execution="execution-2")
    calls.report(replayed=True)


def reversed_(calls: Calls, **cause: Any) -> None:
    calls.unwind(calls.begin(**cause))


STATES = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")


@pytest.mark.parametrize(
    ("arrange", "act", "expected"),
    [
        pytest.param(
            lambda calls: calls.before("ClaimKey"),
            lambda calls: [calls(state, claimed_at=CLAIMED_AT) for state in STATES],
            [PUT, TRANSACT, GET, TRANSACT, TRANSACT, TRANSACT],
            id="the happy path: five writes, and a read before the provider is asked",
        ),
        pytest.param(
            lambda calls: calls.after("CollectFee"),
            lambda calls: [calls(state, claimed_at=CLAIMED_AT) for state in STATES[1:]],
            [TRANSACT, GET, GET, TRANSACT, TRANSACT],
            id="replayed steps: one call each, and two reads for a verdict",
        ),
        pytest.param(
            lambda calls: calls.after("CollectFee"), replayed, [PUT, GET], id="a replay: a claim and a read"
        ),
        pytest.param(
            lambda calls: calls.after("ReleaseFunds"),
            lambda calls: reversed_(calls, error=REJECTED_BY_KYC),
            [PUT, UPDATE, TRANSACT, TRANSACT, TRANSACT],
            id="a compensation: two writes for the fence, and one a reversal",
        ),
        pytest.param(
            lambda calls: calls.after("CollectFee"),
            lambda calls: reversed_(calls, reversal=ORDER),
            [TRANSACT, UPDATE, TRANSACT, TRANSACT, TRANSACT],
            id="a reversal on order: the same",
        ),
        pytest.param(
            lambda calls: calls.reopened("VoidHold"),
            lambda calls: calls.reverse("ReclaimFunds", {"steps": ["release"], "reversed": ["release"]}),
            [],
            id="a reversal that is known: none",
        ),
        pytest.param(
            lambda calls: calls.after("CollectFee"),
            fall_and_await,
            [TRANSACT, UPDATE, GET, TRANSACT, GET, UPDATE, GET, TRANSACT],
            id="a case of LIMBO: a read and a write each to enter, wait and decide",
        ),
        pytest.param(
            lambda calls: calls.fall(),
            lambda calls: calls.begin(),
            [UPDATE],
            id="a resumed compensation: a write",
        ),
        pytest.param(
            lambda calls: calls.fall(),
            lambda calls: calls.begin(**DECISION),
            [GET, UPDATE],
            id="a start with a decision: a read before it",
        ),
        pytest.param(
            lambda calls: (calls.fall(), calls.resolve("retry")),
            lambda calls: calls.resolve("retry"),
            [GET, GET],
            id="a decision that comes again: two reads",
        ),
    ],
)
def test_a_function_makes_no_more_calls_than_it_needs(
    calls: Calls,
    operations: Operations,
    arrange: Callable[[Calls], object],
    act: Callable[[Calls], object],
    expected: list[str],
) -> None:
    arrange(calls)
    operations()

    act(calls)

    assert operations() == expected


@pytest.mark.usefixtures("secrets", "step_functions")
def test_a_review_is_one_read_and_one_write_and_its_end_is_the_same(
    calls: Calls, provider: Provider, operations: Operations
) -> None:
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    operations()

    calls("VerifyKyc")
    calls("VerifyKyc")
    calls.decided(signed())

    assert operations() == [GET, UPDATE, GET, GET, TRANSACT]


@pytest.mark.usefixtures("step_functions", "queues")
def test_recovery_is_a_query_for_each_partition_and_a_read_and_a_write_for_each_due_settlement(
    calls: Calls, later: Later, operations: Operations
) -> None:
    calls.after("HoldFunds")
    calls.receive(text(WIRE | {"key": "order-2026-000102"}))
    operations()
    later(seconds=30)

    calls.recover()

    made = operations()
    assert made.count("query") == keys.IN_FLIGHT_SHARDS + 1
    assert [name for name in made if name != "query"] == [GET, UPDATE] * 2
