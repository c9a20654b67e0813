"""Logs and metrics. A call writes one line, with key, step and execution, and without payload.

The line has the metrics in CloudWatch's embedded format: docs/decisions/2026-11-22-logs.md. Only a warning
that an incident needs has its own line.
"""

import json
import os
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from settlement.core.model.errors import SettlementError

logger = Logger()
metrics = Metrics(namespace="Settlement")
"""The metrics' `service` is the stack's name."""

Handler = Callable[[Any, Any], Any]

_CONTEXT = ("key", "step", "execution")
"""Fields of every line, so one filter finds all lines of a settlement."""

_lock = Lock()
"""Threads share Powertools' metrics, whose methods are not atomic."""

_detail: dict[str, Any] = json.loads(os.environ.get("LOG_DETAIL", "{}"))
"""The settlements whose DynamoDB calls are logged: all (`full`), or the `keys`."""

_used: dict[str, dict[str, float]] = {}
"""The invocation's DynamoDB calls and capacity units, by operation."""


def count(metric: str) -> None:
    with _lock:
        metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)


def gauge(metric: str, value: int) -> None:
    """Publish a number, in seconds if the name ends in `Seconds`."""
    unit = MetricUnit.Seconds if metric.endswith("Seconds") else MetricUnit.Count
    with _lock:
        metrics.add_metric(name=metric, unit=unit, value=value)


def note(name: str, value: object) -> None:
    """Add a field to the call's line. Never add a request's content or an answer's text."""
    metrics.add_metadata(key=name, value=value)


def about(key: object) -> None:
    if isinstance(key, str):
        logger.append_keys(key=_shown(key))


def called(operation: str, consumed: Any) -> None:
    """Count a DynamoDB call and its capacity units. A refused call reports none."""
    tables = consumed if isinstance(consumed, list) else [consumed] if consumed else []
    units = sum(table["CapacityUnits"] for table in tables)
    with _lock:
        used = _used.setdefault(operation, {"calls": 0, "units": 0})
        used["calls"] += 1
        used["units"] += units
    if _is_detailed():
        logger.info("dynamodb", operation=operation, capacity_units=units)


def observed(step: str) -> Callable[[Handler], Handler]:
    """Make a handler write one line per call, with context, metrics and the error's name.

    A refusal counts under its name. Any other exception counts as FunctionFailed.
    """

    def decorate(handle: Handler) -> Handler:
        @metrics.log_metrics
        @logger.inject_lambda_context
        @wraps(handle)
        def observe(event: Any, context: Any) -> Any:
            _used.clear()
            logger.append_keys(step=step, **_identity(event))
            count("StepCalled")
            try:
                return handle(event, context)
            except SettlementError as refusal:
                count(type(refusal).__name__)
                _note_error(refusal)
                # The traceback would end in the execution's cause, where the message says it all.
                raise refusal.with_traceback(None) from None
            except Exception as failure:
                count("FunctionFailed")
                _note_error(failure)
                raise
            finally:
                _note_context()

        return observe

    return decorate


def _note_error(error: Exception) -> None:
    note("error", type(error).__name__)
    if request_id := logger.get_current_keys().get("function_request_id"):
        note("function_request_id", request_id)


def _note_context() -> None:
    """Note key and execution after the handler: it may find a key that the event lacks."""
    keys = logger.get_current_keys()
    for name in _CONTEXT:
        if keys.get(name) is not None:
            note(name, keys[name])
    if keys.get("cold_start"):
        note("cold_start", True)
    if _used:
        note("dynamodb", dict(_used))


def is_named(key: object) -> bool:
    return key in _detail.get("keys", ())


def _is_detailed() -> bool:
    return bool(_detail.get("full")) or is_named(logger.get_current_keys().get("key"))


def _identity(event: Any) -> dict[str, str | None]:
    payload = event if isinstance(event, dict) else {}
    key = _key(payload)
    if key is None:  # some functions get the machine's whole state, and the request may have no key
        key = _key(payload.get("state"))
    return {
        "key": None if key is None else _shown(key),
        "execution": str(payload.get("execution")),
    }


def _shown(key: str) -> str:
    return key[:64].encode("unicode_escape").decode()


def _key(payload: Any) -> str | None:
    settlement = payload.get("settlement") if isinstance(payload, dict) else None
    key = settlement.get("key") if isinstance(settlement, dict) else None
    return key if isinstance(key, str) else None
