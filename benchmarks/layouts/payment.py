"""A payment, and the entries and balances that all layouts share."""

import zlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from benchmarks.layouts.writes import Get, Refusal, Row, Write

HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
"""The length of a request's hash counts for the units; its content does not matter here."""

FEES = "fees:EUR"
FORWARD = ("hold", "release", "fee")
"""The steps that move money, in the order of their commit."""

Call = Generator[Sequence[Write] | Get, Row | Refusal | None, str]
"""One call of a function: it yields what it sends to the table, gets the answers, and returns its outcome."""

Provider = Callable[[], str]
"""The KYC provider, whose answer to a second question may be another one."""


@dataclass(frozen=True)
class Payment:
    """A payment; amounts in minor units."""

    key: str
    payer: str
    payee: str
    amount: int
    fee: int

    @property
    def net(self) -> int:
        """The payee's part."""
        return self.amount - self.fee


def movement(payment: Payment, step: str) -> tuple[str, str, int]:
    """Return debit, credit and amount of a step or of its reversal."""
    escrow = f"escrow:{payment.key}"
    done = step.removeprefix("compensate:")
    debit, credit, amount = {
        "hold": (payment.payer, escrow, payment.amount),
        "release": (escrow, payment.payee, payment.net),
        "fee": (escrow, FEES, payment.fee),
    }[done]
    return (debit, credit, amount) if done == step else (credit, debit, amount)


def entry(payment: Payment, step: str, now: str) -> Row:
    """Return a money entry without its key; `side` is that of the account."""
    debit, credit, amount = movement(payment, step)
    return {
        "step": step,
        "posted_at": now,
        "request_hash": HASH,
        "debit": debit,
        "credit": credit,
        "side": "credit" if debit.startswith("escrow:") else "debit",
        "amount": amount,
        "currency": "EUR",
    }


def account_of(entry: Row) -> str:
    """Return the account of an entry that is not the escrow."""
    account: str = entry["credit" if entry["side"] == "credit" else "debit"]
    return account


def partition(account: str, key: str) -> str:
    """Return an account's partition: internal accounts have 16 shards."""
    return f"{account}#{zlib.crc32(key.encode()) % 16}" if account == FEES else account


def statement_index(account: str, key: str, step: str, now: str) -> Row:
    """Return an entry's place in the statement's index."""
    return {"gsi1pk": f"ACCOUNT#{partition(account, key)}", "gsi1sk": f"{now}#{key}:{step}"}


def balance(account: str, change: int) -> Write:
    """Build the write of a customer's balance; a debit demands that it is covered."""
    covered = (("available", ">=", -change),) if change < 0 else ()
    return Write(
        (f"ACCOUNT#{account}", "BALANCE"), (("currency", "=", "EUR"), *covered), add={"available": change}
    )


def deposit(account: str, amount: int, now: str, place: Row) -> Row:
    """Return the entry that explains an account's first balance."""
    return {
        **place,
        **{"step": "deposit", "posted_at": now, "debit": "outside", "credit": account},
        **{"side": "credit", "amount": amount, "currency": "EUR"},
    }
