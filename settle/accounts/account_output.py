from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line, print_record, print_table


@or_json
def account(statement: Mapping[str, Any]) -> None:
    unswept = statement.get("unswept", "") or "not known how much is"
    waiting = f", {unswept} not available yet" if "unswept" in statement else ""
    limbo = f", blocked by {statement['limbo_cases']} in LIMBO" if statement["limbo_cases"] else ""
    balance = "not known" if statement["available"] is None else statement["available"]
    print_line(f"{statement['account']}: {balance} {statement['currency']} available{waiting}{limbo}")
    if "complete_since" in statement:
        before = f"brought forward {statement['brought_forward']}; " if "brought_forward" in statement else ""
        print_line(f"complete since {statement['complete_since']}: {before}--archive shows what has expired")
    columns = ["posted_at", "key", "step", "change", "sum"]
    if any(entry.get("reference") for entry in statement["entries"]):
        columns.append("reference")
    print_table(statement["entries"], columns, right=("change", "sum"))


@or_json
def account_order(answer: Mapping[str, Any]) -> None:
    account = answer["account"]
    print_record(answer["order"] | {name: account[name] for name in account if name not in answer["order"]})
