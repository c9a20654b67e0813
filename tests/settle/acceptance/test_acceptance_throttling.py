"""A throttled check is neither proven nor refuted."""

import json
from threading import Lock
from typing import Any

import pytest

from settle.acceptance import payments, runner
from settle.acceptance.checks import CHECKS
from settle.acceptance.run import AMOUNT, DEPOSIT, Run
from settle.acceptance.throttling import Throttled, quota_of_error, quota_of_text
from settle.acceptance.verdict import Check, Result, Verdict
from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.order import DoorThrottled
from settle.settlements.start import Ended
from tests.settle.acceptance.stage import stage
from tests.unit import states
from tests.world.step_functions import client_error

SETTLED = {"status": "SUCCEEDED", "output": '{"status": "SETTLED"}'}
LAMBDA = "Lambda.TooManyRequestsException"
NET = AMOUNT - 10
CONCURRENCY = "Concurrent executions (L-B99A9384)"


def stalled(error: str, cause: str = "Rate Exceeded.") -> dict[str, str]:
    told = json.dumps({"Error": error, "Cause": cause})
    return {"status": "FAILED", "error": "SettlementStalled", "cause": told}


def reversed_for(cause: str) -> dict[str, str]:
    failure = {"step": "verify", "error": "KycUnavailable", "cause": cause}
    return {"status": "SUCCEEDED", "output": json.dumps({"status": "COMPENSATED", "failure": failure})}


DYNAMODB = stalled("StoreUnavailable", json.dumps({"errorMessage": "DynamoDB: ThrottlingException"}))


class StepFunctions:
    """Executions that end as listed. The last end repeats."""

    def __init__(self, *ends: Any) -> None:
        self.ends, self.lock = [*ends], Lock()

    def _next(self) -> Any:
        with self.lock:
            end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        return end

    def start_sync_execution(self, **asked: str) -> Any:
        return self._next()

    def start_execution(self, **asked: str) -> dict[str, str]:
        return {"executionArn": asked["name"]}

    def describe_execution(self, **asked: str) -> Any:
        return self._next()


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Any:

    def judged(
        *ends: Any,
        status: str | None = "SETTLED",
        failure: Any = None,
        has_got: int | None = None,
        has_left: int = DEPOSIT,
    ) -> Result:
        changes = {"failure": failure} if failure else {}
        state = None if status is None else states.state(status=status, **changes)
        is_settled = status == "SETTLED"
        balances = {
            "payer": DEPOSIT - AMOUNT if is_settled else has_left,
            "payee": (NET if is_settled else 0) if has_got is None else has_got,
        }
        outputs = {"SettlementExpressArn": "express", "SettlementStandardArn": "standard"}
        monkeypatch.setattr(Run, "parties", lambda run, name: ("payer", "payee"))
        monkeypatch.setattr(Run, "rested", lambda run, key: state)
        monkeypatch.setattr(Run, "balance", lambda run, account: balances[account])
        (check,) = (one for one in CHECKS if one.name == "twins")
        return runner.judge(check, Run(stage(StepFunctions(*ends), outputs=outputs)))

    return judged


def test_twin_starts_that_settle_the_payment_once_are_proven(twins: Any) -> None:
    assert twins(SETTLED).evidence.startswith("of 64 twins: 64 SETTLED; payer less 10.00")


THROTTLED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a step": ([stalled(LAMBDA), SETTLED], {}, CONCURRENCY),
    "every step": ([stalled(LAMBDA)], {"status": None}, CONCURRENCY),
    "a step that is reversed for it": (
        [reversed_for(f"kyc: no answer ({LAMBDA})")],
        {"status": "COMPENSATED"},
        CONCURRENCY,
    ),
    "a step whose execution is lost": (
        [{"status": "FAILED", "error": "SettlementStalled", "cause": ""}],
        {
            "status": "COMPENSATED",
            "failure": {"step": "verify", "error": "KycUnavailable", "cause": f"kyc: no answer ({LAMBDA})"},
        },
        CONCURRENCY,
    ),
    "a start": ([client_error("StartSyncExecution", "ThrottlingException"), SETTLED], {}, "Step Functions: "),
    "a look": ([client_error("DescribeExecution", "ThrottlingException"), SETTLED], {}, "Step Functions: "),
    "a write": ([DYNAMODB, SETTLED], {}, "DynamoDB: the write units"),
}


@pytest.mark.parametrize("case", [one for one in THROTTLED if one != "a step whose execution is lost"])
def test_twin_starts_that_aws_throttles_are_not_refuted(twins: Any, case: str) -> None:
    ends, found, quota = THROTTLED[case]
    result = twins(*ends, **found)

    assert result.verdict is Verdict.THROTTLED, result.evidence
    assert quota in result.evidence
    assert result.evidence.endswith("then run `settle acceptance --only twins --stack settlement-test` again")


