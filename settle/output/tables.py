"""Answers of the commands: a settlement, cases of LIMBO, an account, the reconciliation."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from settle.output import spark
from settle.output.console import note, print_json, print_line, print_record, print_table
from settlement.model.command import command

_CASE = (
    *("key", "case", "since", "account", "stuck_step", "amount_at_risk", "currency", "error"),
    *("proposed", "approvals"),
)


def settlement(result: Mapping[str, Any], as_json: bool) -> None:
    """Print the state of a settlement, its journal, and whether it is safe to retry."""
    if as_json:
        print_json(result)
        return
    apart = ("executions", "activity", "entries", "retry")
    print_record({name: value for name, value in result.items() if name not in apart})
    if result["activity"]:
        print_line(result["activity"])
    columns = ("posted_at", "step", "moved", "amount", "escrow", "note")
    print_line()
    print_table(result["entries"], columns, right=("amount", "escrow"))
    times = [("", result["claimed_at"]), *((one["step"], one["posted_at"]) for one in result["entries"])]
    if told := spark.line(times):
        print_line(f"timeline: {told}")
    retry = result["retry"]
    print_line()
    print_line("Is it safe to retry this key?")
    print_line(f"  the same key: {retry['same_key']}")
    print_line(f"  a new key:    {retry['new_key']}")
    for line in retry["evidence"]:
        print_line(f"  evidence:     {line}")


def cases(open_cases: list[dict[str, Any]], as_json: bool) -> None:
    """Print every settlement in LIMBO."""
    if as_json:
        print_json(open_cases)
    elif open_cases:
        print_table(open_cases, _CASE, right=("amount_at_risk",))
    else:
        print_line("no settlement is in LIMBO")


def case(stuck: Mapping[str, Any], as_json: bool) -> None:
    """Print a settlement in LIMBO, and the decisions that can be made."""
    if as_json:
        print_json(stuck)
        return
    print_record({name: value for name, value in stuck.items() if name not in ("decisions", "proposal")})
    if proposal := stuck.get("proposal"):
        by, until = proposal["proposed_by"], proposal["valid_until"]
        print_line()
        print_line(f"proposed by {by}: {proposal['decision']}: {proposal['reason']}")
        print_line(f"  approvals: {proposal['approvals']}, until {until}")
        print_line(f"  {proposal['command']}")
    for one in stuck["decisions"]:
        print_line()
        print_line(f"{one['decision']}: {one['effect']}")
        if one["command"]:
            print_line(f"  {one['command']}")


def account(statement: Mapping[str, Any], as_json: bool) -> None:
    """Print an account and its statement."""
    if as_json:
        print_json(statement)
        return
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


def account_order(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print an order on an account as it is on record, and the account's state."""
    if as_json:
        print_json(answer)
        return
    account = answer["account"]
    print_record(answer["order"] | {name: account[name] for name in account if name not in answer["order"]})


