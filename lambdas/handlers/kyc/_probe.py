from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import InvalidRequest, StartUnavailable
from settlement.http.caller import Caller
from settlement.http.circuit import PROBE

_EVENT = {"check": "now"}
"""The event that makes VerifyKyc probe, as `NOW` in `verify_kyc.py`. Only VerifyKyc reaches the provider."""


def probe(body: object, caller: Caller) -> dict[str, Any]:
    """Probe the provider now, and return the circuit's state. Raises InvalidRequest and StartUnavailable.

    Nothing is recorded: the circuit would probe within seconds anyway.
    """
    if body != {}:
        raise InvalidRequest("order: must be an empty JSON object, as a probe has no fields")
    try:
        return functions.call("VERIFY_KYC", _EVENT)
    except StartUnavailable as error:
        raise StartUnavailable(f"probe: VerifyKyc: {error}") from None


ORDERS = {PROBE: (probe, None)}
