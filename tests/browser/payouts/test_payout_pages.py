import pytest

from settlement.payouts.moves import Move
from tests.browser.conftest import Looks
from tests.browser.test_pages import each_scheme, served, services
from tests.settle.desk import Desk
from tests.settle.payouts.office import IN_LIMBO, KEY, Office
from tests.settle.served import Served

pytestmark = pytest.mark.browser

__all__ = ["served", "services"]


@each_scheme
def test_the_pages_of_payouts_have_no_layout_or_accessibility_fault(
    desk: Desk, served: Served, look: Looks, scheme: str
) -> None:
    office = Office(desk)
    office.put(*IN_LIMBO)
    office.put(Move.SEND, key="payout-flying-0001")
    window = look(scheme).enter(served.address)

    found = {}
    for path, heading in {"/payouts": "Payouts", f"/payouts/{KEY}": "Payout"}.items():
        window.go(served.origin + path)
        assert window.heading().startswith(heading)
        found[path] = window.faults() + window.cut()

    assert {path: faults for path, faults in found.items() if faults} == {}
