import json
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, at_once
from tests.e2e.provider import GIVING_BACK, Payment, calls, circuit, control, payment

pytestmark = pytest.mark.long

SETTLEMENTS = 16
TRIES = 3


@dataclass(frozen=True)
class Outage:
    """Observations of the provider's outage, until payments flow again."""

    payments: list[Payment]
    outcomes: list[dict[str, Any]]
    rows: list[keys.Row]
    calls: int
    environments: int
    failures: int
    state: str
    shown: dict[str, Any]
    probed: dict[str, Any]
    afterwards: list[dict[str, Any]]
    announced: list[str]

    @property
    def probes(self) -> int:
        return self.announced.count("HALF_OPEN")


@pytest.fixture(scope="module")
def outage(embedded: Embedded) -> Outage:
    """16 concurrent settlements with a dead provider, and 16 more after its return."""
    everything_flows(embedded)
    since, before = int(time.time() * 1000), calls(embedded)
    payments = [payment(embedded) for _ in range(SETTLEMENTS)]
    control(embedded, behaviour="error")
    try:
        outcomes = at_once([partial(one.start) for one in payments])
        environments = len(embedded.environments("VerifyKyc"))  # idle ones end while the reversals run
        over = [one.over() for one in payments]
        state, shown = circuit(embedded), embedded.told("kyc", "status")
        seen = calls(embedded) - before
        announced = announcements(embedded, since, "OPEN")
    finally:
        control(embedded, behaviour="approve")
    probed = embedded.told("kyc", "probe")
    everything_flows(embedded)
    afterwards = at_once([partial(payment(embedded).start) for _ in range(SETTLEMENTS)])
    return Outage(
        payments=payments,
        outcomes=outcomes,
        rows=over,
        calls=seen,
        environments=environments,
        failures=json.loads(embedded.variable("VerifyKyc", "KYC"))["breaker"]["failures"],
        state=state,
        shown=shown,
        probed=probed,
        afterwards=afterwards,
        announced=announced,
    )


def everything_flows(embedded: Embedded) -> None:
    """Pay until one payment per environment settles at once and the circuit is closed."""

    def flows() -> bool:
        width = max(1, len(embedded.environments("VerifyKyc")))
        outcomes = at_once([partial(payment(embedded).start) for _ in range(min(width, SETTLEMENTS))])
        return {one["status"] for one in outcomes} == {"SETTLED"} and circuit(embedded) == "CLOSED"

    embedded.wait_for(flows)


def announcements(embedded: Embedded, since_ms: int, awaited: str) -> list[str]:
    """Wait for a circuit state in the log; return all logged states since."""

    def found() -> list[str]:
        lines = [json.loads(line) for line in embedded.logged("VerifyKyc", since_ms) if line.startswith("{")]
        return [line["state"] for line in lines if line.get("message") == "circuit"]

    embedded.wait_for(lambda: awaited in found())
    return found()


def test_while_the_provider_is_down_every_payment_is_reversed(outage: Outage) -> None:
    assert {one["status"] for one in outage.outcomes} <= GIVING_BACK
    assert {(row["status"], row["escrow"]) for row in outage.rows} == {("COMPENSATED", 0)}
    errors = {row["failure"]["error"] for row in outage.rows}
    assert "KycCircuitOpen" in errors
    assert errors <= {"KycUnavailable", "KycCircuitOpen"}
    assert {one.balances() for one in outage.payments} == {("100.00", "0.00")}
    for row in outage.rows:
        refused = row["failure"]["error"] == "KycCircuitOpen"
        assert refused == row["failure"]["cause"].startswith("kyc: not asked, as the circuit is")


def test_a_dead_provider_gets_a_bounded_number_of_calls(outage: Outage) -> None:
    assert outage.environments > 1, "one after the other proves nothing"
    assert outage.failures <= outage.calls <= outage.failures + 3 * outage.environments + outage.probes
    assert outage.calls < SETTLEMENTS * TRIES


def test_during_an_outage_the_circuit_is_open_and_announced(outage: Outage) -> None:
    assert outage.state in ("OPEN", "HALF_OPEN")
    assert outage.shown["state"] in ("OPEN", "HALF_OPEN")
    assert outage.shown["since"] is not None
    assert outage.shown["last_failure"] is not None
    assert outage.announced[0] == "OPEN"


def test_a_persons_order_closes_the_circuit_of_a_recovered_provider(outage: Outage) -> None:
    assert outage.probed["state"] == "CLOSED"


def test_payments_settle_again_after_an_outage_without_a_person(embedded: Embedded, outage: Outage) -> None:
    assert {one["status"] for one in outage.afterwards} == {"SETTLED"}
    assert circuit(embedded) == "CLOSED"
    assert embedded.conserved()
