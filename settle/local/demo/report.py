from collections.abc import Mapping
from typing import Any

from settle.bank import bank_output
from settle.orders import limbo_output
from settle.output.console import or_json, print_line, print_record, print_table
from settle.proof import reconcile_output
from settle.settlements import settlement_output
from settle.settlements.machines import Machine
from settlement.core.model.command import command
from settlement.core.model.status import Status


@or_json
def demo(shown: Mapping[str, Any]) -> None:
    _settlements(shown["settlements"])
    _stuck_reversal(shown["limbo"])
    _outage(shown["outage"])
    _statements(shown["statement"])
    reconcile_output.findings(shown["reconciliation"], False)
    _try_next(shown["settlements"])


@or_json
def bank(shown: Mapping[str, Any]) -> None:
    _heading("Nine payouts at the simulated bank:")
    columns = ("key", "bank", "amount", "attempts", "status")
    print_table(shown["payouts"], columns, right=("amount", "attempts"))
    print_line()
    print_line("two persons gave the payout of the closed account to the customer's new one,")
    print_line("and booked the money that nobody sent")
    print_line()
    reconcile_output.findings(shown["reconciliation"], False)
    currency = shown["currency"]
    print_line(f"sent: {shown['sent']}, distinct: {shown['distinct']}, paid twice: {shown['paid_twice']}")
    print_line(
        f"external:{currency} has grown by {shown['moved_in_books']},"
        f" the account at the bank by {shown['moved_in_bank']}"
    )


@or_json
def payrun(shown: Mapping[str, Any]) -> None:
    run = shown["run"]
    _heading(f"A pay run of {run['lines']} lines, which two persons decided:")
    print_record({name: run[name] for name in ("name", "status", "proposed_by", "approved_by", "digest")})
    print_line()
    reconcile_output.findings(shown["reconciliation"], False)
    currency = shown["currency"]
    print_line(f"functions killed: {shown['killed']}, keys: {shown['keys']}, outcomes: {shown['outcomes']}")
    if shown["reversed_for"]:
        print_line(f"reversed for: {shown['reversed_for']}")
    print_line(
        f"the file: {shown['sum_of_the_file']} {currency}, its results: {shown['sum_of_the_results']},"
        f" left the shop: {shown['left_the_shop']}"
    )
    print_line(f"one report, line by line: {command('payrun report', run['run'])}")


def _settlements(lines: list[dict[str, Any]]) -> None:
    columns = ("key", "amount", "outcome", "calls", "units")
    for machine in Machine:
        sent = [_line(line) for line in lines if line["machine"] == machine]
        if sent:
            _heading(f"The examples on the {machine} machine:")
            print_table(sent, columns, right=("amount", "calls", "units"))
    print_line()
    print_line("calls, units: of DynamoDB, to write + to read, as its answers report them")
    print_line("(the embedded one ignores the size of items)")


def _line(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"units": f"{line['write_units']:g}+{line['read_units']:g}"}


def _stuck_reversal(walked: Mapping[str, Any]) -> None:
    _heading("A payment is reversed whose payee has spent it. The on-call alert:")
    print_record(walked["alert"])
    _heading(walked["alert"]["next_command"])
    limbo_output.case(walked["case"], False)
    _heading(walked["decided"])
    print_line(walked["notice"]["summary"])
    _heading(command("status", walked["settlement"]["key"]))
    settlement_output.settlement(walked["settlement"], False)
    verdict = "conserved" if walked["conserved"] else "NOT CONSERVED"
    print_line()
    print_line(f"{verdict} before, during and after LIMBO")


def _statements(compared: Mapping[str, Any]) -> None:
    _heading("The bank's statement beside the books, and one with six faults:")
    for found in compared.values():
        bank_output.lines(found)
        print_line()


def _outage(outlasted: Mapping[str, Any]) -> None:
    _heading("Payments while the KYC provider fails, and once it is back:")
    paid = [line | {"took": line["answered_after"]} for line in outlasted["payments"]]
    print_table(paid, ("key", "outcome", "error", "took", "calls", "circuit"), right=("took", "calls"))
    verdict = "conserved" if outlasted["conserved"] else "NOT CONSERVED"
    print_line(f"the payer was refunded {outlasted['returned']} meanwhile; {verdict}")
    print_line()


def _try_next(settlements: list[dict[str, Any]]) -> None:
    settled = next((line["key"] for line in settlements if line["outcome"] == Status.SETTLED), None)
    if settled is None:
        return
    print_line()
    print_line("The embedded AWS stays up. Try next:", style="bold")
    print_line()
    for purpose, line in (
        ("let this shell find the command", 'export PATH="$PWD/.venv/bin:$PATH"'),
        ("a settlement: its journal, and whether it is safe to retry", command("status", settled)),
        ("give its payer everything back", command("reverse", settled, reason="goods came back")),
        ("the account that has the fees, and its statement", "settle account show fees:EUR"),
        ("settlements in flight and in LIMBO, until Ctrl-C", "settle watch"),
        ("prove that no money was lost or made", "settle reconcile"),
        ("stop the embedded AWS, and remove everything on it", "settle local down"),
    ):
        print_line(f"  # {purpose}")
        print_line(f"  {line}")


def _heading(text: str) -> None:
    print_line()
    print_line(f"> {text}", style="bold")
