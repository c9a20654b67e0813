"""Reserved concurrency: an account bears it, and no one takes the share of those that end payments."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import count
from random import Random
from typing import Any, NamedTuple

import boto3
import pytest

from infra import deployed
from infra.concurrency import REVERSING, SELDOM, UNRESERVED_MIN, Concurrency
from infra.config import STAGES
from infra.grants import GRANTS, TRIGGERED
from tests.infra.stack import definition, each_stage, properties

ENDING = (*REVERSING, *SELDOM, "RecoverStalled")
"""The functions that end payments, or have them ended."""


# The settings


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        *(
            ({name: value}, rf"concurrency\.{name}: must be a whole number, at least 1$")
            for name in ("account", "reversals", "recovery", "kyc", "webhook")
            for value in (-1, 0, 1.5, "9", True)
        ),
        ({"account": None}, r"concurrency\.account: must be a whole number"),
        # Its share is its limit: a run on each partition, one on LIMBO, and a person's call.
        *(({"recovery": few}, r"concurrency\.recovery: must be at least 10, or None$") for few in (1, 9)),
        # CloudFormation would refuse the first function that takes too much, half way through.
        (
            {"account": 10, "webhook": 1},
            r"concurrency\.account: must be at least 101, as the stage reserves 1, and Lambda keeps 100",
        ),
        ({"account": 519, "reversals": 50, "recovery": 20, "kyc": 200, "webhook": 20}, "at least 520"),
    ],
)
def test_figures_that_no_account_bears_are_refused_with_the_field_at_fault(
    bad: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Concurrency(**bad)


@pytest.mark.parametrize(
    "good", [{"account": 10}, {"account": 101, "kyc": 1}, {"recovery": 10}, {"reversals": 1}, {}]
)
def test_figures_that_an_account_bears_are_taken(good: dict[str, Any]) -> None:
    found = Concurrency(**good)

    assert found.reserved == sum(found.by_function.values())
    assert not found.reserved or found.account >= found.account_min == found.reserved + UNRESERVED_MIN


def test_few_reversals_call_some_of_the_functions_and_these_have_a_tenth_of_the_share() -> None:
    assert {name: Concurrency(reversals=50).of(name) for name in (*REVERSING, *SELDOM)} == {
        **dict.fromkeys(REVERSING, 50),
        **dict.fromkeys(SELDOM, 5),
    }
    assert {Concurrency(reversals=3).of(name) for name in SELDOM} == {1}
    assert Concurrency(reversals=3).of("HoldFunds") is None


@each_stage
def test_each_function_of_the_compensating_machine_has_a_share_if_any_has(stage: str) -> None:
    text = str(definition(stage, "Compensation"))

    assert {name for name in {**GRANTS, **TRIGGERED} if f"${{{name}}}" in text} == {*REVERSING, *SELDOM}


@each_stage
def test_the_template_reserves_what_the_settings_say(stage: str) -> None:
    assert reservations(stage) == STAGES[stage].concurrency.by_function


def reservations(stage: str) -> dict[str, int]:
    """Return the reservations in a stage's template."""
    return {
        name: function["ReservedConcurrentExecutions"]
        for name, function in properties(stage, "Lambda::Function").items()
        if "ReservedConcurrentExecutions" in function
    }


# The account


@dataclass
class Functions:
    """A Lambda client of an account with a quota of concurrent executions."""

    quota: int

    def get_account_settings(self) -> dict[str, Any]:
        return {"AccountLimit": {"ConcurrentExecutions": self.quota, "UnreservedConcurrentExecutions": 0}}


def test_an_account_that_does_not_bear_the_stage_is_told_before_a_deployment() -> None:
    wanted = STAGES["prod"].concurrency

    assert deployed.lacks_concurrency(Functions(wanted.account_min), wanted) == ""
    assert deployed.lacks_concurrency(Functions(wanted.account_min - 1), wanted) == (
        "concurrency: the stage reserves 420, which needs a quota of 520 concurrent executions,"
        " and the account has 519"
    )
    assert deployed.lacks_concurrency(Functions(10), STAGES["dev"].concurrency) == ""


def test_a_deployment_to_a_small_account_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(boto3, "client", {"lambda": Functions(10)}.__getitem__)

    assert deployed.main(["prod"]) == 1
    assert "the account has 10" in capsys.readouterr().out


