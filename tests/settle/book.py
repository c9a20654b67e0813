"""Hand-made table rows, as left by settlements."""

from itertools import count
from typing import Any
from zlib import crc32

from settlement.core.ledger import keys
from settlement.core.model.saga import Step
from settlement.core.model.settlement import Settlement
from tests.proof.town import order

Row = dict[str, Any]
Address = tuple[str, str]
"""Partition key and sort key."""

STEPS = tuple(step.value for step in Step)
REVERSIBLE = ("fee", "release", "hold")
DEADLINE = "2026-11-21T12:00:00.000Z"
LISTED = "2026-11-20T23:30:00.000Z"
VERDICT = {"provider": "verifications", "reference": "ver_1", "reason": "nothing is known"}
PERSON = {"reason": "as agreed", "by": "olga"}
STUCK = {"error": "InsufficientFunds", "cause": "it is spent"}


class Book:
    """Accounts and settlements in memory; `rows` is their table."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._seconds = count()

    def open(self, account: str, deposit: int, currency: str = "EUR") -> None:
        at, first = self._now(), f"order-to-open-{account.replace('.', '-')}"
        row = {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": deposit, "currency": currency}
        self.rows += [
            row | {"opened_at": at, "last_order": first},
            order(first, "open", account, at, currency),
        ]
        if deposit:
            self.deposit(account, deposit, currency)

    def deposit(self, account: str, amount: int, currency: str = "EUR") -> Row:
        """Post a deposit with its order, without changing the balance."""
        at, key = self._now(), f"first-deposit-of-{account.replace('.', '-')}"
        ordered = order(key, "deposit", account, at, currency, amount)
        entry = {
            "pk": _partition(account, key),
            "sk": f"{at}#{key}:deposit",
            "step": "deposit",
            "posted_at": at,
            "request_hash": ordered["request_hash"],
            "debit": f"external:{currency}",
            "credit": account,
            "side": "credit",
            "amount": amount,
            "currency": currency,
        }
        self.rows += [entry, ordered]
        return entry

    def settle(
        self, key: str, payer: str, payee: str, amount: int, fee: int, *, steps: int, status: str = ""
    ) -> None:
        """Commit the first `steps` steps. They imply the status unless one is given."""
        currency = self.row(f"ACCOUNT#{payer}")["currency"]
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
            "request_hash": _hash(key, payer, payee, amount, fee, currency),
            "owner": f"{key}-1",
            "owner_epoch": 0,
            "sequence": 1 + steps + (status == "REJECTED"),
            "claimed_at": self._now(),
            "deadline_at": DEADLINE,
        }
        self.rows.append(settlement)
        self._list(settlement)
        moves = {
            "hold": (payer, "debit", amount),
            "release": (payee, "credit", amount - fee),
            "fee": (f"fees:{currency}", "credit", fee),
        }
        for step in STEPS[:steps]:
            if step == "verify":
                at = self.record(key, step, decision="APPROVED")
                settlement["verdict"] = "APPROVED"
            else:
                at = self.post(key, step, *moves[step])
            settlement[f"{step}_at"] = at
        if settlement["status"] == "SETTLED":
            self._finish(settlement, settlement.get("fee_at", ""))
        elif settlement["status"] == "REJECTED":
            settlement["failure"] = {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}
            self._finish(settlement, self._now())

    def reject(self, key: str, by: str = "verify") -> None:
        """Record a rejection by the provider, or by its webhook (`review`); it commits no step."""
        at = self.record(key, by, decision="REJECTED")
        row = self.row(f"SETTLEMENT#{key}")
        row |= {"verdict": "REJECTED"} | ({"in_flight_since": at} if by == "review" else {})

    def review(self, key: str) -> None:
        """Begin a review, which moves the deadline to its end."""
        row = self.row(f"SETTLEMENT#{key}")
        row |= {"review": "ver_1", "in_flight_since": DEADLINE, "gsi1sk": DEADLINE}
        row["sequence"] += 1

    def compensate(self, key: str, *, last: str = "hold", written_off: str = "") -> None:
        """Reverse a settlement as far as `last`; the losses cover the step `written_off`."""
        row = self.row(f"SETTLEMENT#{key}")
        self._begin(row)
        for step in REVERSIBLE[: REVERSIBLE.index(last) + 1]:
            if f"{step}_at" not in row or f"{step}_reversed_at" in row:
                continue
            account, side, amount = self._reversal(row, step)
            if step == written_off:
                at = self._decide(row, "write-off")
                self.post(key, f"resolve:{row['resolutions']}", f"losses:{row['currency']}", side, amount, at)
            else:
                at = self.post(key, f"compensate:{step}", account, side, amount)
                row["sequence"] += 1
            row["escrow"] += amount if side == "debit" else -amount
            row[f"{step}_reversed_at"] = at
        if last == "hold":
            row["status"] = "COMPENSATED"
            row["sequence"] += "hold_at" not in row
            self._finish(row, row.get("hold_reversed_at") or self._now())

    def limbo(self, key: str, stuck: str) -> None:
        """Reverse a settlement up to `stuck`, whose reversal is in LIMBO."""
        row = self.row(f"SETTLEMENT#{key}")
        self._begin(row)
        if before := REVERSIBLE[: REVERSIBLE.index(stuck)]:
            self.compensate(key, last=before[-1])
        account = {"hold": row["payer"], "release": row["payee"], "fee": f"fees:{row['currency']}"}[stuck]
        case = f"limbo:{row['resolutions'] + 1}"
        row |= {"status": "LIMBO", "stuck_step": f"compensate:{stuck}", "gsi1pk": "LIMBO"}
        row |= {"gsi1sk": self.record(key, case, account=account)}
        row["failure"] = {"step": f"compensate:{stuck}", **STUCK}
        row["sequence"] += 1
        if ":" not in account and f"{stuck}_at" in row:
            blocked = self.row(f"ACCOUNT#{account}")
            blocked["limbo_cases"] = blocked.get("limbo_cases", 0) + 1

    def retry(self, key: str) -> None:
        self._decide(self.row(f"SETTLEMENT#{key}"), "retry")

    def complete(self, key: str) -> None:
        """Let the payee keep the released amount; the escrow becomes the fee."""
        row = self.row(f"SETTLEMENT#{key}")
        at = self._decide(row, "complete")
        fees = f"fees:{row['currency']}"
        self.post(key, f"resolve:{row['resolutions']}", fees, "credit", row["escrow"], at)
        row |= {"status": "SETTLED", "escrow": 0}
        del row["failure"]
        self._finish(row, at)

    def post(self, key: str, step: str, account: str, side: str, amount: int, at: str = "") -> str:
        """Add an entry between account and escrow, move a customer's balance, and return the time."""
        at = at or self._now()
        self.rows.append(
            {
                "pk": _partition(account, key),
                "sk": f"{at}#{key}:{step}",
                "step": step,
                "posted_at": at,
                "request_hash": self.row(f"SETTLEMENT#{key}")["request_hash"],
                "debit": account if side == "debit" else f"escrow:{key}",
                "credit": account if side == "credit" else f"escrow:{key}",
                "side": side,
                "amount": amount,
                "currency": self.row(f"SETTLEMENT#{key}")["currency"],
            }
        )
        if ":" not in account and (step, account[:9]) != ("release", "merchant."):
            self.row(f"ACCOUNT#{account}")["available"] += amount if side == "credit" else -amount
        return at

    def sweep(self, key: str) -> Row:
        """Sweep a merchant's release, the only one in its second; return the sweep's row."""
        entry = self.entry(key, "release")
        at, pk = entry["posted_at"], f"SWEPT#{entry['pk']}"
        found = [row for row in self.rows if (row["pk"], row["sk"]) == (pk, at[:16])]
        if not found:
            found = [{"pk": pk, "sk": at[:16], "version": 0, "folded": {}}]
            self.rows += found
        found[0]["version"] += 1
        found[0]["folded"][at[17:19]] = entry["amount"]
        self.row(f"ACCOUNT#{entry['credit']}")["available"] += entry["amount"]
        return found[0]

    def record(self, key: str, step: str, **content: str) -> str:
        """Add evidence, which moves nothing; return its time."""
        at, row = self._now(), next((one for one in self.rows if one["pk"] == f"SETTLEMENT#{key}"), {})
        evidence = {"pk": f"EVIDENCE#{key}", "sk": f"{key}:{step}", "step": step, "posted_at": at}
        party = {"account": row.get("payee", "bob")}
        usual = {"limbo": party | STUCK, "resolve": party | PERSON, "reverse": PERSON}
        usual["review"] = VERDICT | {"provider": "webhook"}
        content = {**usual.get(step.partition(":")[0], VERDICT), **content}
        content |= keys.orders_index(at) if "by" in content else {}
        self.rows.append({**evidence, "request_hash": row.get("request_hash", "of-nothing"), **content})
        return at

    def row(self, pk: str, sk: str | None = None) -> Row:
        return next(row for row in self.rows if row["pk"] == pk and sk in (None, row["sk"]))

    def entry(self, key: str, step: str) -> Row:
        return next(row for row in self.rows if row["sk"].endswith(f"#{key}:{step}"))

    def evidence(self, key: str, step: str) -> Row:
        return self.row(f"EVIDENCE#{key}", f"{key}:{step}")

    def available(self, account: str) -> int:
        available: int = self.row(f"ACCOUNT#{account}")["available"]
        return available

    def remove(self, row: Row) -> None:
        self.rows.remove(row)

    def _decide(self, row: Row, decision: str) -> str:
        key, number = row["pk"].partition("#")[2], row.get("resolutions", 0) + 1
        opened = [one for one in self.rows if one["sk"] == f"{key}:limbo:{number}"]
        if not opened:
            self.record(key, f"limbo:{number}")
            row["sequence"] += 1
        account = (opened or [{"account": row["payee"]}])[0]["account"]
        at = self.record(key, f"resolve:{number}", decision=decision, account=account)
        resolution = {"decision": decision, **PERSON, "decided_at": at}
        covered = set(row.get("resolution", {}).get("covered", "").split())
        if decision == "write-off":
            covered.add("release" if account == row["payee"] else "fee")
        if covered:
            resolution["covered"] = " ".join(sorted(covered))
        row |= {"resolutions": number, "resolution": resolution, "in_flight_since": at}
        row |= {"status": "COMPENSATING", "failure": row["reversed_for"]}
        row["sequence"] += 1
        row.pop("stuck_step", None)
        self._list(row)
        if opened and ":" not in account:
            self.row(f"ACCOUNT#{account}")["limbo_cases"] -= 1
        return at

    def _begin(self, row: Row) -> None:
        if "reversed_for" not in row:
            step = next((step for step in STEPS if f"{step}_at" not in row), "reverse")
            failure = {"step": step, "error": "KycUnavailable", "cause": "no answer"}
            if step == "reverse":
                failure["cause"] = "{reason} (by {by})".format(**PERSON)
                row["in_flight_since"] = self.record(row["pk"].partition("#")[2], step)
            row |= {"failure": failure, "reversed_for": failure, "resolutions": 0}
            row["sequence"] += 1
            row.pop("finished_at", None)
        row["status"] = "COMPENSATING"
        self._list(row)

    def _list(self, row: Row) -> None:
        key = row["pk"].partition("#")[2]
        row |= {"gsi1pk": f"IN_FLIGHT#{crc32(key.encode()) % 8}", "gsi1sk": LISTED}

    def _finish(self, row: Row, at: str) -> None:
        row["finished_at"] = at
        for name in ("gsi1pk", "gsi1sk", "stuck_step"):
            row.pop(name, None)

    def _reversal(self, row: Row, step: str) -> tuple[str, str, int]:
        return {
            "fee": (f"fees:{row['currency']}", "debit", row["fee"]),
            "release": (row["payee"], "debit", row["amount"] - row["fee"]),
            "hold": (row["payer"], "credit", row["amount"]),
        }[step]

    def _now(self) -> str:
        seconds = next(self._seconds)
        return f"2026-11-20T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"


def _partition(account: str, key: str) -> str:
    is_sharded = ":" in account or account.startswith("merchant.")
    return f"ENTRIES#{account}" + (f"#{crc32(key.encode()) % 16}" if is_sharded else "")


def _hash(key: str, payer: str, payee: str, amount: int, fee: int, currency: str) -> str:
    return Settlement(
        key=key, payer=payer, payee=payee, amount=amount, currency=currency, fee=fee
    ).request_hash
