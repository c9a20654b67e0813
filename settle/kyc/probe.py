from typing import Any

from settle.kyc import circuit
from settle.order import give
from settle.stack import Stack
from settlement.http.circuit import PROBE, State


def probe(stack: Stack) -> tuple[dict[str, Any], str | None]:
    """Order a probe now. Return the circuit, and the next step if the circuit is not closed.

    Safe to repeat: an order asks the provider for its health once, or lets one payment through.
    """
    answer = give(stack, PROBE, {})
    return circuit.status(stack), None if answer["state"] == State.CLOSED else _next(answer)


def _next(answer: dict[str, Any]) -> str:
    if answer["state"] == State.HALF_OPEN:
        return "a probe is under way: look again with `settle kyc status`"
    if answer["probe"] == "payment":
        return "the provider reports no health: the next payment that has not failed lately is the probe"
    return "the provider is not healthy yet"
