"""Every rule holds with each fault at each call, alone and in pairs."""

from collections.abc import Iterator
from math import ceil
from random import Random

import pytest

from tests.simulation.seeded.exhaust import try_all, try_pairs
from tests.simulation.seeded.scenarios import SCENARIOS, live, singles
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.world import World
from tests.world.rooms import there

FIRST_ONE_OF, THEN_ONE_OF = 5, 40
"""One first fault of 5 is tried, with one later fault of 40; `make exhaust` tries all."""


@pytest.fixture
def current() -> Iterator[Current]:
    with set_up() as current:
        yield current


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("settles", "SETTLED"),
        ("settles by Express", "SETTLED"),
        ("names its deadline", "SETTLED"),
        ("is reviewed and names its deadline", "SETTLED"),
        ("is refused", "REJECTED"),
        ("is rejected by the provider", "COMPENSATED"),
        ("is reviewed", "SETTLED"),
        ("is reversed on an order", "COMPENSATED"),
        ("is written off", "COMPENSATED"),
        ("is completed", "SETTLED"),
        ("exceeds the payee's cap", "COMPENSATED"),
        ("is paid in another currency", "REJECTED"),
        ("is received in another currency", "REJECTED"),
        ("is paid to a closed payee", "REJECTED"),
        ("is paid to an empty account among orders", "SETTLED"),
        ("is paid by a blocked payer", "SETTLED"),
        *there("doors", ("is sent by message", "SETTLED"), ("names its deadline in a message", "SETTLED")),
    ],
)
def test_without_faults_each_scenario_ends_as_expected(current: Current, name: str, end: str) -> None:
    world: World = live(current, name, {})

    row = world.oracle.settlements["order-2026-000101"]
    assert row["status"]["S"] == end
    stuck = ("is written off", "is completed", "is paid by a blocked payer")
    assert bool(world.people.alerted) == (name in stuck)


SHORT = (
    *("settles", "settles by Express", "is refused", "is rejected by the provider", "is reversed in part"),
    "is settled among orders",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in SCENARIOS],
)
def test_every_rule_holds_with_each_fault_at_each_call(current: Current, name: str) -> None:
    result, broken = try_all(current, name, singles(current, name))

    assert broken == {}
    assert result.histories > 25


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_rule_holds_with_two_faults(current: Current, name: str) -> None:
    tried = 0
    all_broken: dict[str, str] = {}
    each = list(singles(current, name))
    for single in Random(name).sample(each, ceil(len(each) / FIRST_ONE_OF)):
        result, broken = try_pairs(current, name, single, THEN_ONE_OF)
        tried += result.histories
        all_broken |= broken

    assert all_broken == {}
    assert tried > 5
