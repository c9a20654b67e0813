"""Hypothesis as these tests use it: no wall clock, no database that differs from machine to machine."""

import io
from collections.abc import Iterator

import pytest
from hypothesis import settings

from settlement.adapters import telemetry
from tests.unit.observation import Output

settings.register_profile("unit", deadline=None, database=None, print_blob=True)
settings.load_profile("unit")


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    # The command-line tool switches metrics off for its whole process, which may be this one.
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
    log = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)
    telemetry.metrics.clear_metrics()
    yield Output(log, capsys)
    telemetry.metrics.clear_metrics()
    telemetry.logger.remove_keys(["key", "step", "execution"])
