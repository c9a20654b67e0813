"""Erased names disable the check of the request hash, so only finished settlements may have them."""

from collections.abc import Iterator
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import NAMES
from settlement.proof.settlement_row import NAMES_ERASED
from settlement.signing.signature import RowKeys
from tests.proof.client import reconciled
from tests.proof.mutations import Mutation, Rows, singles
from tests.proof.shapes import SHAPES, town
from tests.proof.town import Town
from tests.proof.unknowable import is_explained
from tests.world.ledger import ROW_KEYS
from tests.world.memory_dynamodb import Key

AT = "2026-12-24T12:00:00.000Z"
KEY = "order-{:08}-0001"
"""Key of a town's first settlement, which has names in the shapes below."""

FINISHED = ("settled", "refused", "refused unclaimed", "voided", "reversed on order")
UNFINISHED = ("claimed", "held")


def erase(
    shape: str, removed: tuple[str, ...] = NAMES, row_keys: RowKeys | None = None, **changes: object
) -> tuple[Town, str]:
    """Return a shape's town with one settlement's names removed, and that row's partition key."""
    made = town(shape, row_keys)
    made.row_keys = None
    key = keys.settlement(KEY.format(list(SHAPES).index(shape)))
    row = made.row(key)
    assert row.keys() >= {*removed}
    left: Row = {name: row[name] for name in row if name not in removed}
    made.put(left | changes)
    return made, key["pk"]


def erased_and_changed(rows: Rows, key: Key) -> Iterator[tuple[Mutation, Rows]]:
    """Yield each detectable change of a settlement's row, with names erased too."""
    for one in singles(rows):
        item = one.rows.get(key)
        if item is None or one.attribute in (*NAMES, NAMES_ERASED) or is_explained(one.kind):
            continue
        left = {name: item[name] for name in item if name not in NAMES}
        yield one, one.of(rows) | {key: left | {NAMES_ERASED: {"S": AT}}}


@pytest.mark.parametrize("row_keys", [None, ROW_KEYS], ids=["unsigned", "signed"])
@pytest.mark.parametrize("shape", FINISHED)
def test_the_names_of_a_finished_settlement_can_be_erased(shape: str, row_keys: RowKeys | None) -> None:
    made, _ = erase(shape, row_keys=row_keys, names_erased_at=AT)

    findings = reconciled(made.rows(), row_keys)

    assert (findings.faults, findings.unproven, findings.conserved) == ([], [], True)


@pytest.mark.parametrize("shape", FINISHED)
def test_erased_names_hide_no_change_of_another_attribute(shape: str) -> None:
    made = town(shape, ROW_KEYS)
    row = keys.settlement(KEY.format(list(SHAPES).index(shape)))
    rows, tried = made.rows(), set()

    for one, forged in erased_and_changed(rows, (row["pk"], row["sk"])):
        assert not reconciled(forged, ROW_KEYS).conserved, one[:3]
        tried.add(one.attribute)
    assert tried >= {"payer", "payee", "amount", "fee", "currency", "status"}


@pytest.mark.parametrize("words", [{"reference": "invoice 8"}, {"metadata": {"shop": "till"}}])
@pytest.mark.parametrize("shape", FINISHED)
def test_erasing_names_hides_no_change_of_reference_or_metadata(shape: str, words: dict[str, Any]) -> None:
    made, name = erase(shape, row_keys=ROW_KEYS, names_erased_at=AT, **words)

    (fault,) = reconciled(made.rows(), ROW_KEYS).faults
    assert fault.startswith(f"{name}: SETTLEMENT is malformed: its signature is not that of")


NO_TIME = "its content is not that of its request_hash"
HALF_ERASED: list[tuple[tuple[str, ...], tuple[str, ...], Row, str]] = [
    ((*FINISHED, *UNFINISHED), NAMES, {}, NO_TIME),
    (UNFINISHED, NAMES, {NAMES_ERASED: AT}, "is PROCESSING, but its names are erased"),
    (("to be voided",), (), {NAMES_ERASED: AT}, "is COMPENSATING, but its names are erased"),
    (("in review",), (), {NAMES_ERASED: AT}, "is PROCESSING, but its names are erased"),
    (("in LIMBO for the hold",), (), {NAMES_ERASED: AT}, "is LIMBO, but its names are erased"),
    (("written off",), (), {NAMES_ERASED: AT}, "is COMPENSATING, but its names are erased"),
    *(
        (FINISHED, removed, {NAMES_ERASED: AT}, f"has {', '.join(kept)}, but its names are erased")
        for kept, removed in ((NAMES[:1], NAMES[1:]), (NAMES[1:], NAMES[:1]), (NAMES, ()))
    ),
]
"""Shapes, names removed from the row, its other changes, and the fault."""


@pytest.mark.parametrize(
    ("shape", "removed", "changes", "told"),
    [(shape, *how) for shapes, *how in HALF_ERASED for shape in shapes],
)
def test_names_half_erased_or_erased_too_early_are_found(
    shape: str, removed: tuple[str, ...], changes: Row, told: str
) -> None:
    made, name = erase(shape, removed, **changes)

    assert reconciled(made.rows()).faults == [f"{name}: {told}"]


@pytest.mark.parametrize("shape", UNFINISHED)
def test_a_changed_payee_is_found_even_after_names_are_erased(shape: str) -> None:
    """Otherwise a held settlement could pay another payee, whom only its row names."""
    made, name = erase(shape, payee="mallory", names_erased_at=AT)

    assert name in {fault.partition(": ")[0] for fault in reconciled(made.rows()).faults}


def test_a_settlement_with_erased_names_needs_the_erasures_time() -> None:
    made, name = erase("settled", names_erased_at="yes")

    (fault, *_) = reconciled(made.rows()).faults
    assert fault.startswith(f"{name}: SETTLEMENT is malformed: names_erased_at")
