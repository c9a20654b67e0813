import json
from typing import Any

import pytest

from settle.settlements import settlement
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import COMPENSATION, STANDARD, Desk
from tests.settle.flight import at, claimed, key_of, stuck
from tests.world.constants import KEY

FIRST = key_of(1)


def told(desk: Desk, key: str = FIRST) -> dict[str, Any]:
    described = settlement.describe(desk.stack, key)
    names = ("owner", "owner_epoch", "deadline_at", "next_look_at", "executions", "activity")
    return {name: described[name] for name in names}


def waits(desk: Desk, case: int = 1) -> None:
    execution = arn("the-waiter", COMPENSATION)
    row = {"key": FIRST, "case": case, "token": "a-token", "execution": execution}
    desk.ledger.put({**keys.waiting(FIRST), **row})


def arn(name: str, machine: str = STANDARD) -> str:
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def test_status_shows_a_standard_owner_its_deadline_and_next_look(desk: Desk, command: Command) -> None:
    claimed(desk, due=30, owner=f"{FIRST}-r2", owner_epoch=2)
    desk.machines.add(arn(f"{FIRST}-r2"))

    assert told(desk) == {
        "owner": f"{FIRST}-r2",
        "owner_epoch": 2,
        "deadline_at": at(900),
        "next_look_at": at(30),
        "executions": [{"name": f"{FIRST}-r2", "status": "RUNNING"}],
        "activity": f"execution {FIRST}-r2 runs; recovery looks at {at(30)}",
    }
    lines = [line.split() for line in command("status", FIRST)[1].splitlines()]
    for name, value in (("owner", f"{FIRST}-r2"), ("owner_epoch", "2"), ("deadline_at", at(900))):
        assert [name, value] in lines
    assert ["next_look_at", at(30)] in lines


def test_status_shows_an_aborted_reversal(desk: Desk, command: Command) -> None:
    half = desk.half_reversed()
    runs = told(desk, KEY)["activity"]
    half.abort()

    code, out, _ = command("status", KEY, "--json")
    _, text, _ = command("status", KEY)

    described = json.loads(out)
    assert runs.startswith(f"execution {half.name} runs; recovery looks at ")
    assert (code, described["executions"]) == (7, [{"name": half.name, "status": "ABORTED"}])
    look = desk.row(KEY)["gsi1sk"]
    assert described["activity"] == f"no execution runs ({half.name} is ABORTED); recovery looks at {look}"
    assert described["activity"] in text.splitlines()


@pytest.mark.parametrize(
    ("extra", "machine"),
    [({}, STANDARD), ({"expired_at": at(1)}, COMPENSATION), ({"status": "COMPENSATING"}, COMPENSATION)],
)
def test_an_owner_unknown_to_standard_is_presumed_on_express(
    desk: Desk, extra: dict[str, Any], machine: str
) -> None:
    claimed(desk, due=30, owner="the-owner", **extra)

    found = told(desk)

    assert desk.machines.described == [arn("the-owner", machine)]
    assert found["executions"] == [{"name": "the-owner", "status": None}]
    assert found["activity"] == (
        "execution the-owner may run: Step Functions does not report Express executions;"
        f" recovery looks at {at(30)}"
    )


@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException", None])
def test_a_failed_execution_query_does_not_fail_the_status(desk: Desk, code: str | None) -> None:
    """Step Functions refuses the query, or the stack is too old to name its machine."""
    claimed(desk, owner="the-owner")
    if code:
        desk.refuse("describe_execution", code)
    else:
        del desk.stack.outputs["SettlementStandardArn"]

    assert told(desk)["executions"] == [{"name": "the-owner", "status": None}]


@pytest.mark.parametrize(
    ("status", "activity"),
    [
        ("RUNNING", f"execution the-owner runs; recovery looks at {at(86_400)}"),
        ("SUCCEEDED", f"in review until {at(86_400)}: no execution runs before the provider decides"),
    ],
)
def test_in_review_status_shows_only_an_execution_still_running(
    desk: Desk, status: str, activity: str
) -> None:
    claimed(desk, due=86_400, owner="the-owner", review="ver_1", deadline_at=at(86_400))
    desk.machines.add(arn("the-owner"), status)

    assert told(desk)["activity"] == activity


def test_in_limbo_the_waiting_execution_is_shown_beside_the_owner(desk: Desk) -> None:
    stuck(desk, owner="the-owner", recover_at=at(60))
    waits(desk)
    desk.machines.add(arn("the-owner", COMPENSATION), "ABORTED")
    desk.machines.add(arn("the-waiter", COMPENSATION))

    found = told(desk)

    assert found["executions"] == [
        {"name": "the-owner", "status": "ABORTED"},
        {"name": "the-waiter", "status": "RUNNING"},
    ]
    assert found["next_look_at"] == at(60)
    assert found["activity"] == (
        f"execution the-waiter runs, which waits for a person's decision; recovery looks at {at(60)}"
    )


@pytest.mark.parametrize("owner", ["ABORTED", None])
def test_in_limbo_a_waiting_execution_unknown_to_aws_may_run(desk: Desk, owner: str | None) -> None:
    stuck(desk, owner="the-owner", recover_at=at(60))
    waits(desk)
    if owner:
        desk.machines.add(arn("the-owner", COMPENSATION), owner)

    assert told(desk)["activity"].startswith("execution the-waiter may run: ")


@pytest.mark.parametrize("case", [0, 2])
def test_in_limbo_an_execution_waiting_for_another_case_is_hidden(desk: Desk, case: int) -> None:
    """The row that names a waiting execution outlives the execution's case."""
    stuck(desk, owner="the-owner")
    waits(desk, case)
    desk.machines.add(arn("the-owner", COMPENSATION), "TIMED_OUT")

    found = told(desk)

    assert found["executions"] == [{"name": "the-owner", "status": "TIMED_OUT"}]
    # Without a time on the row, recovery's next run looks.
    activity = "no execution runs (the-owner is TIMED_OUT); recovery looks within a minute"
    assert found["activity"] == activity


@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATED"])
def test_the_executions_of_a_finished_settlement_are_not_described(desk: Desk, status: str) -> None:
    claimed(desk, status=status, owner="the-owner")

    found = told(desk)

    assert (found["executions"], found["activity"]) == ([{"name": "the-owner", "status": None}], None)
    assert (found["next_look_at"], desk.machines.described) == (None, [])
