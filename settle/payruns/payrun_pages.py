"""The console's pages of runs, and a run's report. They show commands instead of giving orders."""

from collections.abc import Mapping
from typing import Any

from settle.payruns import on_record, results
from settle.payruns.on_record import OnRecord
from settle.stack import Stack

LINES_MAX = 2_000
"""Lines on a page of the console. The report has all of them."""


def payruns(stack: Stack, _: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    unreadable = dict[str, str]()
    lines = [on_record.line_of(stack, one) for one in on_record.every(stack, unreadable)]
    return "payruns.html", {"lines": lines, "unreadable": [*unreadable.values()]}


def payrun(stack: Stack, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a run's page: template and values. Raises CommandFailed, MalformedRow."""
    return described(stack, on_record.find(stack, given["run"]), lines_max=LINES_MAX)


def described(stack: Stack, one: OnRecord, lines_max: int | None = None) -> tuple[str, dict[str, Any]]:
    """Return the template and its values. If `lines_max` cuts lines, lines with a command come first."""
    file = on_record.file_of(stack, one.proposal)
    found = list(results.lines(stack, one, file))
    shown = found
    if lines_max is not None and len(found) > lines_max:
        shown = sorted(found, key=lambda line: not line["next"].startswith("settle "))[:lines_max]
    return "payrun.html", {
        "run": on_record.shown(stack, one, file),
        "lines": shown,
        "left": len(found) - len(shown),
        "report": stack.command("payrun report", one.state.run),
        "now": results.counted(found),
    }


NAME = "Pay runs"
PAGES = {"/payruns": payruns, "/payruns/{run}": payrun}
