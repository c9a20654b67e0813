"""A person's order to look now whether the KYC provider is back."""

from typing import Any

from settlement.adapters import functions
from settlement.model.caller import Caller
from settlement.model.errors import InvalidRequest, StartUnavailable

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
