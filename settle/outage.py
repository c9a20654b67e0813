"""The demo's outage of the KYC provider: payments fail fast, get their money back, and flow again."""

import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import urllib3

from settle import accounts, journal, kyc, ledger
from settle.failures import CommandFailed, Exit
from settle.kyc_simulator import Behaviour
from settle.stack import Stack
from settle.starting import Machine, start
from settlement.status import Status

PAYMENTS_DURING = 3
RECOVERY_SECONDS_MAX = 60
_GIVING_BACK = (Status.PROCESSING, Status.COMPENSATING)


def walk(stack: Stack, kyc_url: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Let the provider fail, pay, bring it back, pay until a payment settles; prove the sums throughout."""
    run = secrets.token_hex(3)
    payer, payee = f"ines.{run}", f"jonas.{run}"
    for account, deposit in ((payer, "100.00"), (payee, "0")):
        accounts.open_account(stack, account, "EUR", deposit)

    def pay(number: int, provider: str) -> dict[str, Any]:
        key = f"demo-outage-{run}-{number}"
        request = {"key": key, "payer": payer, "payee": payee, "amount": "5.00", "currency": "EUR"}
        calls, began = _control(kyc_url)["calls"], time.monotonic()
        start(stack, Machine.EXPRESS, json.dumps(request))
        seconds = time.monotonic() - began
        row = _ended(stack, key)
        return {
            "provider": provider,
            "key": key,
            "answered_after": f"{seconds:.1f} s",
            "calls": _control(kyc_url)["calls"] - calls,
            "outcome": row["status"],
            "error": row.get("failure", {}).get("error"),
            "circuit": kyc.status(stack)["state"],
        }

    report("outage: the KYC provider fails")
    _control(kyc_url, behaviour=Behaviour.ERROR)
    try:
        payments = [pay(number, "fails") for number in range(PAYMENTS_DURING)]
    finally:
        _control(kyc_url, behaviour=Behaviour.APPROVE)
    during, returned = ledger.check(stack).conserved, accounts.show(stack, payer)["available"]
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
        "conserved": during and ledger.check(stack).conserved,
    }


def _control(kyc_url: str, **told: str) -> dict[str, Any]:
    """Tell the simulated provider what to do, or nothing; return what it does and has seen."""
    answer = urllib3.request("PUT" if told else "GET", f"{kyc_url}/control", json=told or None)
    described: dict[str, Any] = answer.json()
    return described


def _ended(stack: Stack, key: str) -> dict[str, Any]:
    """The settlement's row once its money is where it belongs."""
    give_up_at = time.monotonic() + RECOVERY_SECONDS_MAX
    while (row := journal.row_of(stack, key))["status"] in _GIVING_BACK:
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"{key} is still {row['status']}")
        time.sleep(0.1)
    return row
