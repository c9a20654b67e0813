"""Hand-made rows of a table, as settlements would have left them."""

from typing import Any

Row = dict[str, Any]

STEPS = ("hold", "verify", "release", "fee")
REVERSIBLE = ("fee", "release", "hold")


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
        if "verify" in STEPS[:steps]:
            settlement["verdict"] = "APPROVED"
        self.rows.append(settlement)
        moves = {
            "hold": (payer, escrow, amount),
            "release": (escrow, payee, amount - fee),
            "fee": (escrow, f"fees:{currency}", fee),
        }
        for step in STEPS[:steps]:
            self._post(key, step, *moves.get(step, ()), currency=currency)

    def reject(self, key: str) -> None:
        """Put the provider's rejection on record, which is a verdict and commits no step."""
        self._post(key, "verify")
        self.row(f"SETTLEMENT#{key}", "SETTLEMENT")["verdict"] = "REJECTED"

    def compensate(self, key: str, *, last: str = "hold", written_off: str = "") -> None:
        """Reverse a settlement as far as the step `last`, of which a person has covered `written_off`.

        What never committed goes on record as that; with the hold, all of it is reversed.
        """
        row = self.row(f"SETTLEMENT#{key}", "SETTLEMENT")
        row["status"] = "COMPENSATING"
        for step in REVERSIBLE[: REVERSIBLE.index(last) + 1]:
            if step not in row.get("steps", ()):
                self._post(key, f"compensate:{step}")
                continue
            amount, stuck_with = self._reversal(row, step)
            escrow, currency = f"escrow:{key}", row["currency"]
            if step == written_off:
                self._post(key, "resolve:1", f"losses:{currency}", escrow, amount, currency=currency)
                row["resolution"] = {"decision": "write-off"}
            elif step == "hold":
                self._post(key, "compensate:hold", escrow, stuck_with, amount, currency=currency)
            else:
                self._post(key, f"compensate:{step}", stuck_with, escrow, amount, currency=currency)
            row["escrow"] += -amount if step == "hold" else amount
            row["reversed"] = row.get("reversed", set()) | {step}
        if last == "hold":
            row["status"] = "COMPENSATED"

    def limbo(self, key: str, stuck: str) -> None:
        """Reverse a settlement up to the step `stuck`, whose reversal is in LIMBO."""
        row = self.row(f"SETTLEMENT#{key}", "SETTLEMENT")
        if before := REVERSIBLE[: REVERSIBLE.index(stuck)]:
            self.compensate(key, last=before[-1])
        self._post(key, "limbo:1")
        row |= {"status": "LIMBO", "stuck_step": f"compensate:{stuck}"}

    def complete(self, key: str) -> None:
        """Accept what was released of a settlement in LIMBO: what the escrow has is the fee."""
        row = self.row(f"SETTLEMENT#{key}", "SETTLEMENT")
        currency, left = row["currency"], row["escrow"]
        self._post(key, "resolve:1", f"escrow:{key}", f"fees:{currency}", left, currency=currency)
        row |= {"status": "SETTLED", "escrow": 0, "resolution": {"decision": "complete"}}

    def row(self, pk: str, sk: str | None = None) -> Row:
        return next(row for row in self.rows if row["pk"] == pk and sk in (None, row["sk"]))

    def available(self, account: str) -> int:
        available: int = self.row(f"ACCOUNT#{account}")["available"]
        return available

    def remove(self, pk: str, sk: str) -> None:
        self.rows.remove(self.row(pk, sk))

    def _reversal(self, row: Row, step: str) -> tuple[int, str]:
        """How much moves back when a step is reversed, and the account beside the escrow."""
        if step == "fee":
            return row["fee"], f"fees:{row['currency']}"
        return (
            (row["amount"] - row["fee"], row["payee"]) if step == "release" else (row["amount"], row["payer"])
        )

    def _post(
        self, key: str, step: str, debit: str = "", credit: str = "", amount: int = 0, *, currency: str = ""
    ) -> None:
        """Add an entry, which is evidence only if it debits nothing, and move the customers' balances."""
        entry: Row = {"pk": f"SETTLEMENT#{key}", "sk": f"{key}:{step}", "step": step}
        if debit:
            entry |= {"debit": debit, "credit": credit, "amount": amount, "currency": currency}
            self._move(debit, -amount)
            self._move(credit, amount)
        self.rows.append(entry)

    def _move(self, account: str, change: int) -> None:
        if ":" not in account:
            self.row(f"ACCOUNT#{account}")["available"] += change
