"""Logs and metrics: one line for each call. A line has the key, step and execution, and no payload.

The line is that of the call's metrics, in CloudWatch's embedded metric format, with the call's context as
metadata: see docs/decisions/2026-11-22-logs.md. A warning that an incident needs is a line of its own.
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
"""Both have a `service`: the stack's name, from POWERTOOLS_SERVICE_NAME."""

Handler = Callable[[Any, Any], Any]

_CONTEXT = ("key", "step", "execution", "function_request_id")
"""The logger's keys that the call's line has, too: one filter finds all lines of a settlement or a call."""

_lock = Lock()
"""Powertools' metrics are one set for all threads, and none of its methods is atomic."""

_detail: dict[str, Any] = json.loads(os.environ.get("LOG_DETAIL", "{}"))
"""Which settlements' DynamoDB calls are lines of their own: all (`full`), or those of some `keys`."""

_used: dict[str, dict[str, float]] = {}
"""The DynamoDB calls of the running invocation and their capacity units, by operation."""


def count(metric: str) -> None:
    """Add one to a metric of the running invocation."""
    with _lock:
        metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)


def gauge(metric: str, value: int) -> None:
    """Publish a level that the running invocation finds: a number of things, or an age in seconds."""
    unit = MetricUnit.Seconds if metric.endswith("Seconds") else MetricUnit.Count
    with _lock:
        metrics.add_metric(name=metric, unit=unit, value=value)


def note(name: str, value: object) -> None:
    """Add a field to the line of the running invocation: no content of a request, and no answer's text."""
    metrics.add_metadata(key=name, value=value)


def about(key: object) -> None:
    """Add a settlement's key to the lines of the running invocation, if it is one that can be shown."""
    if isinstance(key, str):
        logger.append_keys(key=_shown(key))


def called(operation: str, consumed: Any) -> None:
    """Count an answered DynamoDB call and the capacity units that it reports; a refused call reports none.

    With full detail each call is also a line of its own.
    """
    tables = consumed if isinstance(consumed, list) else [consumed] if consumed else []
    units = sum(table["CapacityUnits"] for table in tables)
    with _lock:
        used = _used.setdefault(operation, {"calls": 0, "units": 0})
        used["calls"] += 1
        used["units"] += units
    if _is_detailed():
        logger.info("dynamodb", operation=operation, capacity_units=units)


def observed(step: str) -> Callable[[Handler], Handler]:
    """Wrap a handler: one line for each call, with its context, its metrics, and the name of its error.

    A refusal is counted by its name. Any other exception is a fault of this project or of a service's
    answer, counted as FunctionFailed.
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
                note("error", type(refusal).__name__)
                # The traceback would end in the execution's cause, where the message says it all.
                raise refusal.with_traceback(None) from None
            except Exception as failure:
                count("FunctionFailed")
                note("error", type(failure).__name__)
                raise
            finally:
                _note_context()

        return observe

    return decorate


def _note_context() -> None:
    """Add the logger's context, at the end: by then a handler has found a key that its event lacks."""
    keys = logger.get_current_keys()
    for name in _CONTEXT:
        if keys.get(name) is not None:
            note(name, keys[name])
    if keys.get("cold_start"):
        note("cold_start", True)
    if _used:
        note("dynamodb", dict(_used))


def _is_detailed() -> bool:
    if _detail.get("full"):
        return True
    return bool(_detail.get("keys")) and logger.get_current_keys().get("key") in _detail["keys"]


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
