"""A parent execution hears the outcome of its payment by its event: `examples/consumers/parent.asl.json`."""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.model.state import SettlementState
from settlement.policy import outcome
from tests.e2e.embedded import Embedded, new_account, new_key, new_request
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

EXAMPLES = PROJECT / "examples" / "consumers"
WANTED = {"source": ["settlement"], "detail": {"data": {"status": ["SETTLED", "REJECTED", "COMPENSATED"]}}}


@dataclass(frozen=True)
class Parent:
    """The example, deployed beside the app."""

    embedded: Embedded
    machine: str
    bus: str

    def start(self, payment: dict[str, Any]) -> str:
        started = self.embedded.step_functions.start_execution(
            stateMachineArn=self.machine, name=new_key("parent"), input=json.dumps({"payment": payment})
        )
        return str(started["executionArn"])

    def publish(self, key: str) -> None:
        """Put the event of a settlement as it is now on the bus."""
        state = SettlementState.from_row(self.embedded.settlement(key))
        data = outcome.of_state(state, self.embedded.stack.config, replayed=False)
        detail = {"subject": key, "sequence": str(state.sequence), "data": data}
        entry = {
            "Source": "settlement",
            "DetailType": "settlement.snapshot",
            "Detail": json.dumps(detail),
            "EventBusName": self.bus,
        }
        answer = self.embedded.stack.client("events").put_events(Entries=[entry])
        assert answer["FailedEntryCount"] == 0

    def status(self, key: str) -> str:
        row = self.embedded.stack.store.read(keys.settlement(key))
        return str(row["status"]) if row else ""


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
    text = {"AttributeType": "S"}
    stack.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": "pk", **text}, {"AttributeName": "sk", **text}],
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
    events = stack.client("events")
    events.create_event_bus(Name=name)
    events.put_rule(Name=name, EventBusName=name, EventPattern=json.dumps(WANTED))
    events.put_targets(Rule=name, EventBusName=name, Targets=[{"Id": "parent", "Arn": function}])
    definition = (EXAMPLES / "parent.asl.json").read_text()
    for placeholder, value in {
        "${StartQueueUrl}": stack.outputs["StartQueueUrl"],
        "${WakeParentArn}": function,
        "${SettlementStandardArn}": stack.outputs["SettlementStandardArn"],
    }.items():
        definition = definition.replace(placeholder, value)
    machine = embedded.step_functions.create_state_machine(
        name=name,
        definition=definition,
        roleArn=role(
            embedded,
            "states.amazonaws.com",
            *("sqs:SendMessage", "lambda:InvokeFunction", "states:StartExecution"),
            *("states:DescribeExecution", "states:StopExecution"),
        ),
    )["stateMachineArn"]
    return Parent(embedded, machine, name)


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
def test_a_parent_hears_the_outcome(
    embedded: Embedded, parent: Parent, deposits: tuple[str, str], status: str, end: str, first: str
) -> None:
    payer, payee = (new_account(embedded, "someone", deposit) for deposit in deposits)
    request = new_request(embedded, payer=payer, payee=payee)
    if first == "the outcome":
        embedded.ended(embedded.run("SettlementStandardArn", request))
        parent.publish(request["key"])

    waiting = parent.start(request)
    if first == "the wait":
        embedded.wait_for(lambda: parent.status(request["key"]) == status)
        embedded.wait_for(lambda: embedded.has_entered(waiting, "AwaitOutcome"))
        for _ in range(2):
            parent.publish(request["key"])
    ended = embedded.ended(waiting)

    assert ended["status"] == end, ended
    assert ended.get("cause", "SETTLED") == status
    assert not embedded.has_entered(waiting, "AskByKey")
