"""How the tests call a handler: as Lambda does, with what the state machine passes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from settlement import rows
from settlement.rows import Row
from tests.conftest import Ledger

KEY = "order-2026-000101"
WIRE = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR", "fee": "0.48"}
"""The settlement in the canonical form in which the machine carries it."""

OTHER_CONTENT = [
    WIRE | {"amount": "48.21"},
    WIRE | {"fee": "0.49"},
    WIRE | {"payer": "carol"},
    WIRE | {"payee": "carol"},
    WIRE | {"currency": "USD"},
]
CLAIMED_AT = "2026-11-20T12:00:00.123Z"
LATER_AT = "2026-11-20T12:00:07.123Z"

MALFORMED = [
    pytest.param(None, "request: must be a JSON object", id="null"),
    pytest.param([WIRE], "request: must be a JSON object", id="a list"),
    pytest.param("48.20", "request: must be a JSON object", id="a text"),
    pytest.param({}, "amount: missing; currency: missing; key: missing", id="nothing in it"),
    pytest.param(WIRE | {"note": "x"}, "note: unknown field", id="an unknown field"),
    pytest.param(WIRE | {"amount": 48.2}, "amount: must be a decimal string", id="a number as amount"),
    pytest.param(WIRE | {"fee": None}, "fee: must be a decimal string", id="null as fee"),
    pytest.param(WIRE | {"fee": "48.20"}, "fee: must be less than the amount", id="all of it a fee"),
    pytest.param(WIRE | {"currency": ["EUR"]}, "currency: must be one of", id="a list as currency"),
    pytest.param(WIRE | {"key": "too-short"}, "key: must be a string", id="a short key"),
    pytest.param(WIRE | {"payee": "alice"}, "payee: must be another account", id="to oneself"),
    pytest.param(WIRE | {"payee": "fees:EUR"}, "payee: must be a string", id="to an internal account"),
]
WITHOUT_FEE = {name: text for name, text in WIRE.items() if name != "fee"}
MALFORMED_SETTLEMENTS = [
    *MALFORMED,
    pytest.param(WITHOUT_FEE, "fee: missing; a claimed settlement names its fee", id="no fee"),
]
"""What no handler after the claim may take for a settlement, and what it says."""


class Context:
    """What Lambda tells a function about the invocation."""

    function_name = "under-test"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:under-test"
    aws_request_id = "4f0b2c9e-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Calls:
    """The handlers of one stage, called by name over one fresh table."""

    ledger: Ledger
    handlers: dict[str, Callable[[Any, Any], Any]] = field(default_factory=dict)

    def __call__(self, state: str, settlement: Any = WIRE, **more: Any) -> Any:
        """Call the function of a state for execution `execution-1`, unless `more` says another."""
        return self.handlers[state]({"settlement": settlement, "execution": "execution-1", **more}, Context())

    def before(self, state: str) -> None:
        """Open both accounts and run the happy path up to, and without, `state`."""
        self.ledger.open("alice", 10_000)
        self.ledger.open("bob", 500)
        for earlier in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
            if earlier == state:
                return
            self(earlier, claimed_at=CLAIMED_AT)

    def after(self, state: str) -> Any:
        """As `before`, and then run `state`; return its result."""
        self.before(state)
        return self(state, claimed_at=CLAIMED_AT)

    def row(self) -> Row:
        found = self.ledger.row(rows.settlement_key(KEY))
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the settlement's row, past every condition."""
        self.ledger.put(self.row() | attributes)

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        """Demand that the table is the same, row by row, before and after."""
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before
