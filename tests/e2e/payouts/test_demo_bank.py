"""Runs `settle demo bank` as a newcomer does."""

from typing import Any

import pytest

from settle.local.demo.bank import CASES
from tests.e2e.embedded import Embedded

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def demo(embedded: Embedded) -> dict[str, Any]:
    return embedded.told("demo", "bank")


def test_each_payout_of_the_demo_ends_as_announced(demo: dict[str, Any]) -> None:
    ended = [(line["bank"], line["status"], line["is_well"]) for line in demo["payouts"]]

    assert ended == [(case.told, case.end, True) for case in CASES]


def test_the_demos_bank_pays_no_payout_twice(demo: dict[str, Any]) -> None:
    assert (demo["sent"], demo["distinct"], demo["paid_twice"]) == (len(CASES), len(CASES), 0)
    assert max(line["attempts"] for line in demo["payouts"]) > 1, "no answer was lost"


def test_the_demos_books_agree_with_its_bank(demo: dict[str, Any]) -> None:
    assert demo["moved_in_books"] == demo["moved_in_bank"]
    assert (demo["reconciliation"]["conserved"], demo["reconciliation"]["faults"]) == (True, [])
