from tests.infra.stack import FUNCTIONS
from tests.infra.test_grants import ROWS, admits, allowed


def test_a_sweep_moves_only_merchant_balances_and_writes_no_entry() -> None:
    granted_to = FUNCTIONS["SweepMerchants"]

    assert admits(granted_to, "UpdateItem", ROWS["merchant"])
    assert not admits(granted_to, "UpdateItem", ROWS["account"])
    assert not any(admits(granted_to, "PutItem", ROWS[kind]) for kind in ("entry", "entry of a merchant"))
    assert not admits(FUNCTIONS["TakeOrder"], "UpdateItem", ROWS["swept"])
    assert allowed("PutItem", "swept") == {"SweepMerchants", "ReclaimFunds", "TakeOrder"}
