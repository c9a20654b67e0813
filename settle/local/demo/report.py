"""The demo's report: every request with its cost, the stuck reversal as on call meets it, the proof."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from settle.output import tables
from settle.output.console import cell, out, print_json, print_line, print_record, print_table

_COLUMNS = ("machine", "key", "parties", "amount", "outcome", "calls", "write_units", "read_units")


def demo(shown: Mapping[str, Any], as_json: bool) -> None:
    """Print the whole demo."""
    if as_json:
        print_json(shown)
        return
    _settlements(shown["settlements"])
    _stuck_reversal(shown["limbo"])
    _outage(shown["outage"])
    tables.findings(shown["reconciliation"], False)


def _settlements(lines: list[dict[str, Any]]) -> None:
    table = Table("machine", "key", "payer → payee", box=box.SIMPLE)
    table.add_column("amount", justify="right")
    table.add_column("outcome")
    for name in ("calls", "write units", "read units"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(*(cell(line[name]) for name in _COLUMNS))
    out.print(table)
    print_line(
        "calls, units: of DynamoDB, as its answers report them (the embedded one ignores items' sizes)"
    )


def _stuck_reversal(walked: Mapping[str, Any]) -> None:
    _heading("A payment is reversed whose payee has spent it. The on-call alert:")
    print_record(walked["alert"])
    _heading(walked["alert"]["next_command"])
    tables.case(walked["case"], False)
    _heading(walked["decided"])
    print_line(walked["notice"]["summary"])
    _heading(f"settle status {walked['settlement']['key']}")
    tables.settlement(walked["settlement"], False)
    verdict = "conserved" if walked["conserved"] else "NOT CONSERVED"
    print_line()
    print_line(f"{verdict} before, during and after LIMBO")
    print_line()


def _outage(outlasted: Mapping[str, Any]) -> None:
    _heading("The KYC provider fails, and comes back:")
    columns = ("provider", "key", "answered_after", "calls", "outcome", "error", "circuit")
    print_table(outlasted["payments"], columns, right=("answered_after", "calls"))
    verdict = "conserved" if outlasted["conserved"] else "NOT CONSERVED"
    print_line(f"the payer was refunded {outlasted['returned']} meanwhile; {verdict}")
    print_line()


def _heading(text: str) -> None:
    print_line()
    print_line(f"> {text}", style="bold")
