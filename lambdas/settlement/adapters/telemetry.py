"""Logs and metrics: every line carries the settlement's key, the step and the execution, and no payload."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from settlement.model.errors import SettlementError

logger = Logger(service="settlement")
metrics = Metrics(namespace="Settlement", service="settlement")

Handler = Callable[[Any, Any], Any]


def count(metric: str) -> None:
    """Add one to a metric of the running invocation."""
    metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)


def gauge(metric: str, value: int) -> None:
    """Publish a level that the running invocation finds: a number of things, or an age in seconds."""
    unit = MetricUnit.Seconds if metric.endswith("Seconds") else MetricUnit.Count
    metrics.add_metric(name=metric, unit=unit, value=value)


def called(operation: str, consumed: Any) -> None:
    """Log an answered DynamoDB call with the capacity units that it reports; a refused call reports none."""
    tables = consumed if isinstance(consumed, list) else [consumed] if consumed else []
    logger.info("dynamodb", operation=operation, capacity_units=sum(t["CapacityUnits"] for t in tables))


def observed(step: str) -> Callable[[Handler], Handler]:
    """Wrap a handler: context on every log line, a metric for each call and for each refusal by its name.

    Any other exception is a fault of this project or of a service's answer, counted as FunctionFailed.
    """

    def decorate(handle: Handler) -> Handler:
        @metrics.log_metrics
        @logger.inject_lambda_context
        @wraps(handle)
        def observe(event: Any, context: Any) -> Any:
            logger.append_keys(step=step, **_identity(event))
            count("StepCalled")
            try:
                result = handle(event, context)
            except SettlementError as refusal:
                count(type(refusal).__name__)
                logger.warning("refused", error=type(refusal).__name__)
                # The traceback would end in the execution's cause, where the message says it all.
                raise refusal.with_traceback(None) from None
            except Exception:
                count("FunctionFailed")
                raise
            logger.info("completed")
            return result

        return observe

    return decorate


def _identity(event: Any) -> dict[str, str | None]:
    payload = event if isinstance(event, dict) else {}
    state = payload.get("state", payload)  # some functions get the machine's whole state
    settlement = state.get("settlement") if isinstance(state, dict) else None
    key = settlement.get("key") if isinstance(settlement, dict) else None
    return {
        "key": key[:64].encode("unicode_escape").decode() if isinstance(key, str) else None,
        "execution": str(payload.get("execution")),
    }
