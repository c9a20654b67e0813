"""The circuit around the KYC provider, which all environments of VerifyKyc share."""

from collections.abc import Callable
from typing import Any

from settlement.core.model.errors import KycCircuitOpen, KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.http.circuit import HEALTH, KYC, State, payment
from settlement.http.shared_circuit import Announce, Named, NotAdmitted, SharedCircuit
from settlement.kyc.client import Refused

CIRCUIT = Named(name=KYC, metric="KycCircuitClockAhead")

Ask = Callable[..., Verdict | Refused]
"""Asks the provider about a settlement, the first argument."""


def guarded(ask: Ask, circuit: SharedCircuit, measure: Announce) -> Ask:
    """Guard `ask` with the circuit. The returned function may raise KycCircuitOpen.

    `measure` is called with the state at each refused and each answered call.
    """

    def ask_guarded(settlement: Settlement, *rest: Any) -> Verdict | Refused:
        try:
            lease = circuit.admit(payment(settlement.key))
        except NotAdmitted as refusal:
            measure(refusal.state)
            if refusal.state is State.OPEN:
                raise KycCircuitOpen("kyc: not asked, as the circuit is open") from None
            # It may close within a second, so the machine should try again.
            raise KycUnavailable("kyc: not asked, as a probe is under way") from None
        try:
            answer = ask(settlement, *rest)
        except KycUnavailable:
            circuit.failed(lease)
            raise
        circuit.answered(lease)
        measure(State.CLOSED)
        return answer

    return ask_guarded


def check_health(circuit: SharedCircuit, is_healthy: Callable[[], bool]) -> None:
    try:
        lease = circuit.admit(HEALTH)
    except NotAdmitted:
        return
    if not lease.probe:
        return
    if is_healthy():
        circuit.answered(lease)
    else:
        circuit.failed(lease)


def probe_now(circuit: SharedCircuit, is_healthy: Callable[[], bool] | None) -> State:
    """Probe the provider now, and return the circuit's new state. Raises ClientError, BotoCoreError.

    Without a health check, the next payment is the probe.
    """
    circuit.make_due()
    if is_healthy:
        check_health(circuit, is_healthy)
    return circuit.state
