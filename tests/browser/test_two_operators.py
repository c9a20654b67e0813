from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from settle.console.context import shared
from settle.permissions.people import Kind
from settle.stack import Stack
from tests.browser.conftest import Looks
from tests.e2e.conftest import embedded
from tests.e2e.embedded import Embedded
from tests.e2e.people import Person, of_kind
from tests.e2e.stuck import stuck
from tests.settle.served import serving

__all__ = ["embedded"]

pytestmark = [pytest.mark.browser, pytest.mark.long]


@contextmanager
def console(embedded: Embedded, person: Person) -> Iterator[str]:
    stack = Stack(embedded.stack.name, embedded.stack.outputs, person.session, person.endpoint_url)
    with serving(shared(stack)) as served:
        yield served.address


def test_two_operators_propose_and_approve_a_decision_by_keyboard_alone(
    embedded: Embedded, look: Looks
) -> None:
    one = stuck(embedded)
    with (
        of_kind(embedded, Kind.OPERATOR, "olga") as olga,
        of_kind(embedded, Kind.APPROVER, "ada") as ada,
        console(embedded, olga) as of_olga,
        console(embedded, ada) as of_ada,
    ):
        operator = look().enter(of_olga)
        operator.choose(f"Decide: {one.key}")
        offered = operator.page.inner_text("#decisions + .scroll")
        operator.choose("Propose: write-off")
        operator.tab_to("Reason")
        operator.page.keyboard.type("the payee is insolvent")
        operator.choose("Propose: write-off")
        own = operator.page.inner_text("main")

        approver = look().enter(of_ada)
        approver.choose(f"Look at it: {one.key}")
        approver.choose("Approve write-off")
        shown = approver.page.inner_text("main")
        before = one.row()["status"]
        approver.choose("Yes: approve write-off")
        after = approver.page.inner_text(".status")
        proof = approver.page.inner_text("#facts ~ div >> nth=-1")

    assert "Decide: retry" in offered
    assert "Decide: write-off" not in offered
    assert "You take part in it already" in own
    assert "covers 47.72 EUR from losses:EUR" in shown
    assert (before, after, one.row()["status"]) == ("LIMBO", "COMPENSATED", "COMPENSATED")
    assert olga.arn in proof
    assert ada.arn in proof
    assert embedded.conserved()


def test_a_viewer_is_offered_no_decision(embedded: Embedded, look: Looks) -> None:
    one = stuck(embedded)
    with of_kind(embedded, Kind.VIEWER, "vera") as vera, console(embedded, vera) as of_vera:
        viewer = look().enter(of_vera)
        with embedded.writes_nothing():
            viewer.choose(f"Decide: {one.key}")
            offered = viewer.page.inner_text("#decisions + .scroll")

    assert "Your AWS identity may not give this order." in offered
    assert "Decide:" not in offered
    assert "Propose:" not in offered