def test_an_unexplained_end_is_refuted_beside_a_throttled_one(twins: Any) -> None:
    ends, found, _ = THROTTLED["a step whose execution is lost"]
    result = twins(*ends, **found)

    assert result.verdict is Verdict.REFUTED
    assert result.evidence.endswith("not by throttling: SettlementStalled")


@pytest.mark.parametrize(
    ("ends", "found", "told"),
    [
        ([stalled("States.Timeout")], {"status": "PROCESSING"}, "is PROCESSING, and should be SETTLED"),
        ([stalled(LAMBDA), SETTLED], {"has_got": 2 * NET}, "what the payee has got"),
        ([stalled(LAMBDA)], {"status": "COMPENSATED", "has_got": AMOUNT}, "payment that is COMPENSATED: is"),
        ([client_error("StartSyncExecution", "InvalidArn")], {}, "InvalidArn"),
        # A caller was told of a payment that is given back, or a hold never came back.
        ([stalled(LAMBDA), SETTLED], {"status": "COMPENSATED"}, "not by throttling: SETTLED"),
        ([stalled(LAMBDA)], {"status": "COMPENSATED", "has_left": DEPOSIT - AMOUNT}, "the payer has left"),
    ],
)
def test_twin_starts_with_wrong_balances_or_unexplained_ends_are_refuted(
    twins: Any, ends: list[Any], found: dict[str, Any], told: str
) -> None:
    result = twins(*ends, **found)

    assert (result.verdict, told in result.evidence) == (Verdict.REFUTED, True), result.evidence


def test_a_hold_left_by_a_throttled_payment_counts_as_throttled(twins: Any) -> None:
    result = twins(stalled(LAMBDA), status="PROCESSING", has_left=DEPOSIT - AMOUNT)

    assert result.verdict is Verdict.THROTTLED, result.evidence


def test_a_run_with_a_throttled_check_does_not_pass(twins: Any) -> None:
    fine = Result("books", Verdict.PROVEN, "", ())
    report = runner.Report("r", "s", results=[fine, twins(stalled(LAMBDA), status=None)])

    assert (report.refuted, report.passed) == ([], False)


def wrapped() -> CommandFailed:
    failed = CommandFailed(Exit.FAILED, "its outcome is unknown")
    failed.__cause__ = client_error("StartSyncExecution", "ExecutionLimitExceeded")
    return failed


@pytest.mark.parametrize(
    ("failure", "quota"),
    [
        (client_error("GetExecutionHistory", "ThrottlingException"), "the quota of GetExecutionHistory"),
        (wrapped(), "Step Functions: "),
        (Throttled("10 of 64", "a quota"), "a quota"),
        (DoorThrottled(Exit.FAILED, "deposit: HTTP 429"), "API Gateway: "),
    ],
)
def test_a_throttled_check_names_the_quota_and_a_command(failure: Exception, quota: str) -> None:
    def prove(run: Run) -> str:
        raise failure

    run = Run(stage())
    result = runner.judge(Check("limbo", prove), run)

    assert result.verdict is Verdict.THROTTLED
    assert f"raise the quota ({quota}" in result.evidence
    assert "`settle acceptance --only limbo --stack settlement-test`" in result.evidence
    assert "`settle reconcile --stack settlement-test`" in runner.judge(Check("books", prove), run).evidence
    assert runner.Report("1", "s", [result]).refuted == []


@pytest.mark.parametrize(
    "ended",
    [
        Ended("k", "e", None, "SettlementStalled", f"{LAMBDA}: Rate Exceeded."),
        Ended("k", "e", json.loads(reversed_for(f"kyc ({LAMBDA})")["output"])),
    ],
)
def test_a_payment_that_lambda_throttles_is_not_refuted(
    monkeypatch: pytest.MonkeyPatch, ended: Ended
) -> None:
    monkeypatch.setattr("settle.acceptance.run.start", lambda *_: ended)

    with pytest.raises(Throttled, match=r"k: (SettlementStalled|KycUnavailable): .*TooManyRequests"):
        Run(stage()).send({"key": "k"})


def test_a_payment_reversed_because_of_throttling_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    failure = {"step": "verify", "error": "KycUnavailable", "cause": f"kyc ({LAMBDA})"}
    monkeypatch.setattr(Run, "rested", lambda run, key: states.state(status="COMPENSATED", failure=failure))

    with pytest.raises(Throttled, match=r"k: KycUnavailable: kyc \(Lambda"):
        Run(stage()).at_rest("k")


def test_an_api_that_throttles_is_not_refuted() -> None:
    with pytest.raises(Throttled, match="the start: HTTP 429"):
        payments.expect_status("the start", Answer(429, {}), 200)


def test_a_transaction_conflict_is_not_counted_as_throttling() -> None:
    assert quota_of_text("DynamoDB: TransactionConflict in each of 5 tries") is None
    assert quota_of_error(client_error("PutItem", "ConditionalCheckFailedException")) is None
    assert quota_of_error(None) is None
