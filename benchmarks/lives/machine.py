"""AWS's saga samples: a function per step, and a Step Functions machine that catches a failure and reverses.

With `retries`, each state also repeats its function, as Step Functions does by default; with `idempotent`,
Powertools' decorator is around each function.
"""

import datetime as dt
import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from botocore.exceptions import BotoCoreError, ClientError

from benchmarks.lives import plain
from benchmarks.lives.judge import End
from benchmarks.lives.life import Life, Step
from benchmarks.lives.plain import Refused, Steps, Table
from benchmarks.lives.storm import Died, Storm, TimedOut
from benchmarks.rivals import Place
from benchmarks.rivals.context import Context
from tests.world.interpreter import Execution, Machines, TaskFailed

_MACHINE = "BookingSaga"
_ORDER = (Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE)
_REVERSED_BY = {
    Step.HOLD: Step.VOID,
    Step.VERIFY: Step.VOID,
    Step.RELEASE: Step.RECLAIM,
    Step.FEE: Step.REFUND,
}
_AFTER = {Step.REFUND: Step.RECLAIM, Step.RECLAIM: Step.VOID, Step.VOID: "OrderFailed"}
_SERVICE_ERRORS = ("Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException")
_OWN_ERROR = "StepFailed"
"""The error by which a sample's function reports any failure that it sees."""

TIMEOUT_SECONDS = 3
"""The timeout of a function: Lambda's default."""

_TIMED = ("base", "persistence.base", "persistence.datarecord", "persistence.dynamodb")


def _rule(errors: list[str], attempts: int) -> dict[str, Any]:
    return {"ErrorEquals": errors, "IntervalSeconds": 1, "BackoffRate": 2, "MaxAttempts": attempts}


def definition(*, retries: bool) -> dict[str, Any]:
    """Return the machine: the steps, their reversals, the notification, and the samples' last state."""
    service = _rule(list(_SERVICE_ERRORS), 6)
    repeat = [_rule(["Refused"], 0), _rule(["States.ALL"], 3)] if retries else [service]
    caught = ["States.ALL"] if retries else ["Refused", _OWN_ERROR]

    def task(step: Step, then: str | None, caught_by: str) -> dict[str, Any]:
        return {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke",
            "Parameters": {"FunctionName": step, "Payload.$": "$"},
            "ResultPath": None,
            "Retry": repeat,
            "Catch": [{"ErrorEquals": caught, "ResultPath": "$.error", "Next": caught_by}],
            **({"Next": then} if then else {"End": True}),
        }

    following = dict(zip(_ORDER, [*_ORDER[1:], None], strict=True))
    states: dict[str, Any] = {step: task(step, following[step], _REVERSED_BY[step]) for step in _ORDER}
    states |= {step: task(step, then, "Notify") for step, then in _AFTER.items()}
    states["Notify"] = {
        "Type": "Task",
        "Resource": "arn:aws:states:::events:putEvents",
        "Parameters": {"Entries": [{"DetailType": "CompensationFailed"}]},
        "ResultPath": None,
        "Next": "OrderFailed",
    }
    states["OrderFailed"] = {"Type": "Fail", "Error": "OrderFailed", "Cause": "reversed, or notified"}
    return {"StartAt": _ORDER[0], "States": states}


class Clock:
    """The time that Powertools reads: it passes with the machine's pauses and the functions' timeouts."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 11, 20, 12)

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += dt.timedelta(seconds=seconds)

    @contextmanager
    def read_by_powertools(self) -> Iterator[None]:
        """Let Powertools' idempotency read this clock."""
        fake = SimpleNamespace(datetime=SimpleNamespace(now=lambda: self.now), timedelta=dt.timedelta)
        with ExitStack() as stack:
            for name in _TIMED:
                module = importlib.import_module(f"aws_lambda_powertools.utilities.idempotency.{name}")
                stack.enter_context(mock.patch.object(module, "dt", fake))
            yield


class _Context(Context):
    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return self._seconds * 1_000


def play(
    place: Place,
    life: Life,
    *,
    retries: bool,
    is_idempotent: bool = False,
    timeout_seconds: int = TIMEOUT_SECONDS,
) -> tuple[End, list[str]]:
    """Play a life; return its end, and what happened."""
    table, clock = Table(place, life), Clock()
    storm = Storm(life, table, plain.lost, plain.refused)
    steps = Steps(table, storm)
    function: Callable[[Step], None] = steps.take
    if is_idempotent:
        function = _idempotent(place, life, steps.take, timeout_seconds)

    def invoke(name: str, payload: Any) -> Any:
        clock.passes(0.1)
        try:
            function(Step(name))
        except TimedOut:
            clock.passes(timeout_seconds)
            raise TaskFailed("States.Timeout") from None
        except Died:
            raise TaskFailed("Runtime.ExitError") from None
        except Refused as refusal:
            storm.tell(f"{name}: refused: {refusal}")
            raise TaskFailed("Refused", str(refusal)) from None
        except (ClientError, BotoCoreError):
            raise TaskFailed(_OWN_ERROR) from None
        except Exception as failed:
            storm.tell(f"{name}: {type(failed).__name__}: {failed}")
            raise TaskFailed(type(failed).__name__) from None
        return {"status": "ok"}

    def pause(execution: Execution, retrier: Any, tried: int) -> None:
        clock.passes(retrier["IntervalSeconds"] * retrier["BackoffRate"] ** (tried - 1))

    machines = Machines({_MACHINE: definition(retries=retries)}, frozenset(), invoke, pause=pause)
    with clock.read_by_powertools():
        execution = machines.start(_MACHINE, {"key": f"life-{life.seed}"}, f"life-{life.seed}").run()
    storm.over()
    report = f"execution {execution.status}" + (", with a notification" if machines.events else "")
    is_paged = execution.status == "FAILED" or bool(machines.events)
    return End(table.moved(), report, is_paged), storm.told


def _idempotent(
    place: Place, life: Life, take: Callable[[Step], None], timeout_seconds: int
) -> Callable[[Step], None]:
    store = DynamoDBPersistenceLayer(
        table_name=place.table,
        key_attr="pk",
        sort_key_attr="sk",
        static_pk_value=f"IDEMPOTENCY#{life.seed}",
        boto3_client=plain.client(place.url),
    )
    functions = {step: _guarded(store, step, take) for step in Step}
    return lambda step: functions[step]({"key": f"life-{life.seed}"}, _Context(timeout_seconds))


def _guarded(store: Any, step: Step, take: Callable[[Step], None]) -> Callable[[Any, Any], Any]:
    def handler(event: Any, context: Any) -> Any:
        take(step)
        return {"status": "ok"}

    handler.__qualname__ = step  # it is part of the idempotency key
    config = IdempotencyConfig(event_key_jmespath="key", raise_on_no_idempotency_key=True)
    guarded: Callable[[Any, Any], Any] = idempotent(persistence_store=store, config=config)(handler)
    return guarded
