from datetime import timedelta
from typing import Any

import pytest

from settle import instants
from settle.events import replay as replaying
from settle.settlements import in_flight
from settlement.aws import functions as _functions
from settlement.events import outcome_bus as _outcome_bus
from settlement.events import replay as replay_order
from tests.settle.conftest import Command
from tests.settle.desk import Desk, call
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.services import Bus, Functions

OTHER, STUCK = "order-2026-000102", "order-2026-000103"


@pytest.fixture
def bus(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Bus:
    bus = Bus()
    monkeypatch.setattr(_outcome_bus, "_client", bus)
    monkeypatch.setattr(_functions, "_client", Functions(answers=lambda event: call("PublishEvents", event)))
    return bus


@pytest.fixture
def paid(desk: Desk) -> Desk:
    desk.stuck(key=STUCK)
    for key in (KEY, OTHER):
        desk.pay(key)
    return desk


@pytest.fixture(autouse=True)
def _half_an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "now", lambda: NOW + timedelta(minutes=30))


def replays(desk: Desk) -> list[Any]:
    return [body for order, body in desk.door.given if order == replay_order.REPLAY]


def told(bus: Bus) -> dict[str, str]:
    assert {event["type"] for event in bus.taken} <= {"settlement.snapshot"}
    return {event["subject"]: event["data"]["status"] for event in bus.taken}


@pytest.mark.parametrize(
    ("chosen", "statuses"),
    [((KEY, STUCK), {KEY: "SETTLED", STUCK: "LIMBO"}), (("--limbo",), {STUCK: "LIMBO"})],
)
def test_chosen_settlements_are_published_again_with_their_current_state(
    paid: Desk, bus: Bus, command: Command, chosen: tuple[str, ...], statuses: dict[str, str]
) -> None:
    code, _, said = command("events", "replay", *chosen)

    assert (code, said) == (0, f"{len(statuses)} settlements told\n")
    assert told(bus) == statuses


def test_replay_since_includes_every_unfinished_settlement(paid: Desk, bus: Bus, command: Command) -> None:
    """An unfinished settlement's row lacks the time of its last change, so each is included."""
    assert command("events", "replay", "--since", "1h")[0] == 0

    assert told(bus).keys() > {KEY, OTHER, STUCK}  # and the payment that has spent the money
    assert in_flight.changed_since(paid.stack, NOW + timedelta(days=1)) == [STUCK]


def test_a_long_replay_is_split_into_several_orders(
    paid: Desk, bus: Bus, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "REPLAYED_MAX", 2)

    assert command("events", "replay", KEY, OTHER, STUCK)[2] == "3 settlements told\n"

    assert [len(body["keys"]) for body in replays(paid)] == [2, 1]


def test_a_missing_settlement_is_reported_and_the_others_are_replayed(
    paid: Desk, bus: Bus, command: Command
) -> None:
    code, _, said = command("events", "replay", "order-2026-999999", KEY)

    assert code == 1
    assert said == "order-2026-999999: not told: there is no such settlement\n1 settlements told\n"


@pytest.mark.parametrize("arguments", [[], ["--limbo", KEY], ["--limbo", "--since", "1h"], ["no key"]])
def test_an_ambiguous_command_is_refused_before_anything_is_sent(
    paid: Desk, command: Command, arguments: list[str]
) -> None:
    assert command("events", "replay", *arguments)[0] == 2

    assert not replays(paid)


def test_one_replay_order_has_a_limited_number_of_settlements() -> None:
    assert 1 < replay_order.REPLAYED_MAX <= 100
