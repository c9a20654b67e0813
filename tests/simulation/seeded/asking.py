"""Checks that a KYC exchange ends in time, and that its failure never stalls a payment."""

import json

from handlers.kyc import _provider as _kyc
from settlement.core.policy.compensation import CUT_OFF
from tests.simulation.seeded.facts import demand
from tests.world.definitions import stalling
from tests.world.interpreter import Execution

EXCHANGE_MS = _kyc._client.endpoint.exchange_seconds * 1000
"""The KYC client's timeout, verified in `tests/kyc`."""


def is_counted(milliseconds_left: int, key: str) -> None:
    """Check that a failed exchange is counted before Lambda ends the function."""
    demand(milliseconds_left > 0, "a failed exchange is counted before Lambda ends its function", key)


def is_no_stall(execution: Execution) -> None:
    """Check that a payment without a KYC answer does not stall, unless the stage has checks."""
    if (
        execution.machines.definitions is stalling()
        or execution.status != "FAILED"
        or execution.error["Error"] != "SettlementStalled"
    ):
        return
    if execution.visited[-2] == "VerifyKyc":
        error = json.loads(execution.error["Cause"])["Error"]
        demand(error not in CUT_OFF, "a payment without a verdict in time is reversed", execution.name)
