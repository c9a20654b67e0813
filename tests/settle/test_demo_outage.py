import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from settle.exit_codes import Exit
from settle.local.demo import outage
from settle.settlements.machines import Machine
from settlement.core.model.errors import KycCircuitOpen, KycRejected, KycUnavailable
from tests.settle.conftest import failing
from tests.settle.desk import Desk
from tests.settle.wire import Simulator
from tests.world.provider import APPROVED

Walk = Callable[[], dict[str, Any]]


class Paying:
    """The demo's machine: asks the real simulator, and reverses payments without a verdict.

    After the outage, the first `refused` payments still meet an open circuit.
    """

    def __init__(self, desk: Desk, simulator: Simulator) -> None:
        self.desk, self.simulator, self.refused = desk, simulator, 0

    def start(self, stack: object, machine: Machine, request: str) -> None:
        wire = json.loads(request) | {"fee": "0.00"}
        self.desk.provider.answer = self._answer(wire)
        try:
            self.desk.pay(**wire)
        except (KycUnavailable, KycCircuitOpen, KycRejected) as refusal:
            error = {"Error": type(refusal).__name__, "Cause": str(refusal)}
            self.desk.compensate(wire, error=error)

    def _answer(self, wire: dict[str, str]) -> Any:
        failing = self.simulator.seen()["behaviour"] == "error"
        if not failing and self.refused:
            self.refused -= 1
            return KycCircuitOpen("kyc: not asked, as the circuit is open")
        answered = self.simulator.verify(wire["key"], payee=wire["payee"]).status == 200
        return APPROVED if answered else KycUnavailable("kyc: as the provider wants it")


@pytest.fixture
def paying(desk: Desk, simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> Paying:
    paying = Paying(desk, simulator)
    monkeypatch.setattr(outage, "start", paying.start)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return paying


@pytest.fixture
def walk(desk: Desk, simulator: Simulator, paying: Paying) -> Walk:
    return lambda: outage.walk(desk.stack, simulator.url, lambda text: None)


@pytest.mark.parametrize("refused", [0, 2])
def test_payments_in_an_outage_are_refunded_and_later_ones_settle(
    walk: Walk, paying: Paying, refused: int
) -> None:
    paying.refused = refused

    walked = walk()

    told = [(one["provider"], one["outcome"], one["error"], one["calls"]) for one in walked["payments"]]
    assert told == [
        *[("fails", "COMPENSATED", "KycUnavailable", 1)] * outage.PAYMENTS_DURING,
        *[("is back", "COMPENSATED", "KycCircuitOpen", 0)] * refused,
        ("is back", "SETTLED", None, 1),
    ]
    assert (walked["returned"], walked["conserved"]) == ("100.00 EUR of 100.00 EUR", True)


def test_an_outage_that_does_not_end_fails_the_demo(
    walk: Walk, paying: Paying, monkeypatch: pytest.MonkeyPatch
) -> None:
    paying.refused = 1000
    monkeypatch.setattr(outage, "RECOVERY_SECONDS_MAX", -1)

    with failing(Exit.FAILED, "no payment settled within"):
        walk()


def test_an_interrupted_outage_demo_restores_the_provider(
    walk: Walk, simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> None:
        assert simulator.seen()["behaviour"] == "error"
        raise ConnectionError("cut off")

    monkeypatch.setattr(outage, "start", cut_off)

    with pytest.raises(ConnectionError):
        walk()

    assert simulator.seen()["behaviour"] == "approve"
