"""One run of the acceptance: its own accounts, keys and payments, and the way back of its money."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

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
"""What a payer has, and what a payment moves, in minor units: small, and no less than a fee's rounding."""

REST_SECONDS_MAX = 180
"""How long a payment may take to come to rest: recovery looks at it within minutes."""

_POLL_SECONDS = 0.25


@dataclass
class Run:
    """A run by its id. It remembers all that it has opened and sent, so that nothing is left behind."""

    stack: Stack
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    accounts: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    """What the load was measured to be, a row for each pace."""
    stuck: str = ""
    """The ARN of the execution that has waited in LIMBO."""
    stopped_at: datetime | None = None
    """When an execution was stopped."""
    waits_for: str = "AWS"
    """What the run waits for now, for the report of a check that does not end."""

    @property
    def reason(self) -> str:
        """The reason of each order of the run."""
        return f"acceptance {self.id}"

    @property
    def currency(self) -> str:
        """The currency of the run: EUR where the stage has it, else its first."""
        currencies = sorted(self.stack.config.currencies)
        return "EUR" if "EUR" in currencies else currencies[0]

    @property
    def net(self) -> int:
        """What a payee gets of AMOUNT, in minor units."""
        return AMOUNT - self.stack.config.scheduled_fee(AMOUNT)

    def text(self, minor: int) -> str:
        """Return an amount as requests and orders have it."""
        return money.render(minor, self.stack.config.currencies[self.currency])

    def account(self, name: str, deposit: int = 0, provider: str = "") -> str:
        """Open an account of the run, with a deposit in minor units through the door.

        Its id tells the simulated KYC provider how to behave; a real one knows no such ids.
        """
        account = f"{provider and f'kyc-{provider}.'}acceptance-{self.id}-{name}"
        self.accounts.append(account)
        self.waits_for = f"the orders that open {account}"
        accounts.open_account(self.stack, account, self.currency, self.text(deposit), reason=self.reason)
        return account

    def parties(self, name: str) -> tuple[str, str]:
        """Open a payer with the deposit, and a payee with nothing."""
        return self.account(f"{name}-a", DEPOSIT), self.account(f"{name}-b")

    def request(self, name: str, payer: str, payee: str, amount: int = AMOUNT) -> dict[str, str]:
        """Return a request under a new key of the run."""
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
        """Start a settlement and wait for its end."""
        self.waits_for = f"the end of the {machine} execution of {request['key']}"
        return start(self.stack, machine, json.dumps(request))

    def balance(self, account: str) -> int:
        """Return what an account has available, in minor units."""
        state = self.stack.store.account(account)
        if state is None:
            raise LookupError(f"{account} is not open")
        return state.available

    def move(self, order: OrderKind, account: str, amount: int) -> None:
        """Deposit to an account of the run, or withdraw from it."""
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
        """Wait until no execution works on a settlement; return its last state, if it has one."""
        store = self.stack.store

        def rests() -> bool:
            state = store.settlement(key)
            return state is not None and is_at_rest(state)

        self.wait_for(f"{key} to come to rest", rests)
        return store.settlement(key)

    def wait_for(self, what: str, holds: Callable[[], Any], seconds: float = REST_SECONDS_MAX) -> bool:
        """Wait until a condition holds, and remember for what; return whether it does."""
        self.waits_for = what
        return wait_for(holds, seconds)

    def in_flight(self) -> Iterator[str]:
        """Wait for the run's payments, all of them together; yield those that do not end, or are in LIMBO."""
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
        """Withdraw what the run's accounts have, and close them; yield what had to be left."""
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
    """Wait until a condition holds; return whether it does."""
    give_up_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_POLL_SECONDS)
    return True
