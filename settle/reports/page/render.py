import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from settle.instants import lapse, seconds_since
from settle.output.printable import printable
from settle.reports.day import KINDS
from settle.reports.page import graph
from settle.reports.path import COMPENSATION, SETTLEMENT
from settlement.core.model.status import Status

_TEMPLATES = Path(__file__).parent / "templates"
_MEANINGS = {
    Status.PROCESSING: "In flight, in review, or stalled.",
    Status.SETTLED: "The payee has the net amount, and the stage has its fee.",
    Status.REJECTED: "Refused before anything was held.",
    Status.COMPENSATING: "A reversal is under way.",
    Status.COMPENSATED: "The payer has the whole amount back.",
    Status.LIMBO: "A reversal is stuck, and waits for a person's decision.",
}


@dataclass(frozen=True)
class Frame:
    """The console's frame around a page. `at` is the page's time.

    `live` is the interval of its reloads. None: no reloads. `rooms` are links, as paths and names.
    """

    csrf: str
    person: str
    stack: str
    path: str
    at: str
    live: int | None = None
    rooms: Sequence[tuple[str, str]] = ()


def settlement(report: Mapping[str, Any], frame: Frame | None = None) -> str:
    graphs = []
    for machine in (SETTLEMENT, COMPENSATION):
        walks = [walk for walk in report["walks"] if walk.machine == machine]
        if walks:
            graphs.append({"machine": machine, "walks": walks, "drawing": graph.marked(machine, walks)})
    meaning = _MEANINGS[Status(report["outcome"]["status"])]
    return page("settlement.html", frame, report["at"], report=report, graphs=graphs, meaning=meaning)


def queue(snapshot: Mapping[str, Any], frame: Frame | None = None) -> str:
    return page("queue.html", frame, snapshot["at"], queue=snapshot)


def day(figures: Mapping[str, Any]) -> str:
    return page("day.html", None, figures["at"], day=figures, kinds=KINDS, bars=list(_bars(figures["hours"])))


def _bars(hours: Sequence[Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    """Yield the parts of 24 stacked bars. A bar stands on y = 100, and is up to 96 high."""
    most = max(sum(hour.values()) for hour in hours)
    for number, hour in enumerate(hours):
        bottom = 100.0
        for kind in KINDS:
            if hour[kind]:
                height = 96 * hour[kind] / most
                bottom -= height
                yield {"kind": kind, "x": number * 20 + 2, "y": f"{bottom:.2f}", "height": f"{height:.2f}"}


def page(template: str, frame: Frame | None = None, at: str = "", **values: Any) -> str:
    """Render a template. Relative times count from `at`, by default the frame's."""
    form_action = "'self'" if frame else "'none'"
    at = at or (frame.at if frame else "")
    return (
        _environment()
        .get_template(template)
        .render(style=_style(), policy=policy(form_action), frame=frame, at=at, **values)
    )


def _distance(instant: object, at: str, is_live: bool) -> str:
    """Return "5 min ago".

    In a file, which is read later, return "5 min before". A malformed instant gives "".
    """
    seconds = seconds_since(instant, datetime.fromisoformat(at))
    if seconds is None:
        return ""
    if is_live:
        return f"{lapse(seconds)} ago" if seconds >= 0 else f"in {lapse(seconds)}"
    return f"{lapse(seconds)} {'before' if seconds >= 0 else 'after'}"


@cache
def policy(form_action: str) -> str:
    """Return the Content-Security-Policy: no script, no request, and only the style with this hash."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action {form_action}"


@cache
def _style() -> str:
    return (_TEMPLATES / "style.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    """Return templates that escape values and control characters.

    Two values are HTML, by the filter `safe`: the style, and a drawing with classes of an enum.
    """
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        loader=FileSystemLoader(_TEMPLATES),
    )
    environment.filters["distance"] = _distance
    return environment


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return "" if value is None else value
