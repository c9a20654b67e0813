"""A Lambda durable function, run by AWS's local test runner: four steps in one invocation."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_durable_execution_sdk_python.config import Duration, StepConfig
from aws_durable_execution_sdk_python.retries import RetryStrategyConfig, create_retry_strategy
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner

from benchmarks.rivals import Attempt, Place
from benchmarks.rivals.aws_sample import Sample
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.plain import payment

_RETRIES = StepConfig(
    retry_strategy=create_retry_strategy(
        RetryStrategyConfig(max_attempts=3, initial_delay=Duration.from_seconds(1))
    )
)


class Durable:
    """A durable function whose steps are plain writes, or this project's functions."""

    def __init__(self, place: Place, *, ours: bool = False) -> None:
        self._operations = self._bytes = 0
        world: Ours | Sample = Ours(place) if ours else Sample(place)
        functions = world.functions

        @durable_execution
        def function(event: Any, context: DurableContext) -> Any:
            print(f"request: {json.dumps(event)}")
            state: Any = None
            for number, step in enumerate(functions):
                call = partial(step, event["key"], state)
                result = context.step(lambda _, call=call: call(), name=f"step-{number}", config=_RETRIES)
                state = state or result
            return {"key": event["key"]}

        self._runner = DurableFunctionTestRunner(handler=function)

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return one call, because the runner retries its steps."""
        sent = json.dumps(payment(key))

        def run() -> None:
            result = self._runner.run(input=sent, execution_name=key)
            if result.status.value != "SUCCEEDED":
                raise RuntimeError(f"durable: {result.status}")
            operations = result.get_all_operations()
            self._operations = len(operations)
            payloads = [getattr(operation, "result", None) or "" for operation in operations]
            self._bytes = len(sent) + sum(len(str(payload)) for payload in payloads)

        return [run]

    def extra(self) -> dict[str, int]:
        """Return the last execution's number of operations, including its start, and its stored bytes."""
        return {"durable_operations": self._operations + 1, "durable_bytes": self._bytes}


enter = Durable
