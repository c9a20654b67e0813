"""Runs `settle demo payrun` on a file with fewer lines."""

from collections.abc import Iterator
from typing import Any

import pytest

from settle.local import state
from settle.local.demo import payrun
from tests.e2e.embedded import embedded_aws

pytestmark = pytest.mark.long

LINES, SELLERS, KILLS = 200, 10, 2
Walked = tuple[dict[str, Any], bool]


@pytest.fixture(scope="module")
def walked() -> Iterator[Walked]:
    """Run the demo on its own embedded AWS, with schedules, because recovery must start claimed lines."""
    with embedded_aws() as embedded, pytest.MonkeyPatch.context() as patched:
        embedded.up()
        patched.setattr(state, "SCRATCH", embedded.home / "embedded")
        yield payrun.walk(embedded.stack, print, LINES, SELLERS, KILLS)


def test_each_line_ends_once_though_functions_are_killed(walked: Walked) -> None:
    shown, is_well = walked

    assert (is_well, sum(shown["outcomes"].values()), shown["keys"]) == (True, LINES, LINES), shown
    assert shown["killed"] == KILLS
    run = shown["run"]
    assert (run["status"], run["begun"], run["started"], run["ended"]) == ("FINISHED", LINES, LINES, LINES)


def test_the_sum_of_the_results_equals_the_shops_debits(walked: Walked) -> None:
    shown, _ = walked

    assert shown["sum_of_the_file"] == "399.00"
    assert shown["sum_of_the_results"] == shown["left_the_shop"]
    is_settled = shown["outcomes"] == {"SETTLED": LINES}
    assert (shown["left_the_shop"] == "399.00") == is_settled
    assert (shown["reconciliation"]["conserved"], shown["reconciliation"]["faults"]) == (True, [])


def test_two_persons_proposed_and_approved_the_demo_run(walked: Walked) -> None:
    run = walked[0]["run"]

    assert "/olga-" in run["proposed_by"]
    assert [name.partition("-")[0] for name in run["approved_by"]] == ["anna"]
