"""A parent execution gets its payment's outcome by event: `examples/consumers/parent.asl.json`."""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, new_account, new_key, new_request, paid_once
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

EXAMPLES = PROJECT / "examples" / "consumers"
WANTED = {"source": ["settlement"], "detail": {"data": {"status": ["SETTLED", "REJECTED", "COMPENSATED"]}}}


@dataclass(frozen=True)
class Parent:
    """The deployed example. `impatient` waits for 5 s instead of an hour."""

    embedded: Embedded
    machine: str
    impatient: str
    table: str

    def start(self, payment: dict[str, Any], machine: str | None = None) -> str:
        started = self.embedded.step_functions.start_execution(
            stateMachineArn=machine or self.machine,
            name=new_key("parent"),
            input=json.dumps({"payment": payment}),
        )
        return str(started["executionArn"])

    def has_outcome(self, key: str) -> bool:
        found = self.embedded.dynamodb.get_item(
            TableName=self.table, Key={"pk": {"S": key}, "sk": {"S": "parent"}}, ConsistentRead=True
        )
        return "outcome" in found.get("Item", {})


def role(embedded: Embedded, service: str, *actions: str) -> str:
    iam, name = embedded.stack.client("iam"), new_key("parent")
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    allowed = [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]
    policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    iam.put_role_policy(RoleName=name, PolicyName="needs", PolicyDocument=policy)
    return str(arn)


@pytest.fixture(scope="module")
def parent(embedded: Embedded) -> Parent:
    stack, name = embedded.stack, new_key("parent")
    a_text = {"AttributeType": "S"}
    stack.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": "pk", **a_text}, {"AttributeName": "sk", **a_text}],
        BillingMode="PAY_PER_REQUEST",
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(EXAMPLES / "wake_parent.py", "wake_parent.py")
        bootstrap = zipfile.ZipInfo("bootstrap")
        bootstrap.external_attr = 0o755 << 16
        archive.writestr(bootstrap, (PROJECT / "lambdas" / "bootstrap").read_text())
    ours = stack.client("lambda").get_function_configuration(FunctionName=embedded.functions["HoldFunds"])
    variables = ours["Environment"]["Variables"] | {"WAITING_TABLE": name}
    function = stack.client("lambda").create_function(
        FunctionName=name,
        Runtime=ours["Runtime"],
        Handler="wake_parent.handler",
        Role=role(embedded, "lambda.amazonaws.com", "dynamodb:UpdateItem", "states:SendTaskSuccess"),
        Code={"ZipFile": packed.getvalue()},
        Timeout=60,
        Environment={"Variables": variables},
    )["FunctionArn"]
    events, bus = stack.client("events"), stack.outputs["OutcomeBusName"]
    events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(WANTED))
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "parent", "Arn": function}])
    definition = (EXAMPLES / "parent.asl.json").read_text()
    for placeholder, value in {
        "${StartQueueUrl}": stack.outputs["StartQueueUrl"],
        "${WakeParentArn}": function,
        "${SettlementStandardArn}": stack.outputs["SettlementStandardArn"],
    }.items():
        definition = definition.replace(placeholder, value)
    its_role = role(
        embedded,
        "states.amazonaws.com",
        *("sqs:SendMessage", "lambda:InvokeFunction", "states:StartExecution"),
        *("states:DescribeExecution", "states:StopExecution"),
    )
    brief = definition.replace('"TimeoutSeconds": 3600', '"TimeoutSeconds": 5')
    assert brief != definition
    machine, impatient = (
        embedded.step_functions.create_state_machine(name=one, definition=text, roleArn=its_role)[
            "stateMachineArn"
        ]
        for one, text in ((name, definition), (f"{name}-5", brief))
    )
    return Parent(embedded, machine, impatient, name)


@pytest.mark.parametrize(
    ("deposits", "status", "end"),
    [
        (("100.00", "0"), "SETTLED", "SUCCEEDED"),
        (("1.00", "0"), "REJECTED", "FAILED"),
        (("100.00", "1000000.00"), "COMPENSATED", "FAILED"),
    ],
    ids=["settled", "rejected", "compensated"],
)
@pytest.mark.parametrize("first", ["the wait", "the outcome"])
def test_a_parent_execution_gets_the_outcome_by_event(
    embedded: Embedded, parent: Parent, deposits: tuple[str, str], status: str, end: str, first: str
) -> None:
    payer, payee = (new_account(embedded, "someone", deposit) for deposit in deposits)
    request = new_request(embedded, payer=payer, payee=payee)
    if first == "the outcome":
        embedded.run("SettlementStandardArn", request)
        embedded.wait_for(lambda: parent.has_outcome(request["key"]))

    waiting = parent.start(request)
    ended = embedded.ended(waiting)

    assert ended["status"] == end, ended
    assert ended.get("cause", "SETTLED") == status
    assert not embedded.has_entered(waiting, "AskByKey")


def test_a_parent_execution_without_an_event_asks_by_key(embedded: Embedded, parent: Parent) -> None:
    request = new_request(embedded)

    with embedded.without_grants("PublishEvents", "events:PutEvents"):
        waiting = parent.start(request, parent.impatient)
        ended = embedded.ended(waiting)

    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"])["status"] == "SETTLED"
    assert embedded.has_entered(waiting, "AskByKey")
    assert paid_once(embedded, request)
