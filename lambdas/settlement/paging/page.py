import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

SUBJECT_LENGTH_MAX = 99
"""SNS takes less than 100 ASCII characters, and no line break."""

LINE_LENGTH_MAX = 600
DETAIL_BYTES_MAX = 200_000
"""SNS takes 256 KiB in all. Our details have a few kilobytes."""

_SUBJECTS = {
    "LimboEntered": "LIMBO: {amount_at_risk} {currency} of {account}, payment {key}",
    "LimboResolved": "LIMBO is over: {decision} of {key}",
    "GlassBroken": "BREAK-GLASS: {decision} of {amount} {currency} by one person, payment {key}",
}
_LINES = {
    "reason": "Reason: {}",
    "refused": "The last decision was refused: {}",
    "alert": "This is alert {}.",
    "next_command": "Run: {}",
    "runbook": "Read: {}",
}
"""Fields of an event that a page shows, in this order."""

_FOR_INFORMATION = ("LimboResolved",)


@dataclass(frozen=True)
class Page:
    """A message to people. `is_urgent` pages the person on call."""

    subject: str
    text: str
    is_urgent: bool


def page_of(event: Mapping[str, Any]) -> Page:
    """The page of an event. An unknown event is urgent.

    Names, causes and reasons are other people's text. Each is kept in one line.
    """
    kind, detail = str(event.get("detail-type")), event.get("detail")
    content: Mapping[str, Any] = detail if isinstance(detail, dict) else {}
    named = {name: _one_line(value) for name, value in content.items()}
    lines = [named.get("summary") or _one_line(kind)]
    lines += [line.format(named[name]) for name, line in _LINES.items() if name in content]
    return Page(
        subject=_ascii(_subject(kind, named) or lines[0]),
        text="\n".join((*lines, "", _json(detail))),
        is_urgent=kind not in _FOR_INFORMATION,
    )


def _subject(kind: str, named: Mapping[str, str]) -> str:
    with suppress(KeyError):
        return _SUBJECTS[kind].format_map(named)
    return ""


def _json(detail: object) -> str:
    with suppress(RecursionError):
        text = json.dumps(detail)
        if len(text) <= DETAIL_BYTES_MAX:
            return text
    return '{"summary": "the event is too large for a page"}'


def _one_line(value: object) -> str:
    try:
        text = str(value)[:LINE_LENGTH_MAX]
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deep"
    shown = (char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return "".join(shown)[:LINE_LENGTH_MAX]


def _ascii(text: str) -> str:
    shown = _one_line(text).encode("ascii", "replace").decode()
    return shown[:SUBJECT_LENGTH_MAX].strip() or "settlement"
