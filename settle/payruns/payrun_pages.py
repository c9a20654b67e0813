"""The console's pages of runs, and the report of one. They give no order: they have the commands."""

from collections.abc import Mapping
from typing import Any

from settle.payruns import on_record, results
from settle.payruns.on_record import OnRecord
from settle.stack import Stack


def payruns(stack: Stack, _: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    unreadable = dict[str, str]()
    lines = [on_record.line_of(stack, one) for one in on_record.every(stack, unreadable)]
    return "payruns.html", {"lines": lines, "unreadable": [*unreadable.values()]}


def payrun(stack: Stack, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Raises CommandFailed, MalformedRow."""
    return described(stack, on_record.find(stack, given["run"]))


def described(stack: Stack, one: OnRecord) -> tuple[str, dict[str, Any]]:
    file = on_record.file_of(stack, one.proposal)
    found = list(results.lines(stack, one, file))
    return "payrun.html", {
        "run": on_record.shown(stack, one, file),
        "lines": found,
        "now": results.counted(found),
    }


NAME = "Pay runs"
PAGES = {"/payruns": payruns, "/payruns/{run}": payrun}
