import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, new_account, new_request

pytestmark = pytest.mark.long

PROOFS_MAX = 3
"""Maximum runs of the proof, as in `settle acceptance`. Each reads the rows that the last one could not."""


def runs(embedded: Embedded) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in embedded.logged("ReconcileBooks") if line.startswith("{"))
    return [line for line in lines if "ReconciledRows" in line]


@contextmanager
def each_minute(embedded: Embedded) -> Iterator[None]:
    scheduler = embedded.stack.client("scheduler")
    (listed,) = (one for one in scheduler.list_schedules()["Schedules"] if "Proof" in one["Name"])
    found = scheduler.get_schedule(Name=listed["Name"], GroupName=listed["GroupName"])
    names = ("Name", "GroupName", "FlexibleTimeWindow", "Target", "ScheduleExpression", "State")
    before = {name: found[name] for name in names}
    scheduler.update_schedule(**before | {"ScheduleExpression": "rate(1 minute)", "State": "ENABLED"})
    try:
        yield
    finally:
        scheduler.update_schedule(**before)


@contextmanager
def raised(embedded: Embedded, account: str) -> Iterator[None]:
    """Temporarily create 0.01 EUR from nothing."""

    def add(change: int) -> None:
        embedded.dynamodb.update_item(
            TableName=embedded.stack.outputs["TableName"],
            Key={"pk": {"S": f"ACCOUNT#{account}"}, "sk": {"S": "BALANCE"}},
            UpdateExpression="SET available = available + :change",
            ExpressionAttributeValues={":change": {"N": str(change)}},
        )

    add(1)
    try:
        yield
    finally:
        add(-1)


def called(embedded: Embedded) -> dict[str, Any]:
    """Call the function like a person; repeat a run cut off by a busy machine."""
    for _ in range(PROOFS_MAX):
        answer = embedded.stack.client("lambda").invoke(FunctionName=embedded.functions["ReconcileBooks"])
        found: dict[str, Any] = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, found
        if found["conserved"] or found["faults"]:
            break
    return found


def test_the_scheduled_proof_names_a_tampered_row(embedded: Embedded) -> None:
    request = new_request(embedded)
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    account = new_account(embedded, "tampered", "25.00")

    sound = called(embedded)
    begun = len(runs(embedded))
    with embedded.writes_nothing(), each_minute(embedded):
        embedded.wait_for(lambda: len(runs(embedded)) > begun)
    with raised(embedded, account):
        false = called(embedded)
    again = called(embedded)

    assert (sound["conserved"], sound["faults"], sound["unproven"]) == (True, [], [])
    assert sound["rows"] >= len(embedded.rows())
    assert false["conserved"] is False
    (fault,) = false["faults"]
    assert fault.startswith(f"ACCOUNT#{account}: the row says 2501 EUR, its entries 2500")
    assert again["conserved"] is True
    counted = [(*line["ReconcileFaults"], *line["ReconcileUnproven"]) for line in runs(embedded)]
    assert counted[begun] == (0, 0), "the schedule's run"
    if counted[-1] == (1, 0):  # the last line is lost, as the embedded AWS may on a busy machine
        counted.append((0, 0))
    assert counted[-2:] == [(1, 0), (0, 0)]
    logged = embedded.logged("ReconcileBooks")
    assert any('"kind":"ACCOUNT"' in line for line in logged)
    assert not any(account in line for line in logged)


def test_the_proofs_role_can_read_but_not_write(embedded: Embedded) -> None:
    client, function = embedded.stack.client("lambda"), embedded.functions["ReconcileBooks"]
    with embedded.without_grants("ReconcileBooks", "dynamodb:Scan"):
        answer = client.invoke(FunctionName=function)

    told = json.loads(answer["Payload"].read())
    assert answer["FunctionError"]
    assert "AccessDenied" in told["errorMessage"]
    policy = embedded.stack.client("iam").get_role_policy(
        RoleName=embedded.roles["ReconcileBooks"],
        PolicyName=embedded.stack.client("iam").list_role_policies(RoleName=embedded.roles["ReconcileBooks"])[
            "PolicyNames"
        ][0],
    )["PolicyDocument"]
    allowed = {
        action
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if action.startswith("dynamodb:")
    }
    assert allowed == {f"dynamodb:{read}" for read in ("BatchGetItem", "GetItem", "Query", "Scan")}
