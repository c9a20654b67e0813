"""The metrics that alarms and the dashboard look at are the ones that the functions write."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

from handlers import _dependencies, _kyc, _secrets, recover_stalled, verify_kyc
from settlement.adapters import telemetry
from settlement.model.errors import KycRequestRefused, KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
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
    """Let Secrets Manager deny the secret."""

    def denied(*_: object, **__: object) -> None:
        raise GetParameterError("denied")

    monkeypatch.setattr(_secrets._provider, "get", denied)
    with pytest.raises(KycUnavailable):
        _secrets.read("secret", cache_seconds=60)


def contradicted(settlement: Settlement, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the provider approve a payment that another call has meanwhile recorded as rejected."""
    row = settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, settlement=settlement)
    state = SettlementState.from_row(row)
    entry = {"decision": REJECTED.decision.value, "reference": REJECTED.reference}
    store = SimpleNamespace(settlement=lambda key: state, commit=lambda transaction: entry)
    monkeypatch.setattr(_dependencies, "store", store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(_kyc, "ask", Provider().ask)
    assert verify_kyc._verdict(settlement) == entry


def not_recovered() -> None:
    """Let the recovery of one settlement fail."""
    with recover_stalled._isolated("a settlement"):
        raise ZeroDivisionError


@pytest.mark.parametrize("alarm", sorted(OURS))
def test_an_alarm_on_a_metric_of_our_own_names_one_that_is_counted(alarm: str) -> None:
    """CloudWatch takes any name for a metric. An alarm on one that no function writes is silent for ever."""
    assert ALARMS[alarm][1] in counted()


@pytest.mark.parametrize("name", ["", "Nonesuch", "settlement", "kyc", "AlarmName"])
def test_a_name_that_no_function_writes_is_not_counted(name: str) -> None:
    assert name not in counted()


WRITERS: dict[str, Callable[[Settlement, pytest.MonkeyPatch], None]] = {
    "KycCircuit": lambda settlement, patch: _kyc._measure(CircuitState.OPEN),
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
    assert metrics_of(lambda: _kyc._measure(CircuitState.HALF_OPEN)) == {"KycCircuit": [1.0]}
    assert metrics_of(lambda: _kyc._measure(CircuitState.CLOSED)) == {"KycCircuit": [0.0]}
