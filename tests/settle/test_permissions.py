import json
from typing import Any

import pytest

from settle import stack
from settle.exit_codes import Exit
from settle.permissions import permissions
from settle.permissions.people import Kind
from tests.settle.conftest import Command, failing
from tests.settle.desk import Desk, Reached

API = "arn:aws:execute-api:eu-west-1:1:api/*/POST/orders"
READS = {"Effect": "Allow", "Action": ["dynamodb:GetItem", "kms:Decrypt"], "Resource": "arn:table"}
ROUTES = {
    Kind.VIEWER: [],
    Kind.OPERATOR: ["retry"],
    Kind.APPROVER: ["write-off", "write-off/approve"],
    Kind.BREAK_GLASS: ["write-off/break-glass"],
}


class Iam:
    """IAM with a policy for each kind of person, in its default version."""

    def get_policy(self, PolicyArn: str) -> dict[str, Any]:  # noqa: N803
        return {"Policy": {"Arn": PolicyArn, "DefaultVersionId": "v2"}}

    def get_policy_version(self, PolicyArn: str, VersionId: str) -> dict[str, Any]:  # noqa: N803
        assert VersionId == "v2"
        return {"PolicyVersion": {"Document": document(Kind(PolicyArn.removeprefix("arn:of:")))}}


def document(kind: Kind) -> dict[str, Any]:
    orders = {"Effect": "Allow", "Action": "execute-api:Invoke"}
    arns = [f"{API}/{route}" for route in ROUTES[kind]]
    return {
        "Version": "2012-10-17",
        "Statement": [READS, *([orders | {"Resource": arns}] if arns else [])],
    }


@pytest.fixture
def deployed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Reached:
    outputs = desk.stack.outputs | {kind.output: f"arn:of:{kind}" for kind in Kind}
    found = Reached("under-test", outputs, None, clients=desk.stack.clients | {"iam": Iam()})
    monkeypatch.setattr(stack, "find", lambda name: found)
    return found


@pytest.mark.usefixtures("deployed")
def test_each_order_is_listed_with_its_allowed_kinds_of_person(settle: Command) -> None:
    code, out, _ = settle("permissions")

    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["order", "viewer", "operator", "approver", "break-glass"],
        ["(look)", "yes", "yes", "yes", "yes"],
        ["retry", "yes"],
        ["write-off", "yes"],
        ["write-off/approve", "yes"],
        ["write-off/break-glass", "yes"],
        [],
        *([kind.value, f"arn:of:{kind}"] for kind in Kind),
    ]
    header, _, retry, write_off, *_ = out.splitlines()
    assert retry.index("yes") == header.index("operator")
    assert write_off.index("yes") == header.index("approver")


@pytest.mark.usefixtures("deployed")
def test_with_json_each_kind_lists_its_orders_and_reads(settle: Command) -> None:
    _, out, _ = settle("permissions", "--json")

    assert json.loads(out) == [
        {
            "kind": kind.value,
            "policy": f"arn:of:{kind}",
            "orders": ROUTES[kind],
            "reads": ["dynamodb:GetItem", "kms:Decrypt"],
        }
        for kind in Kind
    ]


@pytest.mark.usefixtures("deployed")
def test_the_as_option_prints_the_policy_of_that_kind(settle: Command) -> None:
    _, text, _ = settle("permissions", "--as", "break-glass")
    _, found, _ = settle("permissions", "--as", "break-glass", "--json")

    arn, _, printed = text.partition("\n")
    assert (arn, json.loads(printed)) == ("arn:of:break-glass", document(Kind.BREAK_GLASS))
    assert json.loads(found) == {
        "kind": "break-glass",
        "policy": arn,
        "document": document(Kind.BREAK_GLASS),
    }


def test_an_unknown_kind_of_person_is_refused(settle: Command) -> None:
    code, _, err = settle("permissions", "--as", "root")

    assert code == Exit.USAGE
    assert "'root' is not one of" in err


def test_a_stack_without_peoples_policies_is_too_old(desk: Desk) -> None:
    with failing(Exit.NOT_FOUND, r"no policy for people yet \(OperatorPolicyArn\)"):
        permissions.policy(desk.stack, Kind.OPERATOR)
