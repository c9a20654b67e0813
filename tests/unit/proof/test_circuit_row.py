from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.stored import MalformedRow
from settlement.http.circuit import NAMES, Circuit, State
from settlement.http.shared_circuit import to_row
from settlement.proof import rows

OPEN = Circuit(version=3, state=State.OPEN, count=5, failed=("a",), failed_at=7, opened_at=7)


@pytest.mark.parametrize("circuit", [Circuit(version=1), OPEN], ids=lambda circuit: circuit.state)
@pytest.mark.parametrize("name", NAMES)
def test_the_proof_reads_each_circuits_row(name: str, circuit: Circuit) -> None:
    assert NAMES == ("kyc", "bank")
    rows.circuit(to_row(name, circuit))


@pytest.mark.parametrize(
    "changed", [keys.circuit("banc"), keys.circuit(""), {"state": "AJAR"}, {"version": "3"}], ids=str
)
def test_the_proof_reports_any_other_row_of_a_circuit(changed: dict[str, Any]) -> None:
    with pytest.raises(MalformedRow):
        rows.circuit(to_row("bank", OPEN) | changed)
