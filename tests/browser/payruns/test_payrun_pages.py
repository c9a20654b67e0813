from pathlib import Path

import pytest

from settle.payruns import on_record, payrun_pages
from settle.reports.page import render
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.payruns.file import key_of
from tests.browser.conftest import Looks
from tests.browser.test_pages import each_scheme, later, served, services
from tests.settle.payruns.conftest import LINES, NAME, Runs, runs
from tests.settle.served import Served

pytestmark = pytest.mark.browser

__all__ = ["runs", "served", "services"]

LONG = "x" * 64


@pytest.fixture
def outcomes(runs: Runs) -> str:
    """Make a pay run with every outcome of a line, one to decide, and one unreadable. Return the first."""
    run = runs.go(*LINES, "shop,2.00,EUR,another", f"bob,3.00,EUR,{LONG}")
    runs.desk.pay(key_of(run, 5), "claim")
    runs.pay()
    runs.settlement(run, 2, status="LIMBO", failure={"error": "InsufficientFunds"})
    runs.settlement(run, 3, status="REJECTED", failure={"error": "KycRejected"})
    runs.settlement(run, 6, amount="much")
    runs.propose("shop,4.00,EUR,", name=LONG)
    runs.desk.alter(keys.payrun(runs.propose("shop,5.00,EUR,")["run"]), status="LOST")
    return run


@each_scheme
def test_the_pages_of_runs_have_no_layout_or_accessibility_fault(
    served: Served, look: Looks, runs: Runs, outcomes: str, scheme: str
) -> None:
    proposed = next(one for one in on_record.every(runs.desk.stack, {}) if one.proposal.name == LONG)
    window = look(scheme).enter(served.address)
    paths = {
        "/payruns": "Pay runs",
        f"/payruns/{outcomes}": f"Pay run {NAME}",
        f"/payruns/{proposed.state.run}": f"Pay run {LONG}",
    }

    found = {}
    for path, heading in paths.items():
        window.go(served.origin + path)
        assert window.heading().startswith(heading)
        found[path] = window.faults() + window.cut()

    assert {path: faults for path, faults in found.items() if faults} == {}


@each_scheme
def test_a_saved_report_of_a_run_makes_no_network_request(
    look: Looks, runs: Runs, outcomes: str, tmp_path: Path, scheme: str
) -> None:
    one = on_record.of(runs.desk.stack, outcomes)
    template, values = payrun_pages.described(runs.desk.stack, one)
    file = tmp_path / "run.html"
    file.write_text(render.page(template, None, timestamp(later()), **values))

    window = look(scheme).go(file.as_uri())

    assert window.faults() + window.cut() == []
    assert window.asked == [file.as_uri()]
