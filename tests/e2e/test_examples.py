import json
from typing import Any

import pytest

from settle.accounts import statement
from settle.local.demo import settlements
from settle.settlements.machines import Machine
from tests.e2e.embedded import Embedded, new_account, new_key

pytestmark = pytest.mark.long

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
    *[SETTLED] * 6,
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
"""Each example's status, replayed and failure, or its error."""

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

FEES = {
    "EUR": {"000101": "0.48", "000102": "0.19", "000103": "0.00", "000112": "0.00"},
    "JPY": {"000104": "34"},
    "KWD": {"000105": "0.125"},
    "USD": {"000006": "9.50"},
}
"""Fees of settled examples by the end of their key; 1 % unless the example names a fee."""


def named(value: Any, run: str) -> Any:
    if isinstance(value, str):
        return value.replace("{run}", run)
    return tuple(named(member, run) for member in value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("machine", Machine)
def test_each_example_ends_exactly_as_expected(embedded: Embedded, machine: Machine) -> None:
    run = settlements.new_run(machine)
    assert settlements.open_accounts(embedded.stack, run) == len(BALANCES)

    settled = list(settlements.settle_all(embedded.stack, machine, run))

    ends = [each.ended for each in settled]
    assert [
        (
            *((end.outcome or {}).get(name) for name in ("status", "replayed", "failure")),
            (end.error, end.message) if end.error else None,
        )
        for end in ends
    ] == [named(expected, run) for expected in EXPECTED]
    assert ends[6].outcome == (ends[0].outcome or {}) | {"replayed": True}
    request, outcome = settled[1].request, ends[1].outcome
    assert outcome is not None
    assert outcome.pop("claimed_at") <= outcome.pop("finished_at")
    assert outcome == {
        **{name: request[name] for name in ("key", "payer", "payee")},
        "status": "SETTLED",
        "amount": "19.90",
        "fee": "0.19",
        "currency": "EUR",
        "escrow": "0.00",
        "steps": ["hold", "verify", "release", "fee"],
        "reversed": [],
        "failure": None,
        "next": {"action": "nothing", "reason": "The payee is paid."},
        "replayed": False,
    }
    assert {account: embedded.available(f"{account}.{run}") for account in BALANCES} == BALANCES
    for currency, fees in FEES.items():
        entries = statement.show(embedded.stack, f"fees:{currency}")["entries"]
        ours = [entry for entry in entries if entry["key"].endswith(run)]
        assert {entry["key"].removesuffix(f"-{run}")[-6:]: entry["change"] for entry in ours} == fees
    assert embedded.conserved()


@pytest.mark.parametrize("machine", Machine)
def test_an_asset_settles_like_a_currency(embedded: Embedded, machine: Machine) -> None:
    """Points have no decimals, so the 1 % fee of 250 is 2."""
    payer, payee = (
        new_account(embedded, "dora", "1000", "POINTS"),
        new_account(embedded, "emil", "0", "POINTS"),
    )
    request = {
        "key": new_key("points"),
        "payer": payer,
        "payee": payee,
        "amount": "250",
        "currency": "POINTS",
    }

    outcome = embedded.told("start", "-", "--machine", machine, stdin=json.dumps(request))

    assert (outcome["status"], outcome["fee"], outcome["currency"]) == ("SETTLED", "2", "POINTS")
    assert (embedded.available(payer), embedded.available(payee)) == ("750", "248")
    entries = statement.show(embedded.stack, "fees:POINTS")["entries"]
    assert [entry["change"] for entry in entries if entry["key"] == request["key"]] == ["2"]
    assert embedded.conserved()
