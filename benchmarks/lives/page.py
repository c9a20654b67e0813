"""The generated part of the page about the lives."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.lives.judge import Outcome, Verdict
from benchmarks.lives.life import FOR_EVER, Kind, Life, draw
from benchmarks.lives.ways import WAYS

PAGE = Path(__file__).parents[2] / "docs/reference/rivals.md"
_PLACE = re.compile(r"(<!-- rivals -->\n).*?(<!-- end of rivals -->)", re.DOTALL)
_WIDTH = 120
_PAGES = ("doubled or lost, without a page", "right, with a page")
_NAMES = {
    Kind.LOST: "an answer gets lost",
    Kind.DIES_BEFORE: "a process dies before its write",
    Kind.DIES_AFTER: "a process dies after its write",
    Kind.LATE: "a write arrives late, after the next try has answered",
    Kind.LATE_REVERSAL: "a write arrives late, after the reversal has begun",
}


def write(played: Mapping[str, Sequence[Outcome]]) -> None:
    """Put the tables into the page."""
    text = "\n".join(sections(played))
    page, found = _PLACE.subn(lambda place: f"{place[1]}\n{text}\n\n{place[2]}", PAGE.read_text())
    assert found == 1, f"{PAGE} must have one place for the tables"
    PAGE.write_text(page)


def sections(played: Mapping[str, Sequence[Outcome]]) -> Iterator[str]:
    """Return the lines of the tables."""
    seeds = [outcome.seed for outcome in next(iter(played.values()))]
    yield f"The lives of the seeds {seeds[0]} to {seeds[-1]}, {len(seeds)} for each way:\n"
    yield "|  | " + " | ".join([*Verdict, *_PAGES]) + " |"
    yield "|---|" + "--:|" * len([*Verdict, *_PAGES])
    for name, outcomes in played.items():
        yield f"| {WAYS[name].title} | " + " | ".join(_cells(outcomes)) + " |"
    yield "\nWhat each way was told to do:\n"
    for name in played:
        yield from _item(f"**{WAYS[name].title}**: {WAYS[name].told}")
    yield "\nEvents of these lives; many meet a payment that has ended before:\n"
    yield "| event | lives |"
    yield "|---|--:|"
    for event, lives in _events([draw(seed) for seed in seeds]).items():
        yield f"| {event} | {lives} |"


def _item(text: str) -> list[str]:
    """Return an item of a list, in lines of the page's width. A link is not broken."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cells(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for verdict in Verdict:
        seeds = [outcome.seed for outcome in outcomes if outcome.verdict is verdict]
        shown = f" ({seeds[0]})" if seeds and verdict is not Verdict.RIGHT else ""
        yield f"{len(seeds)}{shown}"
    wrong = [one for one in outcomes if one.verdict in (Verdict.DOUBLED, Verdict.LOST)]
    yield f"{sum(not one.end.is_paged for one in wrong)}"
    yield f"{sum(one.verdict is Verdict.RIGHT and one.end.is_paged for one in outcomes)}"


def _events(lives: Sequence[Life]) -> Mapping[str, int]:
    counted = Counter(dict.fromkeys(_NAMES.values(), 0))
    for life in lives:
        counted.update({_NAMES[kind] for kind in life.faults.values()})
        counted["the KYC provider rejects the payment"] += life.is_rejected
        counted["the payee's account is closed at a try of the release"] += life.payee_closed_from > 0
        counted["a reversal, if there is one, is refused for some tries"] += life.reversal_refused > 0
        counted["a reversal, if there is one, is refused for ever"] += life.reversal_refused == FOR_EVER
    return counted
