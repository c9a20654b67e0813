import json
import re
from typing import Any

import pytest

from infra.orders import APPROVED, routes
from infra.people import POLICIES, people
from infra.rooms import ORDERS
from settle.permissions.people import Kind
from tests.infra.evaluator import Request, allows, listed
from tests.infra.stack import RUNNING, each_stage, each_stage_on_aws, executions, properties

TABLE, API = "${LedgerTable.Arn}", "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}"
ROUTES, PEOPLE = routes(ORDERS), people(ORDERS)
KINDS = pytest.mark.parametrize("kind", PEOPLE)
SIZE_MAX = 6_144
"""Limit of a managed policy in characters."""

LENGTHS = {
    **{"AWS::Partition": 10, "AWS::Region": 14, "AWS::AccountId": 12},
    **dict.fromkeys(("OrdersApi", "SettlementsApi"), 10),
}
"""Lengths of the longest values of template references. All other references are ARNs."""

READS = {
    *(f"dynamodb:{one}" for one in ("BatchGetItem", "DescribeTable", "GetItem", "Query", "Scan")),
    *("s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:ListBucketVersions"),
    *("states:DescribeExecution", "cloudformation:DescribeStacks", "kms:Decrypt"),
    *("iam:GetPolicy", "iam:GetPolicyVersion"),
}


def statements(stage: str, kind: str) -> list[dict[str, Any]]:
    found = properties(stage, "IAM::ManagedPolicy")[f"People{POLICIES[kind]}"]["PolicyDocument"]["Statement"]
    return list(found)


def route(name: str) -> Request:
    return Request("execute-api:Invoke", f"{API}:${{OrdersApi}}/$default/POST/orders/{name}")


def test_settle_knows_each_kind_of_person_and_its_policys_output() -> None:
    assert {kind.value: kind.output for kind in Kind} == {
        kind: f"{name}PolicyArn" for kind, name in POLICIES.items()
    }


@KINDS
@each_stage
def test_each_kind_of_persons_policy_allows_exactly_its_routes(stage: str, kind: str) -> None:
    allowed = {one for one in ROUTES if allows(statements(stage, kind), route(one))}

    assert allowed == {*PEOPLE[kind]}


def test_each_route_except_withdrawal_belongs_to_one_kind_of_person() -> None:
    """An unassigned route would be unusable, or need a handwritten policy."""
    given = {one: [kind for kind, routes in PEOPLE.items() if one in routes] for one in ROUTES}

    assert {kind for kinds in given.values() for kind in kinds} == {"operator", "approver", "break-glass"}
    twice = {f"{decision}/withdraw" for decision in APPROVED}
    assert {one: len(kinds) for one, kinds in given.items()} == {one: 1 + (one in twice) for one in ROUTES}


def test_no_kind_of_person_may_both_propose_and_approve() -> None:
    moves = {kind: {one.partition("/")[2] for one in routes} for kind, routes in PEOPLE.items()}

    assert moves == {
        "viewer": set(),
        "operator": {"", "propose", "withdraw"},
        "approver": {"", "approve", "withdraw"},
        "break-glass": {"break-glass"},
    }


@KINDS
@each_stage
@pytest.mark.parametrize(
    "path", ["settlements", "settlements/order-2026-000117", "accounts/fees:EUR/entries"]
)
def test_every_kind_of_person_may_read_by_the_api(stage: str, kind: str, path: str) -> None:
    of_readers = f"{API}:${{SettlementsApi}}/$default"

    assert allows(statements(stage, kind), Request("execute-api:Invoke", f"{of_readers}/GET/{path}"))
    assert not allows(statements(stage, kind), Request("execute-api:Invoke", f"{of_readers}/POST/{path}"))


@KINDS
@each_stage
def test_no_persons_policy_can_bypass_the_orders_api(stage: str, kind: str) -> None:
    actions = {one for statement in statements(stage, kind) for one in listed(statement["Action"])}

    puts = {"s3:PutObject"} if stage in RUNNING and kind == "operator" else set()
    assert actions - {"execute-api:Invoke"} == READS | puts
    assert {one["Effect"] for one in statements(stage, kind)} == {"Allow"}


@KINDS
@each_stage_on_aws
def test_a_persons_policy_reads_only_its_own_stacks_resources(stage: str, kind: str) -> None:
    of_reads = [one for one in statements(stage, kind) if one["Action"] != ["execute-api:Invoke"]]
    resources = {resource for one in of_reads for resource in listed(one["Resource"])}

    assert resources == {
        *(TABLE, f"{TABLE}/index/gsi1", "${LedgerKey.Arn}"),
        *("${JournalBucket.Arn}", "${JournalBucket.Arn}/*", "${JournalKey.Arn}"),
        *(executions("SettlementStandard"), executions("Compensation")),
        f"arn:${{AWS::Partition}}:cloudformation:${{AWS::Region}}:${{AWS::AccountId}}:stack/settlement-{stage}/*",
        f"arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:policy/settlement-{stage}-*",
    }


@KINDS
@each_stage_on_aws
@pytest.mark.parametrize(("key", "service"), [("LedgerKey", "dynamodb"), ("JournalKey", "s3")])
def test_a_persons_policy_uses_keys_only_through_the_encrypting_service(
    stage: str, kind: str, key: str, service: str
) -> None:
    def decrypt(through: str) -> bool:
        context = {"kms:ViaService": (f"{through}.${{AWS::Region}}.amazonaws.com",)}
        return allows(statements(stage, kind), Request("kms:Decrypt", f"${{{key}.Arn}}", context))

    assert decrypt(service)
    assert not decrypt("ssm")


@each_stage
def test_each_managed_policy_is_short_enough_for_aws(stage: str) -> None:
    """AWS counts a policy without its blanks, and a reference as its ARN."""
    for name, found in properties(stage, "IAM::ManagedPolicy").items():
        document = json.dumps(found["PolicyDocument"]["Statement"], separators=(",", ":"))
        deployed = re.sub(r"\$\{([\w:.]+)\}", lambda one: "x" * LENGTHS.get(one[1], 110), document)
        assert len(deployed) < SIZE_MAX, name


@each_stage
def test_the_stack_neither_attaches_nor_names_a_policy(stage: str) -> None:
    """People are assigned outside the stack. A fixed name would collide between the account's regions."""
    for found in properties(stage, "IAM::ManagedPolicy").values():
        assert found.keys() == {"Description", "PolicyDocument"}
