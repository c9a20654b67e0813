"""A bank behind its circuit, which is checked before a send is recorded."""

from settlement.http.circuit import BANK, HEALTH, payment
from settlement.http.shared_circuit import Lease, Named, NotAdmitted, SharedCircuit
from settlement.payouts.payout import State
from settlement.payouts.port import Accepted, Bank, Found, NeverSeen, NotSendable, Refused, Unknown

CIRCUIT = Named(name=BANK, metric="BankCircuitClockAhead")

OPEN = "the circuit around the bank is open"
NOT_ADMITTED = "the circuit around the bank has not admitted this send"


class Guarded:
    """A bank behind its circuit, for one thread.

    `request` gets the circuit's lease for the next `submit` of the same payout.
    A probe that is not sent is replaced after the circuit's `recovery_seconds`.
    """

    def __init__(self, bank: Bank, circuit: SharedCircuit) -> None:
        self.declared = bank.declared
        self._bank, self._circuit = bank, circuit
        self._admitted: tuple[str, Lease] | None = None

    def request(self, state: State) -> bytes:
        self._admitted = None
        body = self._bank.request(state)  # before the circuit: a refusal must not take the lease of the probe
        try:
            self._admitted = (state.key, self._admit(state))
        except NotAdmitted:
            raise NotSendable(OPEN) from None
        return body

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        admitted, self._admitted = self._admitted, None
        if admitted is None or admitted[0] != state.key:
            return Unknown(NOT_ADMITTED)
        answer = self._bank.submit(state, body)
        self._note(admitted[1], answer)
        return answer

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        try:
            lease = self._admit(state)
        except NotAdmitted:
            return Unknown(OPEN)
        answer = self._bank.find(state)
        self._note(lease, answer)
        return answer

    def _admit(self, state: State) -> Lease:
        """Admit a call about a payout. Raises NotAdmitted.

        A sent payout is admitted like a health check: the send may have failed, and this may be the only
        payout left to probe with.
        """
        name = payment(state.key)
        lease = self._circuit.admit(HEALTH if state.is_sent else name)
        return lease if lease.probe else Lease(name)

    def _note(self, lease: Lease, answer: object) -> None:
        if isinstance(answer, Unknown):
            self._circuit.failed(lease)
        else:
            self._circuit.answered(lease)
