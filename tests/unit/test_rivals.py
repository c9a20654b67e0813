"""Tests the simulation that compares ways to settle: its generator, faults and verdicts."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.lives.judge import REVERSED, SETTLED, End, Outcome, Verdict, judge
from benchmarks.lives.life import FOR_EVER, REVERSALS, Kind, Life, Step, draw
from benchmarks.lives.page import sections
from benchmarks.lives.storm import Died, Storm, TimedOut
from benchmarks.rivals import AMOUNT, FEE

LIVES = [draw(seed) for seed in range(1, 501)]
PAID = AMOUNT - FEE


class Accounts:
    def __init__(self) -> None:
        self.closed: list[str] = []

    def close(self, who: str) -> None:
        self.closed.append(who)

    def reopen(self, who: str) -> None:
        self.closed.remove(who)


class Broken(Exception):
    """The error of a lost or refused call."""


def storm(life: Life) -> Storm:
    return Storm(life, Accounts(), lost=Broken, refused=Broken)


def life(*faults: tuple[Step, int, Kind], **more: Any) -> Life:
    return Life(seed=1, faults={(step, number): kind for step, number, kind in faults}, **more)


def attempt(storm: Storm, step: Step, send: Callable[[], object]) -> None:
    """Take a step once, as a function of each compared way does."""
    storm.begins(step)
    storm.write(step, send)
    storm.answered(step)


def test_a_seed_always_draws_the_same_life() -> None:
    assert [draw(seed) for seed in range(1, 501)] == LIVES
    assert len({str(one.lines()) for one in LIVES}) > 250


def test_the_drawn_lives_contain_each_fault_at_each_step() -> None:
    met = Counter((step, kind) for one in LIVES for (step, _), kind in one.faults.items())
    steps = (Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE, Step.VOID)

    assert set(met) == {(step, kind) for step in steps for kind in Kind}
    assert min(met.values()) >= 10


def test_the_drawn_lives_contain_each_kind_of_reversal() -> None:
    assert {one.payee_closed_from for one in LIVES} == {0, 1, 2}
    assert {one.is_rejected for one in LIVES} == {False, True}
    reversed_ones = [one for one in LIVES if one.is_rejected or one.payee_closed_from]
    assert {one.reversal_refused for one in reversed_ones} == {0, 1, 2, 4, 10, FOR_EVER}
    assert {number for one in LIVES for _, number in one.faults} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("kind", "error", "commits"),
    [(Kind.LOST, Broken, True), (Kind.DIES_BEFORE, Died, False), (Kind.DIES_AFTER, Died, True)],
)
def test_a_fault_ends_an_attempt_before_or_after_its_write(
    kind: Kind, error: type[BaseException], commits: bool
) -> None:
    sent: list[str] = []
    world = storm(life((Step.HOLD, 1, kind)))

    with pytest.raises(error):
        attempt(world, Step.HOLD, lambda: sent.append("first"))
    attempt(world, Step.HOLD, lambda: sent.append("second"))

    assert sent == (["first", "second"] if commits else ["second"])


def test_a_late_write_arrives_after_the_next_attempts_success() -> None:
    sent: list[str] = []
    world = storm(life((Step.HOLD, 1, Kind.LATE)))

    with pytest.raises(TimedOut):
        attempt(world, Step.HOLD, lambda: sent.append("first"))
    attempt(world, Step.HOLD, lambda: sent.append("second"))

    assert sent == ["second", "first"]


@pytest.mark.parametrize("has_reversal", [True, False])
def test_a_very_late_write_arrives_after_the_reversal(has_reversal: bool) -> None:
    sent: list[str] = []
    world = storm(life((Step.HOLD, 1, Kind.LATE_REVERSAL)))

    with pytest.raises(TimedOut):
        attempt(world, Step.HOLD, lambda: sent.append("first"))
    attempt(world, Step.HOLD, lambda: sent.append("second"))
    if has_reversal:
        attempt(world, Step.VOID, lambda: sent.append("void"))
    world.over()

    assert sent == ["second", *(["void"] if has_reversal else []), "first"]


def test_the_payees_account_is_closed_until_the_reversal_has_begun() -> None:
    world = storm(life(payee_closed_from=2))
    closed = []

    for step in (Step.RELEASE, Step.RELEASE, Step.VOID):
        world.begins(step)
        closed.append(list(world.accounts.closed))  # type: ignore[attr-defined]
    world.answered(Step.VOID)

    assert closed == [[], ["payee"], ["payee"]]
    assert world.accounts.closed == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", sorted(REVERSALS))
def test_a_reversal_is_refused_for_the_given_number_of_attempts(step: Step) -> None:
    world, sent = storm(life(reversal_refused=2)), list[str]()

    for _ in range(2):
        with pytest.raises(Broken):
            attempt(world, step, lambda: sent.append("refused"))
    attempt(world, step, lambda: sent.append("third"))

    assert sent == ["third"]


def test_the_payers_account_closes_if_reversals_are_refused_for_ever() -> None:
    world = storm(life(reversal_refused=FOR_EVER))

    for step in (Step.HOLD, Step.RECLAIM, Step.VOID):
        attempt(world, step, lambda: None)
    world.over()

    assert world.accounts.closed == ["payer"]  # type: ignore[attr-defined]


HELD = {"alice": -AMOUNT, "bob": 0, "fees": 0, "escrow": AMOUNT}


@pytest.mark.parametrize(
    ("moved", "is_paged", "verdict"),
    [
        (SETTLED, False, Verdict.RIGHT),
        (REVERSED, True, Verdict.RIGHT),
        (HELD, True, Verdict.PAGED),
        (HELD, False, Verdict.SILENT),
        (SETTLED | {"fees": 0, "escrow": FEE}, False, Verdict.SILENT),
        (HELD | {"escrow": 0}, True, Verdict.LOST),
        (SETTLED | {"escrow": AMOUNT}, False, Verdict.LOST),
        (SETTLED | {"alice": -2 * AMOUNT, "escrow": AMOUNT}, True, Verdict.DOUBLED),
        (REVERSED | {"alice": AMOUNT, "escrow": -AMOUNT}, False, Verdict.DOUBLED),
        (REVERSED | {"bob": PAID, "escrow": -PAID}, False, Verdict.DOUBLED),
    ],
)
def test_the_verdict_follows_from_the_balances(
    moved: dict[str, int], is_paged: bool, verdict: Verdict
) -> None:
    assert judge(End(moved, "any report", is_paged)) is verdict


def test_each_count_of_a_fault_shows_its_first_seed() -> None:
    ends = {
        verdict: End(SETTLED, "", is_paged=verdict is Verdict.RIGHT)
        for verdict in (Verdict.RIGHT, Verdict.DOUBLED)
    }
    verdicts = [Verdict.RIGHT, Verdict.DOUBLED, Verdict.DOUBLED]
    outcomes = [Outcome(seed, verdict, ends[verdict], []) for seed, verdict in enumerate(verdicts, 4)]

    lines = list(sections({"sample": outcomes}))

    assert "| AWS's samples, as published | 1 | 2 (5) | 0 | 0 | 0 | 2 | 1 |" in lines
