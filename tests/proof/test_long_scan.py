"""A scan can take hours: orders given meanwhile raise no fault, even if it misses some."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from settlement.core.ledger.keys import Row, subject
from settlement.core.store.dynamodb import Store
from settlement.proof import Findings, pages, table_scan
from settlement.proof.pages import Part
from tests.proof.town import Town

FREEZE, UNFREEZE = "freeze-of-alice-0001", "unfreeze-of-alice-001"


@pytest.fixture
def town(monkeypatch: pytest.MonkeyPatch) -> Town:
    """A table with an account three hours old, and the reader's clock."""
    town = Town()
    town.open("alice", 1_000)
    town.tick(3 * 3600)
    monkeypatch.setattr(table_scan, "datetime", SimpleNamespace(now=lambda zone: town.now))
    return town


def reconciled(town: Town, missed: set[str], first: str, monkeypatch: pytest.MonkeyPatch) -> Findings:
    """Reconcile while the account is frozen and unfrozen, over an hour before the end.

    Rows of kind `first` are scanned before the freeze, others after it; `missed` orders are not scanned.
    """
    every_row = pages.scan

    def scan(store: Store, part: Part) -> Iterator[Row]:
        before = [row for row in every_row(store, part) if subject(row)[0] == first]
        yield from before
        town.state("freeze", FREEZE, "alice")
        town.state("unfreeze", UNFREEZE, "alice")
        town.tick(70 * 60)
        met = {(row["pk"], row["sk"]) for row in before}
        for row in every_row(store, part):
            if (row["pk"], row["sk"]) not in met and subject(row)[1] not in missed:
                yield row

    with monkeypatch.context() as patched:
        patched.setattr(pages, "scan", scan)
        return table_scan.check(town.store)


@pytest.mark.parametrize(
    ("missed", "first"), [({FREEZE, UNFREEZE}, "ORDER"), ({FREEZE}, "ORDER"), ({FREEZE}, "ACCOUNT")]
)
def test_an_account_whose_orders_the_scan_has_missed_is_unproven(
    town: Town, missed: set[str], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row names only its last order, so the freeze before it cannot be read."""
    findings = reconciled(town, missed, first, monkeypatch)

    assert findings.faults == []
    assert findings.unproven == ["ACCOUNT#alice: moved during every look; try again"]
    assert not findings.conserved
    assert table_scan.check(town.store).conserved, "the next proof finds them"


@pytest.mark.parametrize("first", ["ORDER", "ACCOUNT"])
@pytest.mark.parametrize("missed", [{UNFREEZE}, set()])
def test_an_order_that_the_scan_missed_is_read_afterwards(
    town: Town, missed: set[str], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = reconciled(town, missed, first, monkeypatch)

    assert (findings.faults, findings.unproven, findings.conserved) == ([], [], True)
