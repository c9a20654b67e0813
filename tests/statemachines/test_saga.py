"""Checks that the code's table of steps, SAGA, matches the definitions."""

from itertools import pairwise

from settlement.core.model.saga import REVERSIBLE, SAGA
from settlement.core.policy.compensation import CUT_OFF
from tests.statemachines.definitions import states, task


def test_the_settlement_machine_runs_the_steps_in_their_order() -> None:
    names = [facts.state for facts in SAGA.values()]

    assert [task("settlement", one)["Next"] for one, _ in pairwise(names)] == names[1:]


def test_the_compensating_machine_reverses_money_moves_in_opposite_order() -> None:
    moves = [SAGA[step].moves for step in REVERSIBLE]
    names = [one.reversed_by for one in moves if one]

    assert [task("compensation", one)["Next"] for one, _ in pairwise(names)] == names[1:]
    assert {f"{step}_due" for step in REVERSIBLE[:-1]} == {
        choice["Variable"].removeprefix("$.")
        for choice in task("compensation", "IsDecided")["Choices"]
        if choice["Variable"].endswith("_due")
    }


def test_a_cut_off_call_starts_a_reversal_only_where_listed() -> None:
    """At other steps the call stalls the machine, and recovery resumes the settlement."""
    reversing = {
        name
        for name, state in states("settlement").items()
        for entry in state.get("Catch", ())
        if {*CUT_OFF} & {*entry["ErrorEquals"]}
    }

    assert reversing == {facts.state for facts in SAGA.values() if facts.cut_off}
