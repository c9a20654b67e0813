"""TakeOrder: a reversal in part that needs two persons."""

from typing import Any

import pytest

from settlement.core.model.errors import (
    ApprovalNeeded,
    InsufficientFunds,
    InvalidRequest,
    NotReversible,
    PartRefused,
)
from tests.handlers.orders.conftest import PERSONS, Desk, decides
from tests.world.services import PageBus

pytestmark = decides("reverse-part")


def test_a_part_needs_as_many_persons_as_the_whole(desk: Desk) -> None:
    with desk.refuses("needs 2 persons", ApprovalNeeded):
        desk.alone()
    desk.needs(1)
    done = desk.alone()
    desk.needs(2)

    with desk.calls.writes_nothing():
        assert desk.alone() == done


def test_a_part_approved_by_a_second_person_is_reversed_once(desk: Desk) -> None:
    before = desk.calls.account("alice")["available"]
    told = desk.propose()
    assert (told["part"], told["amount"], told["currency"], told["case"]) == (1, "5.00", "EUR", 0)
    assert desk.calls.account("alice")["available"] == before

    done = desk.approve()

    assert (done["part"], done["order"]["amount"]) == (1, "5.00")
    assert done["order"]["approved_by"] == PERSONS["bea"][0]
    with desk.calls.writes_nothing():
        assert desk.approve() == done
    assert desk.calls.account("alice")["available"] == before + 500
    assert desk.faults() == []


def test_a_part_of_another_amount_needs_another_proposal(proposed: Desk) -> None:
    first = proposed.digest
    with proposed.refuses("is open"):
        proposed.propose(amount="6.00")
    proposed.withdraw("bea")

    proposed.propose(amount="6.00")

    assert proposed.digest != first
    with proposed.refuses("not that of the latest"):
        proposed.approve(digest=first)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"amount": "47.73"}, PartRefused),
        ({"part": 2}, PartRefused),
        ({"amount": "0.00"}, InvalidRequest),
        ({"part": 0}, InvalidRequest),
        ({"case": 1}, InvalidRequest),
    ],
    ids=str,
)
def test_an_impossible_part_cannot_be_proposed(
    desk: Desk, pages: PageBus, wrong: dict[str, Any], error: type[Exception]
) -> None:
    for move in (desk.propose, desk.break_glass):
        with desk.refuses(None, error):
            move(**wrong)

    assert pages.events == []


def test_a_part_can_be_proposed_up_to_the_remaining_amount(desk: Desk) -> None:
    desk.needs(1)
    desk.alone(amount="40.00")
    desk.needs(2)
    with desk.refuses("more than what is left", PartRefused):
        desk.propose(part=2, amount="7.73")

    desk.propose(part=2, amount="7.72")
    desk.approve(part=2, amount="7.72")

    assert desk.calls.row()["reversed_in_part"] == 4772


def test_a_refused_approval_succeeds_once_the_payee_has_money(proposed: Desk) -> None:
    had = proposed.calls.account("bob")["available"]
    proposed.calls.ledger.open("bob", 499)
    with proposed.refuses(None, InsufficientFunds):
        proposed.approve()
    proposed.calls.ledger.open("bob", had)

    proposed.approve()

    assert proposed.calls.row()["reversed_in_part"] == 500


def test_a_partly_reversed_settlement_cannot_be_reversed_whole(desk: Desk, pages: PageBus) -> None:
    desk.needs(1)
    desk.alone()
    desk.needs(2)

    desk.decision = "reverse"
    for move in (desk.propose, desk.break_glass):
        with desk.refuses("reverse the rest in part", NotReversible):
            move()

    assert pages.events == []
