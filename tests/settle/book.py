"""Hand-made rows of a table, as settlements would have left them."""

from typing import Any

Row = dict[str, Any]

STEPS = ("hold", "verify", "release", "fee")


class Book:
    """Accounts and settlements kept in memory; `rows` is the table that they make."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def open(self, account: str, deposit: int, currency: str = "EUR") -> None:
        self.rows.append(
            {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": deposit, "currency": currency}
        )
        if deposit:
            self.rows.append(
                {
                    "pk": f"DEPOSIT#open-{account}",
                    "sk": f"open-{account}:deposit",
                    "step": "deposit",
                    "debit": f"external:{currency}",
                    "credit": account,
                    "amount": deposit,
                    "currency": currency,
                }
            )

    def settle(
        self, key: str, payer: str, payee: str, amount: int, fee: int, *, steps: int, status: str = ""
    ) -> None:
        """Settle as far as the first `steps` steps; the status follows from that unless it is given."""
        currency = self.row(f"ACCOUNT#{payer}")["currency"]
        escrow = f"escrow:{key}"
        settlement = {
            "pk": f"SETTLEMENT#{key}",
            "sk": "SETTLEMENT",
            "status": status or ("SETTLED" if steps == len(STEPS) else "PROCESSING"),
            "payer": payer,
            "payee": payee,
            "amount": amount,
            "fee": fee,
            "currency": currency,
            "escrow": (0, amount, amount, fee, 0)[steps],
        }
        if steps:
            settlement["steps"] = set(STEPS[:steps])
        self.rows.append(settlement)
        moves = {
            "hold": (payer, escrow, amount),
            "release": (escrow, payee, amount - fee),
            "fee": (escrow, f"fees:{currency}", fee),
        }
        for step in STEPS[:steps]:
            entry: Row = {"pk": f"SETTLEMENT#{key}", "sk": f"{key}:{step}", "step": step}
            if step in moves:
                debit, credit, moved = moves[step]
                entry |= {"debit": debit, "credit": credit, "amount": moved, "currency": currency}
                self._move(debit, -moved)
                self._move(credit, moved)
            self.rows.append(entry)

    def row(self, pk: str, sk: str | None = None) -> Row:
        return next(row for row in self.rows if row["pk"] == pk and sk in (None, row["sk"]))

    def available(self, account: str) -> int:
        available: int = self.row(f"ACCOUNT#{account}")["available"]
        return available

    def remove(self, pk: str, sk: str) -> None:
        self.rows.remove(self.row(pk, sk))

    def _move(self, account: str, change: int) -> None:
        if ":" not in account:
            self.row(f"ACCOUNT#{account}")["available"] += change
