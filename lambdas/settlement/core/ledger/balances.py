"""Writes to a customer's balance row, in minor units."""

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    EXISTS,
    IN_LIMBO,
    NOT_CLOSED,
    NOT_FROZEN,
    NOT_IN_LIMBO,
    Condition,
    below_cap,
    same_currency,
    sufficient,
)
from settlement.core.ledger.failure_reasons import account_refusal, out_of_use, payee_refusal
from settlement.core.ledger.transaction import Write, update
from settlement.core.model.errors import (
    AccountNotFound,
    CapExceeded,
    CaseNotCounted,
    InsufficientFunds,
    SettlementError,
)
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import AccountState


def debit_payer(settlement: Settlement) -> Write:
    def meaning(state: AccountState | None) -> SettlementError:
        if refusal := account_refusal("payer", settlement.currency, state):
            return refusal
        return out_of_use("payer", state) or InsufficientFunds("payer")

    return update(
        keys.account(settlement.payer),
        "SET available = available - :amount",
        values={":amount": settlement.amount},
        conditions=[
            same_currency(settlement.currency),
            sufficient(settlement.amount),
            NOT_IN_LIMBO,
            NOT_FROZEN,
            NOT_CLOSED,
        ],
        on_failure=meaning,
    )


def credit_payee(settlement: Settlement, highest_balance: int | None) -> Write:
    """Credit the payee. A blocked or frozen payee may receive; a closed payee may not."""

    def meaning(state: AccountState | None) -> SettlementError:
        return payee_refusal(settlement.currency, state) or CapExceeded.of("payee", settlement.currency)

    conditions: list[Condition] = [same_currency(settlement.currency), NOT_CLOSED]
    if highest_balance is not None:
        conditions += [below_cap(highest_balance - settlement.net)]
    return update(
        keys.account(settlement.payee),
        "SET available = available + :net",
        values={":net": settlement.net},
        conditions=conditions,
        on_failure=meaning,
    )


def debit_payee(settlement: Settlement) -> Write:
    return debit_part(settlement, settlement.net)


def debit_part(settlement: Settlement, amount: int) -> Write:
    """Debit the payee, unless the payee has spent the amount."""

    def meaning(state: AccountState | None) -> SettlementError:
        return account_refusal("payee", settlement.currency, state) or InsufficientFunds(
            "payee", "the account has too little available to give back what it received"
        )

    return update(
        keys.account(settlement.payee),
        "SET available = available - :amount",
        values={":amount": amount},
        conditions=[same_currency(settlement.currency), sufficient(amount)],
        on_failure=meaning,
    )


def credit_payer(settlement: Settlement) -> Write:
    """Credit the payer, even if closed or above the highest balance, because the money was the payer's."""
    return credit_part(settlement, settlement.amount)


def credit_part(settlement: Settlement, amount: int) -> Write:
    def meaning(state: AccountState | None) -> SettlementError:
        # Only the currency's condition can fail; a returned row that satisfies it counts as absent.
        return account_refusal("payer", settlement.currency, state) or AccountNotFound("payer")

    return update(
        keys.account(settlement.payer),
        "SET available = available + :amount",
        values={":amount": amount},
        conditions=[same_currency(settlement.currency)],
        on_failure=meaning,
    )


def block(account: str) -> Write:
    """Count a LIMBO case on its account. A counted case blocks new holds.

    The transaction also writes the settlement's row, so a case counts once.
    """
    return update(
        keys.account(account),
        "ADD limbo_cases :one",
        values={":one": 1},
        conditions=[EXISTS],
        on_failure=lambda state: AccountNotFound("stuck party"),
    )


def unblock(account: str) -> Write:
    return update(
        keys.account(account),
        "SET limbo_cases = limbo_cases - :one",
        values={":one": 1},
        conditions=[IN_LIMBO],
        on_failure=lambda state: CaseNotCounted("stuck party") if state else AccountNotFound("stuck party"),
    )
