from typing import Any

import pytest

from infra.concurrency import REVERSING, SELDOM, UNRESERVED_MIN, WAITING, WEBHOOKS_OF_ROOMS, Concurrency
from infra.config import STAGES
from tests.infra.stack import FUNCTIONS, definition, each_stage, properties

ENDING = (*REVERSING, *SELDOM, "RecoverStalled")
"""Functions that end payments, or have them ended."""


# The settings


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        *(
            ({name: value}, rf"concurrency\.{name}: must be a whole number, at least 1$")
            for name in ("account", "reversals", "recovery", "kyc", "webhook", "waiting")
            for value in (-1, 0, 1.5, "9", True)
        ),
        ({"account": None}, r"concurrency\.account: must be a whole number"),
        # Its share is its limit: a run on each partition, one on LIMBO, and a person's call.
        *(({"recovery": few}, r"concurrency\.recovery: must be at least 10, or None$") for few in (1, 9)),
        # CloudFormation would refuse the first function that takes too much, half way through.
        (
            {"account": 10, "webhook": 1},
            r"concurrency\.account: must be at least 103, as the stage may reserve 3, and Lambda keeps 100",
        ),
        ({"account": 559, "reversals": 50, "recovery": 20, "kyc": 200, "webhook": 20}, "at least 560"),
        ({"account": 201, "waiting": 51}, "at least 202"),
    ],
)
def test_impossible_concurrency_is_refused_naming_the_field(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Concurrency(**bad)


@pytest.mark.parametrize(
    "good",
    [
        {"account": 10},
        {"account": 101, "kyc": 1},
        {"account": 103, "webhook": 1},
        {"recovery": 10},
        {"reversals": 1},
        {},
    ],
)
def test_concurrency_that_the_account_allows_is_accepted(good: dict[str, Any]) -> None:
    found = Concurrency(**good)

    assert found.reserved == sum(found.by_function.values())
    of_rooms = len(WEBHOOKS_OF_ROOMS) * (found.webhook or 0)
    assert found.account_min == found.reserved + of_rooms + UNRESERVED_MIN
    assert not found.reserved or found.account >= found.account_min


def test_rarely_called_reversal_functions_get_a_tenth_of_the_concurrency() -> None:
    assert {name: Concurrency(reversals=50).of(name) for name in (*REVERSING, *SELDOM)} == {
        **dict.fromkeys(REVERSING, 50),
        **dict.fromkeys(SELDOM, 5),
    }
    assert {Concurrency(reversals=3).of(name) for name in SELDOM} == {1}
    assert Concurrency(reversals=3).of("HoldFunds") is None


def test_the_webhooks_of_rooms_have_the_webhooks_share() -> None:
    assert {Concurrency(webhook=7).of(name) for name in WEBHOOKS_OF_ROOMS} == {7}
    assert {Concurrency().of(name) for name in WEBHOOKS_OF_ROOMS} == {None}


def test_readers_and_starters_leave_concurrency_for_payments_and_orders() -> None:
    """At the API's 50 calls a second, 20-second waits would hold 1,000 environments."""
    prod = STAGES["prod"].concurrency
    left = prod.account - prod.reserved

    assert {prod.of(name) for name in WAITING} == {50}
    assert left >= 400, "for HoldFunds, ReleaseFunds, CollectFee, TakeOrder and StartSettlements"
    assert not {"HoldFunds", "ReleaseFunds", "CollectFee", "TakeOrder", "StartSettlements"} & {
        *prod.by_function
    }


@each_stage
def test_either_all_or_no_compensation_functions_reserve_concurrency(stage: str) -> None:
    text = str(definition(stage, "Compensation"))

    assert {name for name in FUNCTIONS if f"${{{name}}}" in text} == {*REVERSING, *SELDOM}


@each_stage
def test_the_template_reserves_the_concurrency_in_the_settings(stage: str) -> None:
    """Only prod reserves concurrency, because a new account cannot."""
    wanted = STAGES[stage].concurrency.by_function
    reserved = {
        name: function["ReservedConcurrentExecutions"]
        for name, function in properties(stage, "Lambda::Function").items()
        if "ReservedConcurrentExecutions" in function
    }

    found = properties(stage, "Lambda::Function")
    assert reserved == {name: share for name, share in wanted.items() if name in found}
    assert bool(reserved) == (stage == "prod")
