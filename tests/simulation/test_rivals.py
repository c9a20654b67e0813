"""Rival designs on DynamoDB alone end each life as their page says."""

import re
import uuid

import pytest

from benchmarks.lives import page, ways
from benchmarks.lives.judge import Verdict, judge
from benchmarks.lives.life import FOR_EVER, Kind, Life, Step, draw
from benchmarks.lives.ways import WAYS

NAMES = ("ours", "sample", "sample-retries", "powertools", "powertools-slow")
LOST_HOLD = {(Step.HOLD, 1): Kind.LOST}


def shown() -> list[tuple[str, Verdict, int]]:
    """Return (design, verdict, seed) of each fault in the page's table."""
    found = re.findall(r"^\| (.+?) \|" + r" (\d+.*?) \|" * len(Verdict), page.PAGE.read_text(), re.MULTILINE)
    rows = {title: cells for title, *cells in found}
    return [
        (name, verdict, int(seed))
        for name in NAMES
        for verdict, cell in zip(Verdict, rows[WAYS[name].title], strict=True)
        for seed in re.findall(r"\((\d+)\)", cell)
    ]


def verdict(name: str, life: Life, server_url: str) -> Verdict:
    end, _ = ways.player(WAYS[name], server_url, f"{name}-{uuid.uuid4().hex}")(life)
    return judge(end)


@pytest.mark.parametrize(("name", "expected", "seed"), shown())
def test_each_seed_in_the_rivals_page_reproduces_its_fault(
    name: str, expected: Verdict, seed: int, server_url: str
) -> None:
    assert verdict(name, draw(seed), server_url) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ours", Verdict.RIGHT),
        ("sample", Verdict.RIGHT),
        ("sample-retries", Verdict.DOUBLED),
        ("powertools", Verdict.DOUBLED),
        ("powertools-slow", Verdict.DOUBLED),
    ],
)
def test_without_conditional_writes_a_lost_hold_answer_doubles_the_hold(
    name: str, expected: Verdict, server_url: str
) -> None:
    assert verdict(name, Life(1, faults=LOST_HOLD), server_url) is expected


@pytest.mark.parametrize("name", NAMES)
def test_each_rival_design_settles_without_faults(name: str, server_url: str) -> None:
    assert verdict(name, Life(1), server_url) is Verdict.RIGHT


@pytest.mark.parametrize("name", NAMES)
def test_each_rival_design_reverses_a_rejected_payment(name: str, server_url: str) -> None:
    assert verdict(name, Life(1, is_rejected=True), server_url) is Verdict.RIGHT


@pytest.mark.parametrize("name", NAMES)
def test_each_rival_design_pages_if_a_reversal_is_refused_forever(name: str, server_url: str) -> None:
    stuck = Life(1, is_rejected=True, reversal_refused=FOR_EVER)

    assert verdict(name, stuck, server_url) is Verdict.PAGED
