"""A person's order to look now whether the KYC provider is back."""

from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import InvalidRequest, StartUnavailable
from settlement.http.caller import Caller
from settlement.kyc.circuit import PROBE

_EVENT = {"check": "now"}
"""The event of VerifyKyc, as `verify_kyc.py` has it: no other function reaches the provider."""


def probe(body: object, caller: Caller) -> dict[str, Any]:
    """Let the circuit have its probe now; return its state then. Raises InvalidRequest, StartUnavailable.

    Nothing is recorded: no payment is decided, and the circuit does the same within seconds.
    """
    if body != {}:
        raise InvalidRequest("order: must be an empty JSON object, as a probe has no fields")
    try:
        return functions.call("VERIFY_KYC", _EVENT)
    except StartUnavailable as error:
        raise StartUnavailable(f"probe: VerifyKyc: {error}") from None


ORDERS = {PROBE: (probe, None)}
"""The orders of this room."""
