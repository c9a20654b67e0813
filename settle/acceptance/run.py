import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.acceptance.throttling import Throttled, quota_of_text
from settle.accounts import accounts
from settle.exit_codes import CommandFailed
from settle.settlements.follow import is_at_rest
from settle.settlements.machines import Machine
from settle.settlements.start import Ended, start
from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.core.model import money
from settlement.core.model.errors import SettlementError
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status

DEPOSIT, AMOUNT = 10_000, 1_000
"""Small deposit and payment, in minor units. The fee is above zero."""

REST_SECONDS_MAX = 180
"""Longest wait for a payment to come to rest. Recovery looks at it within minutes."""

_POLL_SECONDS = 0.25


@dataclass
class Run:
    stack: Stack
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    accounts: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    """Measured load, one row per pace."""
    stuck: str = ""
    """ARN of the execution that waited in LIMBO."""
    stopped_at: datetime | None = None
    waits_for: str = "AWS"
    """The current wait, reported if a check takes too long."""

    @property
    def reason(self) -> str:
        return f"acceptance {self.id}"

    @property
    def currency(self) -> str:
        currencies = sorted(self.stack.config.currencies)
        return "EUR" if "EUR" in currencies else currencies[0]

    @property
    def net(self) -> int:
        return AMOUNT - self.stack.config.scheduled_fee(AMOUNT)

    def text(self, minor: int) -> str:
        return money.render(minor, self.stack.config.currencies[self.currency])

    def account(self, name: str, deposit: int = 0, provider: str = "") -> str:
        """Open an account, with a deposit in minor units. `provider` selects the simulated KYC behaviour."""
        account = f"{provider and f'kyc-{provider}.'}acceptance-{self.id}-{name}"
        self.accounts.append(account)
        self.waits_for = f"the orders that open {account}"
        accounts.open_account(self.stack, account, self.currency, self.text(deposit), reason=self.reason)
        return account

    def parties(self, name: str) -> tuple[str, str]:
        return self.account(f"{name}-a", DEPOSIT), self.account(f"{name}-b")

    def request(self, name: str, payer: str, payee: str, amount: int = AMOUNT) -> dict[str, str]:
        key = f"acceptance-{self.id}-{name}-{len(self.keys)}"
        self.keys.append(key)
        names = {"payer_name": "Acceptance Payer", "payee_name": "Acceptance Payee"}
        return {
            "key": key,
            "payer": payer,
            "payee": payee,
            "amount": self.text(amount),
            "currency": self.currency,
            **(names if self.stack.config.party_names == "required" else {}),
        }

    def send(self, request: dict[str, str], machine: Machine = Machine.EXPRESS) -> Ended:
        self.waits_for = f"the end of the {machine} execution of {request['key']}"
        ended = start(self.stack, machine, json.dumps(request))
        failure = (ended.outcome or {}).get("failure") or {"error": ended.error, "cause": ended.message}
        if quota := quota_of_text(failure["cause"] or ""):
            raise Throttled(f"{ended.key}: {failure['error']}: {failure['cause']}", quota)
        return ended

    def balance(self, account: str) -> int:
        """Return the balance in minor units. Raises LookupError."""
        state = self.stack.store.account(account)
        if state is None:
            raise LookupError(f"{account} is not open")
        return state.available

    def move(self, order: OrderKind, account: str, amount: int) -> None:
        self.waits_for = f"the order to {order} at {account}"
        accounts.give(
            self.stack,
            order,
            key=accounts.mint(order),
            account=account,
            amount=self.text(amount),
            currency=self.currency,
            reference=self.reason,
            reason=self.reason,
        )

    def at_rest(self, key: str) -> SettlementState | None:
        """Wait until no execution works on the settlement. Return its state. Raises Throttled."""
        state = self.rested(key)
        failure = (state and state.failure) or {"cause": ""}
        if quota := quota_of_text(failure["cause"]):
            raise Throttled(f"{key}: {failure['error']}: {failure['cause']}", quota)
        return state

    def rested(self, key: str) -> SettlementState | None:
        store = self.stack.store

        def rests() -> bool:
            state = store.settlement(key)
            return state is not None and is_at_rest(state)

        self.wait_for(f"{key} to come to rest", rests)
        return store.settlement(key)

    def wait_for(self, what: str, holds: Callable[[], Any], seconds: float = REST_SECONDS_MAX) -> bool:
        self.waits_for = what
        return wait_for(holds, seconds)

    def in_flight(self) -> Iterator[str]:
        """Wait for all payments to end. Yield a line for each still in flight, in LIMBO or unreadable."""
        give_up_at = time.monotonic() + REST_SECONDS_MAX
        for key in self.keys:
            try:
                state = self.stack.store.settlement(key)
                while state and not is_at_rest(state) and time.monotonic() < give_up_at:
                    time.sleep(_POLL_SECONDS)
                    state = self.stack.store.settlement(key)
            except (SettlementError, ClientError, BotoCoreError) as failed:
                yield f"{key} may be in flight: {failed}"
                continue
            if state and (not is_at_rest(state) or state.status is Status.LIMBO):
                yield f"{key} is {state.status}"

    def give_back(self) -> Iterator[str]:
        """Withdraw the balances and close the accounts; yield each failure."""
        for account in self.accounts:
            try:
                state = self.stack.store.account(account)
                if state is None:
                    continue
                if state.available:
                    self.move(OrderKind.WITHDRAW, account, state.available)
                self.waits_for = f"the order that closes {account}"
                key = accounts.mint(OrderKind.CLOSE)
                accounts.give(self.stack, OrderKind.CLOSE, key=key, account=account, reason=self.reason)
            except (CommandFailed, SettlementError, ClientError, BotoCoreError) as failed:
                yield f"{account}: {failed}"


def wait_for(holds: Callable[[], Any], seconds: float = REST_SECONDS_MAX) -> bool:
    give_up_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_POLL_SECONDS)
    return True
