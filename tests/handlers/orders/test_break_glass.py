"""TakeOrder: one person decides alone where more are needed, and everybody is paged first."""

from typing import Any

import pytest

from settlement.core.model.errors import PageUnavailable, SettlementError
from tests.handlers.orders.conftest import PERSONS, Desk
from tests.world.constants import KEY
from tests.world.services import Died, PageBus, throttled, unanswered

MISFITS: dict[str, dict[str, Any]] = {
    "reverse": {"expected_status": "PROCESSING"},
    "reverse-part": {"part": 2},
}


def test_break_glass_pages_on_call_and_is_recorded(desk: Desk, pages: PageBus) -> None:
    amount, what = ("5.00", f"5.00 of {KEY}") if desk.decision == "reverse-part" else ("48.20", KEY)

    desk.break_glass()

    assert desk.is_decided
    assert desk.evidence()["break_glass"] == "yes"
    ((kind, page),) = pages.events
    assert (kind, page["amount"]) == ("GlassBroken", amount)
    who = PERSONS["ada"][0]
    assert page["summary"].startswith(f"break-glass: {who} decides {desk.decision} alone on {what}")
    desk.break_glass()
    assert len(pages.events) == 1


@pytest.mark.parametrize("failure", [throttled("PutEvents"), unanswered(), Died(), "not taken"], ids=repr)
def test_break_glass_is_refused_if_the_page_cannot_be_sent(desk: Desk, pages: PageBus, failure: Any) -> None:
    pages.failing, pages.failed = (None, 1) if failure == "not taken" else (failure, 0)
    untold = "not taken by the event bus" if pages.failed else f"not sent: {type(failure).__name__}"
    told = None if isinstance(failure, Died) else f"^page: {untold}; nothing was ordered$"

    with desk.refuses(told, (PageUnavailable, Died)):
        desk.break_glass()


def test_break_glass_with_an_impossible_decision_pages_no_one(desk: Desk, pages: PageBus) -> None:
    with desk.refuses(r"case|PROCESSING|part: the next one", SettlementError):
        desk.break_glass(**MISFITS.get(desk.decision, {"case": 2}))

    assert pages.events == []
