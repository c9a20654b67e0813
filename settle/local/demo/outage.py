import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import urllib3

from settle.accounts import statement
from settle.accounts.accounts import open_account
from settle.exit_codes import CommandFailed, Exit
from settle.kyc import circuit
from settle.local.kyc_behaviour import Behaviour
from settle.settlements.machines import Machine
from settle.settlements.settlement import state_of
from settle.settlements.start import start
from settle.stack import Stack
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.proof import table_scan

PAYMENTS_DURING = 4
"""Three payments open the local stage's circuit; the fourth finds it open."""

RECOVERY_SECONDS_MAX = 180
_IN_FLIGHT = (Status.PROCESSING, Status.COMPENSATING)


def walk(stack: Stack, kyc_url: str, report: Callable[[str], None]) -> dict[str, Any]:
    run = secrets.token_hex(3)
    payer, payee = f"ines.{run}", f"jonas.{run}"
    for account, deposit in ((payer, "100.00"), (payee, "0")):
        open_account(stack, account, "EUR", deposit)

    def pay(number: int, provider: str) -> dict[str, Any]:
        key = f"demo-outage-{run}-{number}"
        request = {"key": key, "payer": payer, "payee": payee, "amount": "5.00", "currency": "EUR"}
        calls, began = _control(kyc_url)["calls"], time.monotonic()
        start(stack, Machine.EXPRESS, json.dumps(request))
        seconds = time.monotonic() - began
        state = _finished(stack, key)
        return {
            "provider": provider,
            "key": key,
            "answered_after": f"{seconds:.1f} s",
            "calls": _control(kyc_url)["calls"] - calls,
            "outcome": state.status.value,
            "error": (state.failure or {}).get("error"),
            "circuit": circuit.status(stack)["state"],
        }

    report("outage: the KYC provider fails")
    _control(kyc_url, behaviour=Behaviour.ERROR)
    try:
        payments = [pay(number, "fails") for number in range(PAYMENTS_DURING)]
    finally:
        _control(kyc_url, behaviour=Behaviour.APPROVE)
    during, returned = table_scan.check(stack.store).conserved, statement.show(stack, payer)["available"]
    report("outage: the provider is back")
    give_up_at = time.monotonic() + RECOVERY_SECONDS_MAX
    while payments[-1]["outcome"] != Status.SETTLED:
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"no payment settled within {RECOVERY_SECONDS_MAX} s")
        time.sleep(1)
        payments.append(pay(len(payments), "is back"))
    return {
        "payments": payments,
        "returned": f"{returned} EUR of 100.00 EUR",
        "conserved": during and table_scan.check(stack.store).conserved,
    }


def _control(kyc_url: str, **settings: str) -> dict[str, Any]:
    answer = urllib3.request("PUT" if settings else "GET", f"{kyc_url}/control", json=settings or None)
    described: dict[str, Any] = answer.json()
    return described


def _finished(stack: Stack, key: str) -> SettlementState:
    give_up_at = time.monotonic() + RECOVERY_SECONDS_MAX
    while (state := state_of(stack, key)).status in _IN_FLIGHT:
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"{key} is still {state.status}")
        time.sleep(0.1)
    return state
