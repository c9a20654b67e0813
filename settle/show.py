"""Printing: tables for people on a terminal, JSON for scripts, progress on standard error."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from settle.printing import cell, err, out, print_json, print_table
from settle.starting import Ended


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show what is going on: a spinner on a terminal, else a line for each change of what goes on."""
    began = time.monotonic()

    def line(text: str) -> None:
        err.print(f"[{time.monotonic() - began:5.1f} s] {text}")

    if not err.is_terminal:
        yield line
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


def record(fields: Mapping[str, Any], as_json: bool) -> None:
    """One record, a field a line."""
    if as_json:
        print_json(fields)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        table.add_row(name, cell(value))
    out.print(table)


def note(text: str) -> None:
    """Something that a person should know besides the answer, on standard error."""
    err.print(text, soft_wrap=True)


def settlement(result: Mapping[str, Any], as_json: bool) -> None:
    """How a settlement stands, how it came to stand so, and whether it is safe to retry."""
    if as_json:
        print_json(result)
        return
    record({name: value for name, value in result.items() if name not in ("entries", "retry")}, False)
    columns = ("posted_at", "step", "moved", "amount", "escrow", "note")
    print_table(result["entries"], columns, right=("amount", "escrow"))
    retry = result["retry"]
    out.print("Is it safe to retry this key?")
    out.print(f"  the same key: {retry['same_key']}", soft_wrap=True)
    out.print(f"  a new key:    {retry['new_key']}", soft_wrap=True)
    for line in retry["evidence"]:
        out.print(f"  evidence:     {line}", soft_wrap=True)


def cases(open_cases: list[dict[str, Any]], as_json: bool) -> None:
    """Every settlement in LIMBO."""
    if as_json:
        print_json(open_cases)
    elif open_cases:
        print_table(open_cases, tuple(open_cases[0]), right=("amount_at_risk",))
    else:
        out.print("no settlement is in LIMBO")


def case(stuck: Mapping[str, Any], as_json: bool) -> None:
    """A settlement in LIMBO, and what may be decided about it."""
    if as_json:
        print_json(stuck)
        return
    record({name: value for name, value in stuck.items() if name != "decisions"}, False)
    for one in stuck["decisions"]:
        out.print(f"\n{one['decision']}: {one['effect']}", soft_wrap=True)
        if one["command"]:
            out.print(f"  {one['command']}", soft_wrap=True)


def account(statement: Mapping[str, Any], as_json: bool) -> None:
    """An account and its statement."""
    if as_json:
        print_json(statement)
        return
    limbo = f", in LIMBO for {', '.join(statement['limbo_keys'])}" if statement["limbo_keys"] else ""
    title = f"{statement['account']}: {statement['available']} {statement['currency']} available{limbo}"
    table = Table("posted at", "key", "step", title=title, title_justify="left")
    table.add_column("change", justify="right")
    table.add_column("balance", justify="right")
    for entry in statement["entries"]:
        table.add_row(*(entry[name] for name in ("posted_at", "key", "step", "change", "balance")))
    out.print(table)


def ended(ended: Ended, as_json: bool) -> None:
    """How a settlement that was started has ended."""
    if as_json:
        print_json(ended.describe())
    elif ended.outcome:
        record(ended.outcome, as_json)
    else:
        err.print(f"{ended.key}: {ended.error}: {ended.message}", soft_wrap=True)


def demo(shown: Mapping[str, Any], as_json: bool) -> None:
    """Every request of the demo, the stuck compensation as the person on call would meet it, the proof."""
    if as_json:
        print_json(shown)
        return
    settlements(shown["settlements"])
    _walkthrough(shown["limbo"])
    _outage(shown["outage"])
    findings(shown["reconciliation"], False)


def settlements(lines: list[dict[str, Any]]) -> None:
    """How each request of the demo ended, and what it cost."""
    table = Table("machine", "key", "payer → payee", box=box.SIMPLE)
    table.add_column("amount", justify="right")
    table.add_column("outcome")
    table.add_column("calls", justify="right")
    table.add_column("units", justify="right")
    for line in lines:
        table.add_row(*(cell(line[name]) for name in _DEMO_COLUMNS))
    out.print(table)
    out.print("calls, units: to DynamoDB, as its answers report them (the embedded one ignores items' sizes)")


def findings(result: Mapping[str, Any], as_json: bool) -> None:
    """The conservation line, and every row that breaks it."""
    if as_json:
        print_json(result)
        return
    for currency, kinds in result["currencies"].items():
        parts = " + ".join(f"{kind} {amount}" for kind, amount in kinds.items() if kind != "sum")
        out.print(f"{currency}: {parts} = {kinds['sum']}", soft_wrap=True)
    for fault in result["faults"]:
        out.print(f"FAULT {fault}", soft_wrap=True)
    for row in result["unproven"]:
        out.print(f"UNPROVEN {row}", soft_wrap=True)
    verdict = "conserved" if result["conserved"] else "NOT CONSERVED" if result["faults"] else "NOT PROVEN"
    counts = ", ".join(f"{result[name]} {name}" for name in ("accounts", "settlements", "entries"))
    out.print(f"{verdict}: {counts}, {result['in_motion']} in motion")


_DEMO_COLUMNS = ("machine", "key", "parties", "amount", "outcome", "calls", "units")


def _walkthrough(walked: Mapping[str, Any]) -> None:
    _heading("A payment is reversed whose payee has spent it. The page says:")
    record(walked["page"], False)
    _heading(walked["page"]["next_command"])
    case(walked["case"], False)
    _heading(walked["decided"])
    out.print(walked["news"]["summary"], soft_wrap=True)
    _heading(f"settle status {walked['settlement']['key']}")
    settlement(walked["settlement"], False)
    verdict = "conserved" if walked["conserved"] else "NOT CONSERVED"
    out.print(f"\n{verdict} before, during and after LIMBO\n")


def _outage(outlasted: Mapping[str, Any]) -> None:
    _heading("The KYC provider fails, and comes back:")
    columns = ("provider", "key", "answered_after", "calls", "outcome", "error", "circuit")
    print_table(outlasted["payments"], columns, right=("answered_after", "calls"))
    verdict = "conserved" if outlasted["conserved"] else "NOT CONSERVED"
    out.print(f"the payer got back {outlasted['returned']} meanwhile; {verdict}\n")


def _heading(text: str) -> None:
    out.print(f"\n> {text}", style="bold", soft_wrap=True)
