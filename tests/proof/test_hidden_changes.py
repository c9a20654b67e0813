"""The proof names each change that a reviewer once hid from it, without a traceback."""

from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.status import Status
from tests.proof.client import reconciled
from tests.proof.mutations import Rows
from tests.proof.shapes import SHAPES, town
from tests.proof.town import Town
from tests.world.ledger import ROW_KEYS
from tests.world.rooms import there

pytestmark = pytest.mark.usefixtures("one_segment")


def rows_of(shape: str) -> Rows:
    return town(shape, ROW_KEYS).rows()


def settlement_in(rows: Rows) -> tuple[str, str]:
    return next(key for key in rows if key[1] == "SETTLEMENT")


@pytest.mark.parametrize("shape", ["settled", "completed", *there("merchants", "swept")])
def test_a_value_nested_under_its_types_name_is_found(shape: str) -> None:
    """No function can read such a row, so its account could not pay or be paid."""
    rows = rows_of(shape)
    unseen = [
        (key, name)
        for key, item in rows.items()
        for name, value in item.items()
        if name not in ("pk", "sk") and key[0] not in ("CIRCUIT",)
        for ((kind, held),) in [value.items()]
        if kind in ("S", "N")
        if reconciled(rows | {key: {**item, name: {"M": {kind: {"S": held}}}}}, ROW_KEYS).conserved
    ]

    assert unseen == []


@pytest.mark.parametrize("step", ["fee", "release", "verify"])
def test_the_proof_names_a_settled_payment_reversed_without_an_order(step: str) -> None:
    """Otherwise the functions would run this reversal."""
    rows = rows_of("settled")
    key = settlement_in(rows)
    row = {name: value for name, value in rows[key].items() if name != "finished_at"}
    failure = {"M": {"step": {"S": step}, "error": {"S": "KycRejected"}, "cause": {"S": "x"}}}
    listed = keys.in_flight_index(key[0].partition("#")[2], row["fee_at"]["S"])
    row |= {name: {"S": text} for name, text in listed.items()}
    row |= {"status": {"S": Status.COMPENSATING}, "resolutions": {"N": "0"}}
    row |= {"failure": failure, "reversed_for": failure}

    findings = reconciled(rows | {key: row}, ROW_KEYS)

    assert f"{key[0]}: is reversed after its fee, but not on an order" in findings.faults


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deadline_at", {"S": "2026-19-39T29:59:59.000Z"}),
        ("deadline_at", {"S": "2026-02-31T00:00:00.000Z"}),
        ("claimed_at", {"S": "0000-01-01T00:00:00.000Z"}),
        ("deadline_seconds", {"N": str(2**62)}),
    ],
)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape in ("settled", "held")])
def test_the_proof_names_an_invalid_time(shape: str, name: str, value: Any) -> None:
    rows = rows_of(shape)
    at_fault = next(key for key, item in rows.items() if "deadline_seconds" in item)

    findings = reconciled(rows | {at_fault: {**rows[at_fault], name: value}}, ROW_KEYS)

    assert at_fault[0] in {one.partition(":")[0] for one in findings.faults + findings.unproven}


def test_a_future_opening_time_does_not_hide_a_lifted_freeze() -> None:
    frozen = Town(row_keys=ROW_KEYS)
    frozen.open("alice", 700)
    frozen.state("freeze", "freeze-of-alice-0001", "alice")
    rows = frozen.rows()
    assert reconciled(rows, ROW_KEYS).conserved
    account = rows[("ACCOUNT#alice", "BALANCE")]
    lifted = {name: value for name, value in account.items() if name != "frozen_at"}
    lifted["opened_at"] = {"S": "9999-12-31T23:59:59.999Z"}

    findings = reconciled(rows | {("ACCOUNT#alice", "BALANCE"): lifted}, ROW_KEYS)

    assert [fault.partition(":")[0] for fault in findings.faults] == ["ACCOUNT#alice"]
