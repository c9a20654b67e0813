"""The pages' HTML, from templates that escape each value."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from settle.instants import distance, seconds_since
from settle.output.page import graph
from settle.output.printable import printable
from settle.queries.path import COMPENSATION, SETTLEMENT
from settlement.model.status import Status

_TEMPLATES = Path(__file__).parent / "templates"
_MEANINGS = {
    Status.PROCESSING: "In flight, in review, or stalled.",
    Status.SETTLED: "The payee has the net amount, and the stage has its fee.",
    Status.REJECTED: "Refused before anything was held.",
    Status.COMPENSATING: "A reversal is under way.",
    Status.COMPENSATED: "The payer has the whole amount back.",
    Status.LIMBO: "A reversal is stuck, and waits for a person's decision.",
}


def settlement(report: Mapping[str, Any]) -> str:
    """Return the page of a report on one settlement."""
    graphs = []
    for machine in (SETTLEMENT, COMPENSATION):
        walks = [walk for walk in report["walks"] if walk.machine == machine]
        if walks:
            graphs.append({"machine": machine, "walks": walks, "drawing": graph.marked(machine, walks)})
    meaning = _MEANINGS[Status(report["outcome"]["status"])]
    return _page("settlement.html", report=report, graphs=graphs, meaning=meaning)


def queue(snapshot: Mapping[str, Any]) -> str:
    """Return the page of the queue of cases and of settlements in flight."""
    at = datetime.fromisoformat(snapshot["at"])

    def ago(instant: str | None) -> str:
        return "" if instant is None or seconds_since(instant, at) is None else distance(instant, at)

    return _page("queue.html", queue=snapshot, ago=ago)


def _page(template: str, **values: Any) -> str:
    style = (_TEMPLATES / "style.css").read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment().get_template(template)
    return page.render(style=style, style_hash=f"sha256-{digest}", **values)


@cache
def _environment() -> Environment:
    """Return the templates' environment: each value is escaped, and shown without control characters.

    Two values are HTML already, and have the filter `safe`: the style, and a drawing with classes of an enum.
    """
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        loader=FileSystemLoader(_TEMPLATES),
    )


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return "" if value is None else value
