import pytest

from settle.output import spark
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.constants import KEY


def at(seconds: float) -> str:
    return f"2026-11-20T12:00:{seconds:06.3f}Z"


def test_the_timeline_has_a_bar_per_step_naming_the_longest() -> None:
    moments = [("claimed", at(0)), ("hold", at(1)), ("verify", at(9)), ("release", at(10)), ("fee", at(10))]

    assert spark.line(moments) == "▂█▂▁  10s, of which 8s before verify"


@pytest.mark.parametrize("moments", [[], [("claimed", at(0))], [("claimed", "soon"), ("hold", at(1))]])
def test_a_timeline_needs_at_least_two_times(moments: list[tuple[str, str]]) -> None:
    assert spark.line(moments) == ""


def test_equal_or_backward_times_have_the_lowest_bar() -> None:
    assert spark.line([("a", at(5)), ("b", at(5)), ("c", at(5))]) == "▁▁  0 ms, of which 0 ms before b"
    assert spark.line([("a", at(5)), ("b", at(4)), ("c", at(6))]).startswith("▁█  ")


def test_status_shows_the_timeline_below_its_entries(desk: Desk, command: Command) -> None:
    desk.pay()

    _, out, _ = command("status", KEY)

    (line,) = [one for one in out.splitlines() if one.startswith("timeline: ")]
    assert len(line.split()[1]) == 4