# A model of Lambda's rules, with the template's figures: the embedded AWS counts, but sets nothing aside


class Arrival(NamedTuple):
    """A call of a function: when it comes, and how long the function takes."""

    at_ms: float
    function: str
    takes_ms: float


@dataclass
class Account:
    """An account's concurrency in a region, as Lambda shares it out.

    A function with a reservation runs up to that often at once, always. All others together have
    what the reservations leave. What finds no place is refused at once.
    """

    quota: int
    reserved: Mapping[str, int]

    def throttled(self, arrivals: Iterable[Arrival]) -> Counter[str]:
        """Return how many calls of each function are refused."""
        rest = self.quota - sum(self.reserved.values())
        running, refused, order = Counter[str](), Counter[str](), count()
        ends: list[tuple[float, int, str]] = []
        for one in arrivals:
            while ends and ends[0][0] <= one.at_ms:
                running[heapq.heappop(ends)[2]] -= 1
            pool = one.function if one.function in self.reserved else ""
            if running[pool] >= self.reserved.get(pool, rest):
                refused[one.function] += 1
                continue
            running[pool] += 1
            heapq.heappush(ends, (one.at_ms + one.takes_ms, next(order), pool))
        return refused


def each_second(function: str, calls: int, takes_ms: float, seconds: int = 30) -> Iterator[Arrival]:
    """Yield calls of a function at random times, so many a second on average."""
    random, at_ms = Random(function), 0.0
    while (at_ms := at_ms + random.expovariate(calls / 1000)) < seconds * 1000:
        yield Arrival(at_ms, function, takes_ms)


def worst_minute() -> Iterator[Arrival]:
    """Yield the calls while strangers flood the webhook, the provider hangs, and everybody pays.

    50 payments a second are reversed, by the steps of their machine; each function takes 100 ms, as
    `docs/reference/costs.md` has it, doubled for a table that is slow, too.
    """
    return heapq.merge(
        each_second("KycDecided", 2_000, 500),
        each_second("VerifyKyc", 400, 4_000),
        each_second("HoldFunds", 1_000, 1_000),
        *(each_second(name, 50, 200) for name in REVERSING),
        *(each_second(name, 2, 200) for name in SELDOM),
        each_second("RecoverStalled", 1, 9_000),
    )


def test_functions_that_give_money_back_are_never_throttled_while_others_take_all_else() -> None:
    settings = STAGES["prod"].concurrency

    refused = Account(settings.account, reservations("prod")).throttled(worst_minute())

    assert {name: refused[name] for name in ENDING} == dict.fromkeys(ENDING, 0)
    assert all(
        refused[name] > 0 for name in ("KycDecided", "VerifyKyc", "HoldFunds")
    )  # else it shows nothing


def test_with_the_least_account_that_bears_the_reservations_it_is_the_same() -> None:
    refused = Account(STAGES["prod"].concurrency.account_min, reservations("prod")).throttled(worst_minute())

    assert {name: refused[name] for name in ENDING} == dict.fromkeys(ENDING, 0)


def test_without_reservations_they_are_throttled_together_with_all_others() -> None:
    refused = Account(1_000, {}).throttled(worst_minute())

    assert all(refused[name] > 0 for name in REVERSING)


@pytest.mark.parametrize("who", ["KycDecided", "VerifyKyc"])
def test_a_limit_keeps_one_caller_from_taking_the_places_of_the_payments(who: str) -> None:
    """A flood of one function alone: the payments' own functions find room."""
    flood = (one for one in worst_minute() if one.function == who)
    calm = heapq.merge(flood, each_second("HoldFunds", 200, 200), each_second("ReleaseFunds", 200, 200))
    arrivals = list(calm)

    limited = Account(1_000, reservations("prod")).throttled(arrivals)

    assert (limited["HoldFunds"], limited["ReleaseFunds"]) == (0, 0)
    assert limited[who] > 0
    assert Account(1_000, {}).throttled(arrivals)["HoldFunds"] > 0


def test_the_settings_have_a_figure_for_nothing_else() -> None:
    """A new figure is reserved for a function, and counted."""
    most = replace(Concurrency(), reversals=10, recovery=10, kyc=10, webhook=10)

    assert {one.name for one in fields(Concurrency)} == {"account", "reversals", "recovery", "kyc", "webhook"}
    assert most.reserved == 3 * 10 + 6 * 1 + 3 * 10
