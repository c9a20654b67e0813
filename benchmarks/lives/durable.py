"""A Lambda durable function with plain writes, as on its guide's page about sagas, in AWS's local runner.

Each step that succeeds registers its reversal; a failure runs them from the last to the first, each in a step
of its own, and the execution fails. With `at_most_once`, a step that moves money is never repeated, as the
guide asks for effects that are not idempotent. With `returns_failure`, the execution succeeds with a failure
as its result, as in AWS's sample.
"""

import json
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import StepConfig, StepSemantics
from aws_durable_execution_sdk_python.retries import RetryPresets
from aws_durable_execution_sdk_python_testing.executor import Executor
from aws_durable_execution_sdk_python_testing.invoker import InProcessInvoker
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner

from benchmarks.lives import plain
from benchmarks.lives.judge import End
from benchmarks.lives.life import Life, Step
from benchmarks.lives.plain import Steps, Table
from benchmarks.lives.storm import Died, Storm
from benchmarks.rivals import Place

_REVERSED_BY = {Step.HOLD: Step.VOID, Step.RELEASE: Step.RECLAIM, Step.FEE: Step.REFUND}
_ONCE = StepConfig(retry_strategy=RetryPresets.none(), step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
_DEFAULT = StepConfig()
"""The SDK's default: at least once, six tries."""


class InvocationDied(Exception):
    """The process of an invocation has died; the service invokes the function again."""


def _no_wait() -> None:
    """Let the local runner repeat steps and invocations without a wait."""
    scheduled, invoke = Executor.on_step_retry_scheduled, InProcessInvoker.invoke
    Executor.RETRY_BACKOFF_SECONDS = 0

    def at_once(self: Any, execution_arn: str, operation_id: str, delay: float) -> None:
        scheduled(self, execution_arn, operation_id, 0)

    def dying(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return invoke(self, *given, **named)
        except Died as died:
            raise InvocationDied from died

    Executor.on_step_retry_scheduled, InProcessInvoker.invoke = at_once, dying


_no_wait()


def play(
    place: Place, life: Life, *, at_most_once: bool = False, returns_failure: bool = False
) -> tuple[End, list[str]]:
    """Play a life; return its end, and what happened."""
    table = Table(place, life)
    storm = Storm(life, table, plain.lost, plain.refused)
    steps, moves = Steps(table, storm), _ONCE if at_most_once else _DEFAULT

    @durable_execution
    def settle(event: Any, context: DurableContext) -> Any:
        reversals: list[Step] = []
        try:
            for step in (Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE):
                config = moves if step in _REVERSED_BY else _DEFAULT
                context.step(lambda _, step=step: steps.take(step), name=step, config=config)
                if step in _REVERSED_BY:
                    reversals.append(_REVERSED_BY[step])
        except Exception:
            for step in reversed(reversals):
                try:
                    context.step(lambda _, step=step: steps.take(step), name=step)
                except Exception as failed:
                    storm.tell(f"{step}: has failed, and is logged: {failed}")
            if returns_failure:
                return "FAILED"
            raise
        return "SETTLED"

    with DurableFunctionTestRunner(handler=settle) as runner:
        sent = json.dumps({"key": f"life-{life.seed}"})
        ended = runner.run(input=sent, execution_name=f"life-{life.seed}", timeout=60)
    storm.over()
    status = ended.status.value
    return End(table.moved(), f"execution {status}: {ended.result}", status != "SUCCEEDED"), storm.told
