import time
from collections.abc import Callable
from typing import Any

from settle.exit_codes import Exit
from settle.local import embedded_aws
from settle.local.demo import cost, outage, settlements, statement, stuck_reversal
from settle.settlements.machines import Machine
from settle.settlements.start import start_code
from settle.stack import embedded
from settlement.proof import table_scan

_UNFINISHED = (Exit.FAILED, Exit.IN_FLIGHT)


def run(report: Callable[[str], None]) -> tuple[dict[str, Any], bool]:
    running = embedded_aws.up(report)
    target, since = embedded(running), time.time()
    settled = []
    for machine in Machine:
        name = settlements.new_run(machine)
        report(f"{machine}: opening {settlements.open_accounts(target, name)} accounts")
        for one in settlements.settle_all(target, machine, name):
            settled.append(one)
            report(f"{machine}: {one.request['key']}")
    shown: dict[str, Any] = {
        "settlements": settlements.describe(settled, cost.since(target, since)),
        "limbo": stuck_reversal.walk(target, report),
        "outage": outage.walk(target, running.kyc_url, report),
        "statement": statement.walk(target, report),
        "reconciliation": table_scan.proof(target.store, target.config.currencies, target.row_keys),
    }
    has_settled = all(start_code(one.ended) not in _UNFINISHED for one in settled)
    proofs = ("limbo", "outage", "reconciliation")
    agrees = shown["statement"]["right"]["agrees"]
    faults = len(shown["statement"]["wrong"]["findings"])
    is_well = has_settled and agrees and faults == statement.FAULTS
    return shown, is_well and all(shown[name]["conserved"] for name in proofs)
