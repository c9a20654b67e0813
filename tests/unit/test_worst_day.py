from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.worst_day import findings
from benchmarks.worst_day.findings import ENDING, SECONDS_MAX, Paid, Played
from benchmarks.worst_day.provider import DAY

GOOD = Paid(sent_at=1.0, hours="well", is_good=True, status="SETTLED", error="", seconds=0.5)
BAD = Paid(
    sent_at=9.0, hours="dead", is_good=False, status="COMPENSATED", error="KycUnavailable", seconds=20.0
)
PLAYED = Played(
    rate=1,
    seconds=40,
    began_at={"well": 0.0, "dead": 8.0, "back": 16.0},
    payments=[GOOD, BAD],
    calls=[(1.0, "a"), *((9.0 + number / 10, str(number)) for number in range(17))],
    circuit=[(0.1, "CLOSED"), (10.0, "OPEN"), (15.0, "HALF_OPEN"), (17.0, "HALF_OPEN"), (18.0, "CLOSED")],
    throttled=dict.fromkeys(ENDING, 0) | {"KycDecided": 7},
    environments=2,
    failures_to_open=10,
    is_conserved=True,
)
"""A simulated day without faults: its slow payment and the throttles of `KycDecided` are allowed."""


def test_a_day_that_keeps_its_promises_has_no_faults() -> None:
    assert PLAYED.faults() == []
    assert (PLAYED.asked_while_dead, PLAYED.probes_while_dead, PLAYED.asked_max) == (17, 1, 17)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"payments": [GOOD, replace(GOOD, seconds=SECONDS_MAX + 0.1)]},
            "1 good payments took more than 15 s",
        ),
        ({"payments": [replace(GOOD, error="DeadlineExceeded")]}, "1 payments were held to their deadline"),
        ({"payments": [replace(BAD, status="PROCESSING")]}, "1 payments never ended"),
        *(({"throttled": {**PLAYED.throttled, name: 3}}, f"{name} was throttled 3 times") for name in ENDING),
        (
            {"calls": [(9.0, str(number)) for number in range(18)]},
            "the dead provider was asked about 18 payments",
        ),
        ({"is_conserved": False}, "money was lost or doubled"),
    ],
)
def test_each_broken_promise_is_reported(change: dict[str, Any], fault: str) -> None:
    assert replace(PLAYED, **change).faults() == [fault]


def test_a_good_payment_without_an_end_is_two_faults() -> None:
    lost = replace(GOOD, status="never claimed", seconds=None)

    assert replace(PLAYED, payments=[lost]).faults() == [
        "1 good payments took more than 15 s",
        "1 payments never ended",
    ]


def test_several_questions_about_one_payment_count_once() -> None:
    assert replace(PLAYED, calls=[(9.0, "a")] * 99).asked_while_dead == 1


def test_saved_figures_are_read_back_unchanged(tmp_path: Path) -> None:
    PLAYED.write(tmp_path / "kept.json")

    assert findings.read(tmp_path / "kept.json") == PLAYED


def test_the_table_has_the_good_payments_of_each_part() -> None:
    first, _, well, dead, _ = PLAYED.table().splitlines()

    assert first.startswith("| part of the day | good payments | settled | given back |")
    assert (well, dead) == ("| well | 1 | 1 | 0 | 0.5 | 0.5 |", "| dead | 0 | 0 | 0 | 0.0 | 0.0 |")


def test_the_parts_of_the_day_add_up_and_end_recovered() -> None:
    assert sum(hours.share for hours in DAY) == pytest.approx(1)
    assert [hours.name for hours in DAY[-2:]] == ["dead", "back"]
