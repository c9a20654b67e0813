"""The scheduled proof finds faults planted within a history."""

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from settlement.core.store.dynamodb import Store
from settlement.proof import CutOff, pages, table_scan
from settlement.proof.watch import TooLong
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.proof import Proof
from tests.simulation.seeded.run import run
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.world import PROVEN_EVERY, World, play
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Key

SEEDS = range(12)
RUNS_MAX = 60
"""Maximum runs until one completes, because a twenty-minute outage cuts off many."""

Plant = Callable[[World], str]
"""A raw write that breaks conservation; returns the key that the proof must name."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Current]:
    with set_up() as current:
        yield current


def of_kind(world: World, kind: str, **attributes: str) -> tuple[Key, Item]:
    found = sorted(
        key
        for key, row in world.table.items.items()
        if key[0].startswith(f"{kind}#")
        and all(row.get(name) == {"S": text} for name, text in attributes.items())
        and row.get("amount") != {"N": "0"}
    )
    key = world.chance.one_of(found)
    return key, dict(world.table.items[key])


def raised(row: Item, attribute: str) -> Item:
    return {**row, attribute: {"N": str(int(row[attribute]["N"]) + 1)}}


def raised_balance(world: World) -> str:
    key, row = of_kind(world, "ACCOUNT")
    world.table.items[key] = raised(row, "available")
    return key[0]


def deleted_deposit(world: World) -> str:
    key, row = of_kind(world, "ENTRIES", step="deposit")
    del world.table.items[key]
    return f"ACCOUNT#{row['credit']['S']}"


def deleted_hold(world: World) -> str:
    key, row = of_kind(world, "ENTRIES", step="hold")
    del world.table.items[key]
    return f"ACCOUNT#{row['debit']['S']}"


def raised_hold(world: World) -> str:
    key, row = of_kind(world, "ENTRIES", step="hold")
    world.table.items[key] = raised(row, "amount")
    return f"ACCOUNT#{row['debit']['S']}"


def deleted_settlement(world: World) -> str:
    _, hold = of_kind(world, "ENTRIES", step="hold")
    key = hold["credit"]["S"].removeprefix("escrow:")
    del world.table.items[f"SETTLEMENT#{key}", "SETTLEMENT"]
    return f"SETTLEMENT#{key}"


PLANTS = [raised_balance, deleted_deposit, deleted_hold, raised_hold, deleted_settlement]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_proofs_find_a_fault_planted_during_calls(stage: Current, seed: int, plant: Plant) -> None:
    """A second proof can be needed, as a deleted hold and its void can cancel out."""
    world = begun(stage, seed)

    named = plant(world)
    answers: list[Any] = []
    for runs in (0, 1):
        if named not in faults(answers):
            world.hub.spawn(lambda: prove(world, answers), "the next runs")
            proceed(world, 100 * 900_000, lambda: len(answers) > runs)  # noqa: B023 (called in this turn)
    world.hub.close()

    assert [answer["conserved"] for answer in answers] == [False] * len(answers)
    assert named in faults(answers)


def faults(answers: list[Any]) -> set[str]:
    return {fault.partition(": ")[0] for answer in answers for fault in answer["faults"]}


def begun(stage: Current, seed: int) -> World:
    """Return a world in mid-history: money is held, and calls are in progress."""
    for candidate in count(seed * 1_000):
        world: World = play(candidate)
        stage.world = world
        proceed(world, world.chance.within(1_000, 120_000), lambda: False)
        if any(row.get("step") == {"S": "hold"} for row in world.table.items.values()):
            return world
        world.hub.close()
    raise AssertionError("there are always more seeds")


def prove(world: World, answers: list[Any]) -> None:
    for _ in range(RUNS_MAX):
        answer = world.proof.answer()
        if answer is not None and not answer["unproven"]:
            answers.append(answer)
            return
        world.hub.sleep(60_000)


def proceed(world: World, milliseconds: int, is_over: Callable[[], bool]) -> None:
    """Let time pass, and ignore broken rules, because the planted write breaks them."""
    until = world.hub.now + milliseconds
    while world.hub.now < until and not is_over():
        try:
            world.hub.run(until, is_over)
        except Violated:
            continue
        return


def test_the_proof_confirms_each_simulated_world() -> None:
    result = run(range(PROVEN_EVERY - 1, PROVEN_EVERY * 16, PROVEN_EVERY))

    assert result.failed == {}
    assert result.counted["Proven"] > 16  # one at the end of each world, and others


@pytest.mark.long
@pytest.mark.parametrize("reason", [CutOff, TooLong])
def test_a_proof_cut_off_during_second_look_names_no_fault(
    reason: type[CutOff], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(7)

    def cut_off(phase: str, done: int) -> None:
        if phase.startswith("looking again") and chance.random() < 0.3:
            raise reason("no time is left")

    monkeypatch.setattr(table_scan, "until", lambda reserved_ms, left_ms: cut_off)
    monkeypatch.setattr(Proof, "at_the_end", lambda proof: None)  # such a run need not prove everything

    result = run(range(PROVEN_EVERY - 1, PROVEN_EVERY * 40, PROVEN_EVERY))

    assert result.failed == {}
    assert result.counted["SecondLookCutOff"] > 8


@pytest.mark.usefixtures("stage")
def test_pages_read_in_parallel_come_in_segment_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each process orders a set of futures differently, and a history must not depend on it."""

    def backwards(reading: Any, return_when: str) -> tuple[list[Any], set[Any]]:
        return sorted(reading, key=lambda future: -future.result()[0]), set()

    def scan(Segment: int, **_: Any) -> dict[str, Any]:  # noqa: N803
        return {"Items": [{"pk": Segment}], "ConsumedCapacity": {"CapacityUnits": 1.0}}

    monkeypatch.setattr(pages, "wait", backwards)

    assert [row["pk"] for row in pages.scan(Store(SimpleNamespace(scan=scan), "any"))] == [0, 1, 2, 3]
