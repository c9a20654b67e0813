"""Powertools' idempotency decorator around plain writes, step by step, with its logger and its metrics."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)

from benchmarks.rivals import Attempt, Place
from benchmarks.rivals.context import Context
from benchmarks.rivals.plain import Event, PlainWrites, payment

_logger = Logger(service="settlement")
_metrics = Metrics(namespace="Settlement", service="settlement")


class Powertools:
    """Four idempotent functions of plain writes."""

    def __init__(self, place: Place) -> None:
        writes = PlainWrites(place)
        self._store = DynamoDBPersistenceLayer(
            table_name=place.table,
            key_attr="pk",
            sort_key_attr="sk",
            static_pk_value="IDEMPOTENCY",
            boto3_client=boto3.client("dynamodb", endpoint_url=place.url),
        )
        self._functions = [
            self._function(step) for step in (writes.hold, writes.verify, writes.release, writes.collect)
        ]

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return a call of each function."""
        event = payment(key)
        return [partial(function, event, Context()) for function in self._functions]

    def _function(self, step: Callable[[Event], None]) -> Callable[[Any, Any], Any]:
        def handler(event: Any, context: Any) -> Any:
            _metrics.add_metric(name="StepCalled", unit=MetricUnit.Count, value=1)
            step(event)
            _logger.info("completed", key=event["key"])
            return {"key": event["key"], "step": step.__name__}

        handler.__qualname__ = step.__name__  # it is part of the idempotency key
        config = IdempotencyConfig(event_key_jmespath="key", raise_on_no_idempotency_key=True)
        guarded = idempotent(persistence_store=self._store, config=config)(handler)
        function: Callable[[Any, Any], Any] = _metrics.log_metrics(_logger.inject_lambda_context(guarded))
        return function


enter = Powertools
