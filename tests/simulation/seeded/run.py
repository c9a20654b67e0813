import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from settlement.core.model.errors import KycCircuitOpen
from tests.simulation.seeded import core_alone, retention
from tests.simulation.seeded.afterwards import late_calls
from tests.simulation.seeded.chance import Fault
from tests.simulation.seeded.deployments import retains
from tests.simulation.seeded.facts import STATUSES
from tests.simulation.seeded.moments import Afterlife, Recorded, happen
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.world import UNCLAIMED, World, play
from tests.world.definitions import definitions

HISTORY_LINES_MAX = 400


@dataclass
class Result:
    """The results of seeds. `counted`: faults, metrics and ends. `failed`: broken rules by seed."""

    seeds: int = 0
    histories: int = 0
    calls: int = 0
    commits: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    possible: set[tuple[str, Sequence[Fault]]] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, other: "Result") -> None:
        self.seeds += other.seeds
        self.histories += other.histories
        self.calls += other.calls
        self.commits += other.commits
        self.counted.update(other.counted)
        self.possible |= other.possible
        self.failed |= other.failed

    def count(self, world: Recorded) -> None:
        self.histories += 1
        self.calls += len(world.cloud.calls)
        self.commits += len(world.moments)
        self.counted.update(world.counted)
        self.counted.update(world.oracle.reached)
        self.possible |= world.possible

    def sometimes(self) -> list[tuple[int, str]]:
        """Return the counts of required rare events, rarest first.

        Events: faults by function, state and status; entered states; transitions; an open circuit's refusal.
        """
        wanted = {f"{fault} in {where}" for where, faults in self.possible for fault in faults}
        wanted |= {f"{fault} while {status}" for fault in Fault for status in (UNCLAIMED, *STATUSES)}
        wanted |= {f"{status} to {other}" for status, others in STATUSES.items() for other in others}
        wanted |= {f"enters {state}" for machine in definitions().values() for state in machine["States"]}
        wanted.add(KycCircuitOpen.__name__)
        return sorted((self.counted[name], name) for name in wanted)


def histories(current: Current, seed: int, *, is_told: bool = False) -> Iterator[Recorded]:
    """Yield a seed's world, then one per late call."""
    world = current.world = play(seed, Recorded, is_told=is_told)
    world.run()
    if world.journal:
        world.journal.play(world)
    expired = None
    if retains(seed):
        expired = retention.expire(world, seed)
        if world.journal:
            world.journal.expire(world, expired)
    yield world
    for life, late, chance in late_calls(world, seed):
        yield happen(current, life, late, chance, is_told=is_told)
    if expired:
        for life, late, chance in retention.later_calls(world, expired, seed):
            yield happen(current, life, late, chance, is_told=is_told)


def histories_of(seed: int, current: Current, *, core: bool, is_told: bool = False) -> Iterator[Recorded]:
    return (core_alone.histories if core else histories)(current, seed, is_told=is_told)


def run(seeds: Iterable[int], *, core: bool = False) -> Result:
    result = Result()
    with set_up() as current:
        for seed in seeds:
            result.seeds += 1
            try:
                for world in histories_of(seed, current, core=core):
                    result.count(world)
            except AssertionError as broken:
                result.failed[seed] = f"{type(broken).__name__}: {broken}"
    return result


def tell(seed: int, *, core: bool = False) -> str:
    """Return the history of a seed, or of its first late call that breaks a rule."""
    first: Recorded | None = None
    with set_up() as current:
        try:
            for world in histories_of(seed, current, core=core, is_told=True):
                first = first or world
        except AssertionError as broken:
            return told(current.world, broken, first.history if first else ())
    assert first
    return told(first)


def told(world: World, broken: AssertionError | None = None, before: Sequence[str] = ()) -> str:
    """Return a history as text; a late call's history continues `before`."""
    lines = world.history
    if isinstance(world, Afterlife):
        lines = [*before[: world.acts.told], f"Every process dies. {world.late}", *world.history]
    end = f"BROKEN: {broken}" if broken else "every rule holds"
    return "\n".join([*lines[-HISTORY_LINES_MAX:], end])


def run_side_by_side(
    seeds: Iterable[int],
    jobs: int,
    seconds: float | None = None,
    *,
    core: bool = False,
) -> Iterator[Result]:
    """Run seeds in several processes; yield the sum of the results so far."""
    left, total = iter(seeds), Result()
    give_up_at = time.monotonic() + seconds if seconds else None
    gc.freeze()
    with ProcessPoolExecutor(jobs, initializer=gc.disable) as pool:
        running: set[Future[Result]] = set()
        while True:
            is_over = give_up_at and time.monotonic() > give_up_at
            while not is_over and len(running) < 2 * jobs and (seed := next(left, None)) is not None:
                running.add(pool.submit(_run, seed, core))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
            yield total


def _run(seed: int, core: bool) -> Result:
    """Run a seed, then free its cyclic worlds, because garbage collection is off meanwhile."""
    result = run([seed], core=core)
    gc.collect()
    return result
