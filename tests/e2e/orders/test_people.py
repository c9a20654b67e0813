import json

import pytest

from infra.orders import routes
from infra.people import people
from infra.rooms import ORDERS
from settle.local import record
from settle.permissions.people import Kind
from tests.e2e.embedded import Embedded
from tests.e2e.people import Person, of_kind
from tests.e2e.stuck import stuck
from tests.e2e.test_iam import outcome_of

pytestmark = pytest.mark.long
ROUTES, PEOPLE = routes(ORDERS), people(ORDERS)

each_kind = pytest.mark.parametrize("kind", Kind)


@each_kind
def test_each_kind_of_person_gives_only_its_own_orders(embedded: Embedded, kind: Kind) -> None:
    """An order with an unknown field gets 400 from the function if permitted, else 403 from IAM."""
    with of_kind(embedded, kind) as olga, embedded.writes_nothing():
        statuses = {route: olga.order(route, unknown=1).status for route in ROUTES}

    assert statuses == {route: 400 if route in PEOPLE[kind] else 403 for route in ROUTES}


def past_the_door(embedded: Embedded, olga: Person) -> list[str]:
    outputs, functions = embedded.stack.outputs, embedded.functions
    machines, lambdas, table = (olga.client(name) for name in ("stepfunctions", "lambda", "dynamodb"))
    row = {"pk": {"S": "ACCOUNT#x"}, "sk": {"S": "BALANCE"}}
    name = outputs["TableName"]
    put = {"Put": {"TableName": name, "Item": row}}
    return [
        *(
            outcome_of(machines.start_execution, stateMachineArn=outputs[machine], input="{}")
            for machine in ("CompensationArn", "SettlementStandardArn", "SettlementExpressArn")
        ),
        outcome_of(machines.send_task_success, taskToken="x", output="{}"),
        *(
            outcome_of(lambdas.invoke, FunctionName=functions[one], Payload=b"{}")
            for one in ("TakeOrder", "RecoverStalled")
        ),
        outcome_of(table.put_item, TableName=name, Item=row),
        outcome_of(table.delete_item, TableName=name, Key=row),
        outcome_of(table.transact_write_items, TransactItems=[put]),
        outcome_of(olga.client("secretsmanager").get_secret_value, SecretId=outputs["RowKeyArns"]),
        outcome_of(
            olga.client("iam").create_policy_version,
            PolicyArn=outputs["ViewerPolicyArn"],
            PolicyDocument="{}",
            SetAsDefault=True,
        ),
    ]


@each_kind
def test_no_person_can_bypass_the_orders_api(embedded: Embedded, kind: Kind) -> None:
    """A role that could start or wake the machine could decide in another's name."""
    with of_kind(embedded, kind) as olga, embedded.writes_nothing():
        ended = past_the_door(embedded, olga)

    assert {one.removesuffix("Exception") for one in ended} == {"AccessDenied"}, ended


def test_a_viewer_runs_each_query_and_gives_no_order(embedded: Embedded) -> None:
    one = stuck(embedded)
    queries = [
        ("status", one.key),
        ("list", "--in-flight"),
        ("list", "--limbo"),
        ("list", "--since", "1h"),
        ("limbo", "list"),
        ("limbo", "show", one.key),
        ("account", "show", one.payee),
        ("account", "show", one.payee, "--archive", "stack"),
        ("kyc", "status"),
        ("watch", "--once"),
        ("reconcile", "--no-signatures"),
        ("permissions",),
    ]
    stack = ("--stack", record.STACK_NAME)

    with of_kind(embedded, Kind.VIEWER) as vera, embedded.writes_nothing():
        ended = {words: embedded.settle(*words, *stack, **vera.environment) for words in queries}
        status = embedded.settle("status", one.key, "--json", *stack, **vera.environment)
        signed = embedded.settle("reconcile", *stack, **vera.environment)

    expected = {words: 5 if words[0] == "status" else 0 for words in queries}
    assert {words: found.returncode for words, found in ended.items()} == expected, ended
    assert {found["status"] for found in json.loads(status.stdout)["executions"]} == {"RUNNING"}
    assert (signed.returncode, "--no-signatures" in signed.stderr) == (1, True), signed