def swept(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print what a sweep by hand has made available, by minute."""
    if as_json:
        print_json(answer)
        return
    print_line(f"{answer['account']}: {answer['folded']} {answer['currency']} made available")
    if answer["minutes"]:
        print_table(answer["minutes"], ("minute", "folded"), right=("folded",))


def filled(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print what was copied to the sealed journal by hand."""
    if as_json:
        print_json(answer)
        return
    print_line(f"{answer['rows']} rows copied to the sealed journal, in {len(answer['objects'])} objects")
    for name in answer["objects"]:
        print_line(name)


def started(answer: Mapping[str, Any], as_json: bool) -> None:
    """Print how a settlement that was started has ended: its outcome, or an error."""
    if as_json:
        print_json(answer)
    elif "error" not in answer:
        print_record(answer)
    else:
        note(f"{answer['key']}: {answer['error']}: {answer['message']}")


def permissions(kinds: list[dict[str, Any]], as_json: bool) -> None:
    """Print a line for each order with the kinds of people that may give it, then the policies."""
    if as_json:
        print_json(kinds)
        return
    names = [one["kind"] for one in kinds]
    orders = sorted({order for one in kinds for order in one["orders"]})
    lines = [{"order": "(look)"} | {one["kind"]: "yes" if one["reads"] else "" for one in kinds}]
    lines += [
        {"order": order} | {one["kind"]: "yes" if order in one["orders"] else "" for one in kinds}
        for order in orders
    ]
    print_table(lines, ("order", *names))
    print_line()
    print_record({one["kind"]: one["policy"] for one in kinds})


def preflight(found: list[dict[str, str]], as_json: bool) -> None:
    """Print a line for each check, and below them what to do about those that are not fine."""
    if as_json:
        print_json(found)
        return
    print_table(found, ("check", "verdict", "found"))
    for one in found:
        if one["do"]:
            print_line(f"{one['check']}: {one['do']}")


def projected(found: Mapping[str, Any], as_json: bool) -> None:
    """Print what a projection has done."""
    if as_json:
        print_json(found)
        return
    for fault in found["unreadable"]:
        print_line(fault)
    counted = {name: value for name, value in found.items() if name != "unreadable"}
    print_record({name.replace("_", " "): str(value) for name, value in counted.items()})


def followed(found: Mapping[str, Any], as_json: bool) -> None:
    """Print what a round of the projection has done, on one line."""
    if as_json:
        print_json(found)
        return
    behind = "unknown" if found["behind_seconds"] is None else f"{found['behind_seconds']} s"
    names = ("objects", "entries", "put_aside", "late")
    counted = (f"{found[name]} {name.replace('_', ' ')}" for name in names)
    faults = (
        [f"{len(found['unreadable'])} unreadable: {found['unreadable'][0]}"] if found["unreadable"] else []
    )
    faults += [found["fault"]] if found["fault"] else []
    print_line(f"{found['at']}  behind: {behind}  " + ", ".join((*counted, *faults)))


def verified(found: Mapping[str, Any], as_json: bool) -> None:
    """Print the verdict on the books, and each difference on a line."""
    if as_json:
        print_json(found)
        return
    for told in found["differences"]:
        print_line(told)
    if found["more"]:
        print_line(f"and {found['more']} more")
    if found["put_aside"]:
        print_line(f"{found['put_aside']} lines were put aside: settle ledger put-aside")
    if found["suspense"]:
        print_line(f"{found['suspense']} entries came after their month was closed: see ledger.suspense")
    verdict = "agree" if found["agrees"] else "differ"
    print_line(
        f"books and table {verdict}: {found['entries']} entries up to {found['until']},"
        f" {found['on_their_way']} later ones, {found['behind_seconds']} s behind, digest {found['digest']}"
    )


def put_aside(found: list[dict[str, Any]], as_json: bool) -> None:
    """Print the lines that are in no book."""
    if as_json:
        print_json(found)
        return
    print_table(found, ("put_at", "object", "reason"))


def acceptance(found: Mapping[str, Any], as_json: bool) -> None:
    """Print a line for each check, what the run had to leave, and the verdict on the whole."""
    if as_json:
        print_json(found)
        return
    print_table(found["results"], ("check", "verdict", "evidence"))
    for one in found["left"]:
        print_line(f"LEFT {one}")
    counts = Counter(one["verdict"] for one in found["results"])
    figures = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print_line(f"{'passed' if found['passed'] else 'NOT PASSED'}: {figures}; run {found['run']}")


def policy(found: Mapping[str, Any], as_json: bool) -> None:
    """Print a policy: its ARN, and its document as AWS has it."""
    if as_json:
        print_json(found)
        return
    print_line(found["policy"])
    for line in json.dumps(found["document"], indent=2).splitlines():
        print_line(line)


def findings(proof: Mapping[str, Any], as_json: bool, stack: str | None = None) -> None:
    """Print the sums of each currency, and every row that breaks them."""
    if as_json:
        print_json(proof)
        return
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
        print_line("NOT JUDGED: the signatures of the rows, which tell who put them")
    verdict = "conserved" if proof["conserved"] else "NOT CONSERVED" if proof["faults"] else "NOT PROVEN"
    counts = ", ".join(f"{proof[name]} {name}" for name in ("accounts", "settlements", "entries"))
    print_line(f"{verdict}: {counts}, {proof['in_flight']} in flight")
    if "sealed_journal" in proof:
        sealed_journal(proof["sealed_journal"])


def sealed_journal(found: Mapping[str, Any]) -> None:
    """Print the result of a comparison with the sealed journal, and the digest to keep."""
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
