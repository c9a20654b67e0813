"""`settle status` names the owner, its executions and recovery's next look, and says whether one runs."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settle.queries import settlement
from tests.settle.conftest import Ended
from tests.settle.desk import COMPENSATION, KEY, STANDARD, Desk
from tests.settle.flight import at, claimed, finished, key_of, stuck

# What the rows are is tested on both engines; here it is what is told of them.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Command = Callable[..., Ended]
FIRST = key_of(1)


class Known:
    """Step Functions, which knows some executions by their ARNs, and what was asked of it."""

    def __init__(self, desk: Desk, **known: str) -> None:
        self.known, self.asked = known, list[str]()
        self._desk = desk.machines
        desk.stack.clients["stepfunctions"] = self

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803
        self.asked.append(executionArn)
        name = executionArn.rpartition(":")[2]
        if name in self.known:
            return {"status": self.known[name]}
        return self._desk.describe_execution(executionArn=executionArn)


def told(desk: Desk, key: str = FIRST) -> dict[str, Any]:
    described = settlement.describe(desk.stack, key)
    names = ("owner", "owner_epoch", "deadline_at", "next_look_at", "executions", "activity")
    return {name: described[name] for name in names}


def execution(machine: str, name: str) -> str:
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def test_the_owner_that_runs_on_standard_is_told_with_the_deadline_and_the_next_look(desk: Desk) -> None:
    claimed(desk, due=30, owner=f"{FIRST}-r2", owner_epoch=2)
    machines = Known(desk, **{f"{FIRST}-r2": "RUNNING"})

    assert told(desk) == {
        "owner": f"{FIRST}-r2",
        "owner_epoch": 2,
        "deadline_at": at(900),
        "next_look_at": at(30),
        "executions": [{"name": f"{FIRST}-r2", "status": "RUNNING"}],
        "activity": f"execution {FIRST}-r2 runs; recovery looks at {at(30)}",
    }
    assert machines.asked == [execution(STANDARD, f"{FIRST}-r2")]


@pytest.mark.parametrize("ended", ["ABORTED", "FAILED", "TIMED_OUT"])
def test_after_an_execution_has_ended_it_says_that_none_runs_and_when_recovery_looks(
    desk: Desk, command: Command, ended: str
) -> None:
    claimed(desk, due=30, owner=f"{FIRST}-r2")
    Known(desk, **{f"{FIRST}-r2": ended})

    _, out, _ = command("status", FIRST)

    assert f"no execution runs ({FIRST}-r2 is {ended}); recovery looks at {at(30)}" in out.splitlines()


def test_an_aborted_reversal_is_told_by_the_real_machine(desk: Desk, command: Command) -> None:
    half = desk.half_reversed()
    runs = told(desk, KEY)["activity"]
    half.abort()

    code, out, _ = command("status", KEY, "--json")

    described = json.loads(out)
    assert runs.startswith(f"execution {half.name} runs; recovery looks at ")
    assert (code, described["executions"]) == (7, [{"name": half.name, "status": "ABORTED"}])
    assert described["activity"].startswith(f"no execution runs ({half.name} is ABORTED); recovery looks at ")


@pytest.mark.parametrize(
    ("extra", "machine"),
    [
        ({}, STANDARD),
        ({"expired_at": at(1)}, COMPENSATION),
        ({"status": "COMPENSATING"}, COMPENSATION),
    ],
)
def test_the_owner_is_looked_for_on_the_machine_that_runs_it(
    desk: Desk, extra: dict[str, Any], machine: str
) -> None:
    claimed(desk, owner="the-owner", **extra)
    machines = Known(desk)

    told(desk)

    assert machines.asked == [execution(machine, "the-owner")]


def test_of_an_express_execution_it_says_that_it_may_run(desk: Desk) -> None:
    claimed(desk, due=30, owner="on-express")

    found = told(desk)

    assert found["executions"] == [{"name": "on-express", "status": None}]
    assert found["activity"] == (
        "execution on-express may run: Step Functions tells nothing of an Express execution;"
        f" recovery looks at {at(30)}"
    )


@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
def test_an_answer_that_step_functions_refuses_does_not_cost_the_status(desk: Desk, code: str) -> None:
    claimed(desk, owner="the-owner")
    desk.machines.refused["describe_execution"] = code

    assert told(desk)["executions"] == [{"name": "the-owner", "status": None}]


def test_a_stack_without_the_machines_outputs_is_not_asked(desk: Desk) -> None:
    claimed(desk, owner="the-owner")
    del desk.stack.outputs["SettlementStandardArn"]

    assert told(desk)["executions"] == [{"name": "the-owner", "status": None}]


@pytest.mark.parametrize("running", [True, False])
def test_in_review_no_execution_runs_unless_it_has_not_ended_yet(desk: Desk, running: bool) -> None:
    claimed(desk, due=86_400, owner="the-owner", review="ver_1", deadline_at=at(86_400))
    Known(desk, **{"the-owner": "RUNNING" if running else "SUCCEEDED"})

    assert told(desk)["activity"] == (
        f"execution the-owner runs; recovery looks at {at(86_400)}"
        if running
        else f"in review until {at(86_400)}: no execution runs before the provider decides"
    )


def test_in_limbo_the_execution_that_waits_is_told_beside_the_owner(desk: Desk) -> None:
    waiting = {"token": "a-token", "execution": execution(COMPENSATION, "the-waiter")}
    stuck(desk, owner="the-owner", waiting=waiting, recover_at=at(60))
    Known(desk, **{"the-owner": "ABORTED", "the-waiter": "RUNNING"})

    found = told(desk)

    assert found["executions"] == [
        {"name": "the-owner", "status": "ABORTED"},
        {"name": "the-waiter", "status": "RUNNING"},
    ]
    assert found["next_look_at"] == at(60)
    assert found["activity"] == (
        f"execution the-waiter runs, which waits for a person's decision; recovery looks at {at(60)}"
    )


def test_in_limbo_without_a_time_recovery_looks_within_a_minute(desk: Desk) -> None:
    stuck(desk, owner="the-owner")
    Known(desk, **{"the-owner": "ABORTED"})

    assert (
        told(desk)["activity"] == "no execution runs (the-owner is ABORTED); recovery looks within a minute"
    )


@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATED"])
def test_of_a_finished_settlement_step_functions_is_not_asked(desk: Desk, status: str) -> None:
    finished(desk, status=status, owner="the-owner")
    machines = Known(desk)

    found = told(desk)

    assert (found["executions"], found["activity"]) == ([{"name": "the-owner", "status": None}], None)
    assert (found["next_look_at"], machines.asked) == (None, [])


def test_a_person_reads_owner_epoch_deadline_and_next_look(desk: Desk, command: Command) -> None:
    claimed(desk, due=30, owner="the-owner", owner_epoch=3)

    _, out, _ = command("status", FIRST)

    shown = [line.split() for line in out.splitlines()]
    for line in (
        ["owner", "the-owner"],
        ["owner_epoch", "3"],
        ["deadline_at", at(900)],
        ["next_look_at", at(30)],
    ):
        assert line in shown
