from collections import Counter
from collections.abc import Iterable

from settlement.core.ledger.keys import Row


def assert_conserved(found: Iterable[Row]) -> dict[str, int]:
    """Check, without the code under test, that each balance and escrow is the sum of its entries.

    Returns the internal accounts' balances, which have no row; all balances sum to zero.
    """
    found = list(found)
    held = {row["pk"].removeprefix("ACCOUNT#"): row["available"] for row in found if row["sk"] == "BALANCE"}
    assert not any(":" in account for account in held), "an internal account has no balance row"
    held |= {f"escrow:{row['pk'][11:]}": row["escrow"] for row in found if row["sk"] == "SETTLEMENT"}
    posted, currencies = dict.fromkeys(held, 0), Counter[str]()
    for entry in found:
        if "debit" in entry:
            assert entry["amount"] >= 0
            for account, change in ((entry["debit"], -entry["amount"]), (entry["credit"], entry["amount"])):
                posted[account] = posted.get(account, 0) + change
    internal = {account: posted[account] for account in posted.keys() - held.keys()}
    assert {account: posted[account] for account in held} == held
    assert all(balance >= 0 for balance in held.values())
    assert {account.partition(":")[0] for account in internal} <= {"fees", "losses", "external"}
    for account, balance in internal.items():
        assert balance >= 0 if account.startswith("fees:") else balance <= 0, account
        currencies[account.partition(":")[2]] += balance
    for row in found:
        if row["sk"] == "SETTLEMENT":
            currencies[row["currency"]] += row["escrow"]
            assert row["escrow"] == 0 or row["status"] not in ("SETTLED", "COMPENSATED", "REJECTED"), row
        elif row["sk"] == "BALANCE":
            currencies[row["currency"]] += row["available"]
    assert not any(currencies.values()), currencies
    return {account: balance for account, balance in internal.items() if balance}
