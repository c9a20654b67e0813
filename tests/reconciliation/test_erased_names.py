"""Erased names switch off the comparison with the request hash, so they are allowed of few rows."""

import pytest

from settlement.adapters import second_look, table_scan
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.settlement import NAMES
from settlement.reconciliation import Findings
from tests.reconciliation.client import readable
from tests.reconciliation.shapes import SHAPES, town
from tests.reconciliation.town import Town

AT = "2026-12-24T12:00:00.000Z"
KEY = "order-{:08}-0001"
"""The first settlement of each town of a shape: of those below, one with names."""

FINISHED = ("settled", "refused", "refused unclaimed", "voided", "reversed on order")
UNFINISHED = ("claimed", "held")


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)


def erase(shape: str, removed: tuple[str, ...] = NAMES, **changes: object) -> tuple[Town, str]:
    """Return the town of a shape, one of its settlements without names, and the name of its row."""
    made = town(shape)
    key = keys.settlement(KEY.format(list(SHAPES).index(shape)))
    row = made.store.read(key)
    assert row
    assert row.keys() >= {*removed}
    left: Row = {name: row[name] for name in row if name not in removed}
    made.put(left | changes)
    return made, key["pk"]


def reconciled(made: Town) -> Findings:
    return table_scan.check(readable(made.table), currencies={"EUR", "JPY"})


@pytest.mark.parametrize("shape", FINISHED)
def test_the_names_of_a_finished_settlement_may_be_erased(shape: str) -> None:
    made, _ = erase(shape, names_erased_at=AT)

    findings = reconciled(made)

    assert (findings.faults, findings.unproven, findings.conserved) == ([], [], True)


@pytest.mark.parametrize("shape", [*FINISHED, *UNFINISHED])
def test_names_that_are_gone_without_the_time_of_their_erasure_are_found(shape: str) -> None:
    made, name = erase(shape)

    assert reconciled(made).faults == [f"{name}: its content is not that of its request_hash"]


@pytest.mark.parametrize("shape", UNFINISHED)
def test_the_names_of_an_unfinished_settlement_may_not_be_erased(shape: str) -> None:
    made, name = erase(shape, names_erased_at=AT)

    assert reconciled(made).faults == [f"{name}: is PROCESSING, but its names are erased"]


@pytest.mark.parametrize("shape", ["to be voided", "in review", "in LIMBO for the hold", "written off"])
def test_the_time_of_an_erasure_alone_is_found_on_an_unfinished_settlement(shape: str) -> None:
    made, name = erase(shape, removed=(), names_erased_at=AT)

    (fault,) = reconciled(made).faults
    assert fault.startswith(f"{name}: is ")
    assert fault.endswith(", but its names are erased")


@pytest.mark.parametrize("kept", [("payer_name",), ("payee_name",), NAMES])
@pytest.mark.parametrize("shape", FINISHED)
def test_a_row_with_names_that_are_said_to_be_erased_is_found(shape: str, kept: tuple[str, ...]) -> None:
    removed = tuple(name for name in NAMES if name not in kept)
    made, name = erase(shape, removed, names_erased_at=AT)

    assert reconciled(made).faults == [f"{name}: has {', '.join(kept)}, but its names are erased"]


@pytest.mark.parametrize("shape", UNFINISHED)
def test_a_changed_request_of_an_unfinished_settlement_is_found_all_the_same(shape: str) -> None:
    """With the attribute, a settlement would pay another payee: nothing else of a held one says whom."""
    made, name = erase(shape, payee="mallory", names_erased_at=AT)

    assert name in {fault.partition(": ")[0] for fault in reconciled(made).faults}


def test_erased_names_need_a_time() -> None:
    made, name = erase("settled", names_erased_at="yes")

    (fault, *_) = reconciled(made).faults
    assert fault.startswith(f"{name}: SETTLEMENT is malformed: names_erased_at")
