from dataclasses import dataclass
from typing import Any

import pytest

from settle.local.demo import settlements
from settle.machines import Machine
from settle.queries import statement, table_scan
from tests.e2e.embedded import Embedded

SETTLED, REPLAYED = ("SETTLED", False, None, None), ("SETTLED", True, None, None)
TWO_DECIMALS = (
    "amount: must be a decimal string with at most 2 decimals and at most 13 digits before the point"
)
NO_DECIMALS = "amount: must be a decimal string with no decimals and at most 15 digits"


def rejected(error: str, cause: str) -> tuple[str, bool, dict[str, str], None]:
    return "REJECTED", False, {"step": "hold", "error": error, "cause": cause}, None


def refused(error: str, message: str) -> tuple[None, None, None, tuple[str, str]]:
    return None, None, None, (error, message)


EXPECTED = [
    SETTLED,
    SETTLED,
    SETTLED,
    SETTLED,
    SETTLED,
    SETTLED,
    REPLAYED,
    refused(
        "IdempotencyConflict", "key: order-2026-000101-{run} was claimed by a request with other content"
    ),
    rejected("InsufficientFunds", "payer: the account has too little available for this amount"),
    rejected("AccountNotFound", "payer: there is no such account"),
    rejected("CurrencyMismatch", "payer: the account is kept in USD, not in EUR"),
    refused("InvalidRequest", TWO_DECIMALS),
    refused("InvalidRequest", NO_DECIMALS),
    SETTLED,
]
"""Of each line of the examples: status, replayed, failure, and the error instead of them."""

BALANCES = {
    "alice": "431.89",
    "bakery-nord": "92.43",
    "carla": "0.01",
    "haruto": "116520",
    "tea-house-kyoto": "3446",
    "fatima": "63.155",
    "pearl-divers": "12.220",
    "jordan": "250.00",
    "freelance-hub": "940.50",
}
"""What is on each account after all examples."""

FEES = {
    "EUR": {"000101": "0.48", "000102": "0.19", "000103": "0.00", "000112": "0.00"},
    "JPY": {"000104": "34"},
    "KWD": {"000105": "0.125"},
    "USD": {"000006": "9.50"},
}
"""What each settled example brought, by the end of its key; a rate of 1 % where it names no fee itself."""


@dataclass(frozen=True)
class Run:
    """All examples on one machine, under keys and accounts of their own."""

    name: str
    settled: list[settlements.Settled]


@pytest.fixture(scope="module", params=list(Machine))
def run(embedded: Embedded, request: pytest.FixtureRequest) -> Run:
    name = settlements.new_run(request.param)
    assert settlements.open_accounts(embedded.stack, name) == len(BALANCES)
    return Run(name, list(settlements.settle_all(embedded.stack, request.param, name)))


def named(value: Any, run: Run) -> Any:
    """An expectation with the run's own suffix in its texts."""
    if isinstance(value, str):
        return value.replace("{run}", run.name)
    if isinstance(value, dict):
        return {name: named(member, run) for name, member in value.items()}
    return tuple(named(member, run) for member in value) if isinstance(value, tuple) else value


def test_every_example_has_an_expectation(run: Run) -> None:
    assert len(run.settled) == len(EXPECTED) >= 12


@pytest.mark.parametrize("line", range(len(EXPECTED)))
def test_an_example_ends_exactly_as_expected(run: Run, line: int) -> None:
    ended = run.settled[line].ended

    outcome = ended.outcome or {}
    error = (ended.error, ended.message) if ended.error else None
    found = (*(outcome.get(name) for name in ("status", "replayed", "failure")), error)

    assert found == named(EXPECTED[line], run)


def test_an_outcome_keeps_the_contract(run: Run) -> None:
    request, outcome = run.settled[1].request, run.settled[1].ended.outcome

    assert outcome is not None
    claimed_at, finished_at = outcome.pop("claimed_at"), outcome.pop("finished_at")
    assert claimed_at <= finished_at
    assert outcome == {
        "key": request["key"],
        "status": "SETTLED",
        "payer": request["payer"],
        "payee": request["payee"],
        "amount": "19.90",
        "fee": "0.19",
        "currency": "EUR",
        "escrow": "0.00",
        "steps": ["hold", "verify", "release", "fee"],
        "reversed": [],
        "failure": None,
        "replayed": False,
    }


def test_the_replay_of_an_example_tells_the_same_but_for_being_one(run: Run) -> None:
    first, again = run.settled[0].ended.outcome, run.settled[6].ended.outcome

    assert first is not None
    assert again == first | {"replayed": True}


@pytest.mark.parametrize("account", BALANCES)
def test_the_balances_are_right_to_the_last_minor_unit(embedded: Embedded, run: Run, account: str) -> None:
    assert embedded.available(f"{account}.{run.name}") == BALANCES[account]


@pytest.mark.parametrize("currency", FEES)
def test_the_fees_are_right_to_the_last_minor_unit(embedded: Embedded, run: Run, currency: str) -> None:
    entries = statement.show(embedded.stack, f"fees:{currency}")["entries"]

    ours = {
        entry["key"].removesuffix(f"-{run.name}")[-6:]: entry["change"]
        for entry in entries
        if entry["key"].endswith(run.name)
    }

    assert ours == FEES[currency]


def test_after_the_examples_the_books_balance(embedded: Embedded, run: Run) -> None:
    findings = table_scan.check(embedded.stack)

    assert findings.faults == []
    assert findings.conserved
    assert findings.in_flight == 0
