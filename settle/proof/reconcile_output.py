from collections.abc import Mapping
from typing import Any

from settle.bank import bank_output
from settle.output.console import or_json, print_line
from settlement.core.model.command import command


@or_json
def findings(proof: Mapping[str, Any], stack: str | None = None) -> None:
    for currency, kinds in proof["currencies"].items():
        parts = " + ".join(f"{kind} {amount}" for kind, amount in kinds.items() if kind != "sum")
        print_line(f"{currency}: {parts} = {kinds['sum']}")
    for fault in proof["faults"]:
        print_line(f"FAULT {fault}")
    for merchant, amount in proof["unswept"].items():
        sweep = command("account sweep", merchant, stack=stack)
        print_line(f"UNSWEPT {merchant}: {amount}; if it stays: {sweep}")
    for row in proof["unproven"]:
        print_line(f"UNPROVEN {row}")
    for row in proof["listed_ahead"]:
        print_line(f"LISTED AHEAD {row}")
    if not proof["signatures"]:
        print_line("NOT JUDGED: the signatures of the rows, which show who put them")
    verdict = "conserved" if proof["conserved"] else "NOT CONSERVED" if proof["faults"] else "NOT PROVEN"
    counts = ", ".join(f"{proof[name]} {name}" for name in ("accounts", "settlements", "entries"))
    print_line(f"{verdict}: {counts}, {proof['in_flight']} in flight")
    if "sealed_journal" in proof:
        sealed_journal(proof["sealed_journal"])
    if "bank" in proof:
        bank_output.lines(proof["bank"])


def sealed_journal(found: Mapping[str, Any]) -> None:
    for fault in found["faults"]:
        print_line(f"TAMPERED {fault}")
    for row in found["restored"]:
        print_line(f"RESTORED {row}; it is again as it was sealed, or has a status that may follow")
    verdict = "as sealed" if found["agrees"] else "NOT AS SEALED"
    counts = ", ".join(f"{found[name]} {name}" for name in ("rows", "objects", "seals"))
    expired = f", {found['expired']} expired" if found["expired"] else ""
    younger = f"{found['young']} too young, {found['before']} older than the journal{expired}"
    print_line(f"{verdict}: {counts}; {younger}")
    if found["head"]:
        print_line(f"head: {found['head']} of the seal up to {found['head_at']}; keep it elsewhere")
