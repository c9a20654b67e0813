from pathlib import Path

import pytest

from settle.payouts import payout_report
from settle.reports.page import render
from settlement.payouts.moves import Move
from tests.browser.conftest import Looks
from tests.browser.test_pages import each_scheme, later, served, services
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


@each_scheme
def test_a_saved_report_of_a_payout_makes_no_network_request(
    desk: Desk, look: Looks, tmp_path: Path, scheme: str
) -> None:
    Office(desk).put(*IN_LIMBO)
    template, values = payout_report.describe(desk.stack, KEY, later())
    file = tmp_path / "payout.html"
    file.write_text(render.page(template, None, values["report"]["at"], **values))

    window = look(scheme).go(file.as_uri())

    assert window.faults() + window.cut() == []
    assert window.asked == [file.as_uri()]
