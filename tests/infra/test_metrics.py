"""The metrics that alarms and the dashboard look at are the ones that the functions write."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

from handlers import _provider, _runtime, _secrets, recover_stalled, verify_kyc
from settlement import telemetry
from settlement.errors import KycRequestRefused, KycUnavailable
from settlement.request import Settlement
from settlement.status import Status, Step
from tests.conftest import NOW
from tests.infra.alarms import ALARMS, OURS, counted
from tests.support.kyc import REJECTED, Provider
from tests.unit.every_row import AFTER, settlement_row


def metrics_of(write: Callable[[], None]) -> dict[str, list[float]]:
    """The values of each metric that a call writes, with no dimension but the service."""
    telemetry.metrics.clear_metrics()
    write()
    found: Any = telemetry.metrics.serialize_metric_set()
    telemetry.metrics.clear_metrics()
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["service"]]
    return {metric["Name"]: found[metric["Name"]] for metric in directive["Metrics"]}


def no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets Manager does not give the secret away."""

    def denied(*_: object, **__: object) -> None:
        raise GetParameterError("denied")

    monkeypatch.setattr(_secrets._provider, "get", denied)
    with pytest.raises(KycUnavailable):
        _secrets.read("secret", cache_seconds=60)


def contradicted(settlement: Settlement, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider approves what another call has meanwhile put on record as rejected."""
    row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, settlement=settlement)
    entry = {"decision": REJECTED.decision.value, "reference": REJECTED.reference}
    store = SimpleNamespace(read=lambda key: row, post=lambda posting: entry)
    monkeypatch.setattr(_runtime, "store", store)
    monkeypatch.setattr(_runtime, "now", lambda: NOW)
    monkeypatch.setattr(_provider, "ask", Provider().ask)
    assert verify_kyc._verdict(settlement) == entry


def not_recovered() -> None:
    """Whatever is wrong with one settlement."""
    with recover_stalled._noted("a settlement"):
        raise ZeroDivisionError


@pytest.mark.parametrize("alarm", sorted(OURS))
def test_an_alarm_on_a_metric_of_our_own_names_one_that_is_counted(alarm: str) -> None:
    """CloudWatch takes any name for a metric, and an alarm on one that nobody writes is silent for ever."""
    assert ALARMS[alarm][1] in counted()


@pytest.mark.parametrize("name", ["", "Nonesuch", "settlement", "kyc", "AlarmName"])
def test_what_nobody_counts_is_not_counted(name: str) -> None:
    assert name not in counted()


WRITERS: dict[str, Callable[[Settlement, pytest.MonkeyPatch], None]] = {
    "KycCircuitOpen": lambda settlement, patch: _provider._measure(CircuitState.OPEN),
    "KycRequestRefused": lambda settlement, patch: telemetry.count(KycRequestRefused.__name__),
    "KycSecretUnreadable": lambda settlement, patch: no_secret(patch),
    "KycVerdictConflict": contradicted,
    "NotRecovered": lambda settlement, patch: not_recovered(),
}


@pytest.mark.parametrize("metric", WRITERS)
def test_a_metric_is_written_where_its_alarm_expects_it(
    metric: str, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert metrics_of(lambda: WRITERS[metric](settlement, monkeypatch)) == {metric: [1.0]}


def test_the_circuits_metric_is_1_for_as_long_as_it_is_not_closed() -> None:
    assert metrics_of(lambda: _provider._measure(CircuitState.HALF_OPEN)) == {"KycCircuitOpen": [1.0]}
    assert metrics_of(lambda: _provider._measure(CircuitState.CLOSED)) == {"KycCircuitOpen": [0.0]}
