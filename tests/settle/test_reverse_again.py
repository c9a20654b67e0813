"""What is being reversed already has recovery look at it: `settle reverse` starts nothing by itself there."""

from collections.abc import Callable
from typing import Any

import pytest

from settle.actions import recovery, resolution
from settle.exit_codes import CommandFailed, Exit
from settle.queries import table_scan
from settle.stack import Stack
from settlement.model.orders import Decision
from tests.settle.desk import KEY, REASON, Desk
from tests.settle.test_reverse import unheard


def reverse(desk: Desk) -> None:
    assert unheard(desk)["status"] == "COMPENSATED"


def recover(desk: Desk) -> None:
    result, why_not = recovery.recover(desk.stack, KEY)
    assert (result["status"], result["action"], why_not) == ("COMPENSATED", "compensate", None)


def names(desk: Desk) -> list[str]:
    return [one.name for one in desk.machines.machines.executions]


@pytest.mark.parametrize("again", [reverse, recover])
def test_a_reversal_that_died_half_way_is_started_again_by_recovery_whichever_command_asks(
    desk: Desk, again: Callable[[Desk], None]
) -> None:
    desk.half_reversed().abort()

    again(desk)

    assert desk.functions.asked == [{"key": KEY}]
    (begun_with,) = desk.machines.started
    assert (begun_with.keys(), begun_with["settlement"]["key"]) == ({"settlement"}, KEY)
    assert names(desk) == [f"{KEY}-compensate-0", f"{KEY}-compensate-1"]
    assert (desk.row()["owner"], desk.row()["owner_epoch"]) == (f"{KEY}-compensate-1", 1)
    assert desk.available("alice", "bob", "fees:EUR") == ["500.00", "0.00", "0.00"]
    assert table_scan.check(desk.stack).conserved


def test_who_asked_first_for_a_reversal_that_died_and_why_stays_on_record(desk: Desk) -> None:
    """So the caller's identity is not looked up: their reason goes on no record."""
    desk.half_reversed().abort()

    outcome = unheard(desk)

    assert (outcome["status"], outcome["failure"]["cause"]) == ("COMPENSATED", "first (by grace)")
    assert desk.identity.asked == 0


def test_a_reversal_that_runs_is_followed_and_none_is_started_beside_it(desk: Desk) -> None:
    runs = desk.half_reversed()
    before = {name: value for name, value in desk.row().items() if name != "gsi1sk"}

    with pytest.raises(CommandFailed, match=f"^{KEY}: is still COMPENSATING; look at it with") as told:
        unheard(desk)

    assert told.value.code is Exit.FAILED
    assert (desk.functions.asked, desk.machines.started) == ([{"key": KEY}], [])
    assert {name: value for name, value in desk.row().items() if name != "gsi1sk"} == before
    runs.run()
    assert unheard(desk)["status"] == "COMPENSATED"
    assert names(desk) == [runs.name]


def test_what_goes_on_after_a_decision_is_left_to_the_execution_that_carries_it_out(desk: Desk) -> None:
    """An earlier execution that has ended tells nothing about the one that runs now."""
    desk.stuck()
    desk.machines.machines.executions[0].abort()
    desk.machines.detached = True
    with pytest.raises(CommandFailed, match="is still LIMBO"):
        resolution.resolve(desk.stack, KEY, Decision.WRITE_OFF, REASON)
    decides = desk.machines.machines.executions[-1].run(until="AnnounceResolution")
    desk.machines.started.clear()
    assert desk.row()["status"] == "COMPENSATING"

    result, why_not = recovery.recover(desk.stack, KEY)

    assert result["action"] == "none"
    assert why_not == f"{KEY} needs no recovery: its execution {decides.name} runs"
    decides.abort()
    desk.machines.detached = False
    assert recovery.recover(desk.stack, KEY)[0]["action"] == "compensate"
    assert len(desk.machines.started) == 1
    assert desk.row()["status"] == "COMPENSATED"
    assert table_scan.check(desk.stack).conserved


@pytest.mark.parametrize(
    ("operation", "what"), [("describe_execution", "not described"), ("start_execution", "not started")]
)
def test_where_step_functions_does_not_answer_the_command_says_so_and_may_be_repeated(
    desk: Desk, operation: str, what: str
) -> None:
    desk.half_reversed().abort()
    desk.machines.refused[operation] = "ServiceUnavailable"

    with pytest.raises(CommandFailed, match=f"^{KEY}: not recovered, .*: {what}: ") as told:
        unheard(desk)

    assert told.value.code is Exit.FAILED
    assert (desk.row()["status"], desk.machines.started) == ("COMPENSATING", [])
    desk.machines.refused.clear()
    assert unheard(desk)["status"] == "COMPENSATED"
    assert len(desk.machines.started) == 1


def test_what_has_ended_between_the_look_and_recovery_is_told_as_it_stands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = desk.half_reversed()
    real = recovery.recover

    def late(stack: Stack, key: str) -> Any:
        runs.run()
        return real(stack, key)

    monkeypatch.setattr(recovery, "recover", late)

    assert unheard(desk)["status"] == "COMPENSATED"

    assert (desk.functions.asked, desk.machines.started) == ([], [])


def test_a_reversal_that_gets_stuck_when_it_is_taken_on_ends_in_limbo(desk: Desk) -> None:
    desk.half_reversed().abort()
    desk.spend()

    outcome = unheard(desk)

    assert (outcome["status"], outcome["reversed"]) == ("LIMBO", ["fee"])
    assert table_scan.check(desk.stack).conserved
