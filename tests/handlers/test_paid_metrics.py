"""The cost model has the true number of custom metrics, which CloudWatch bills monthly."""

import tomllib

from tests.handlers.conftest import Calls
from tests.world.functions import FORWARD
from tests.world.templates import PROJECT

MODEL = tomllib.loads((PROJECT / "benchmarks/prices.toml").read_text())["model"]


def test_an_idle_stage_reports_as_many_metrics_as_modelled(calls: Calls) -> None:
    calls.recover()

    assert len(calls.counted()) == MODEL["idle_metrics"]


def test_payments_add_as_many_metrics_as_modelled(calls: Calls) -> None:
    calls.recover()
    idle = calls.counted()
    calls.after(FORWARD[-1])

    elsewhere = {"EventsPublished", "KycCircuit"}  # by PublishEvents, and by the real provider's client
    assert len((calls.counted().keys() | elsewhere) - idle.keys()) == MODEL["load_metrics"]
