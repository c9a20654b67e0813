import json
from collections.abc import Iterator

import pytest

from tests.e2e.embedded import Embedded, new_request
from tests.e2e.test_iam import outcome_of
from tests.e2e.upstream import WAYS, Upstream, service, settled

pytestmark = pytest.mark.long

MAY = {
    "Express": {"start_sync_execution SettlementExpressArn"},
    "Standard": {"start_execution SettlementStandardArn", "describe_execution SettlementStandardArn"},
    "The queue": {"send_message StartQueueUrl"},
}
MACHINES = ("SettlementExpressArn", "SettlementStandardArn", "CompensationArn")


def attempts(embedded: Embedded, upstream: Upstream, body: str) -> Iterator[tuple[str, str]]:
    outputs, states, sqs = embedded.stack.outputs, upstream.client("stepfunctions"), upstream.client("sqs")
    for output in MACHINES:
        arn = outputs[output]
        execution = f"{arn.replace(':stateMachine:', ':execution:')}:no-such-execution"
        for action in ("start_execution", "start_sync_execution"):
            yield f"{action} {output}", outcome_of(getattr(states, action), stateMachineArn=arn, input="{}")
        for action in ("describe_execution", "get_execution_history", "stop_execution", "redrive_execution"):
            yield f"{action} {output}", outcome_of(getattr(states, action), executionArn=execution)
        for action in ("list_executions", "describe_state_machine"):
            yield f"{action} {output}", outcome_of(getattr(states, action), stateMachineArn=arn)
    for output in ("StartQueueUrl", "StartDeadLetterQueueUrl"):
        url = outputs[output]
        yield f"send_message {output}", outcome_of(sqs.send_message, QueueUrl=url, MessageBody=body)
        for action in ("receive_message", "purge_queue", "get_queue_attributes"):
            yield f"{action} {output}", outcome_of(getattr(sqs, action), QueueUrl=url)
    table, key = outputs["TableName"], {"pk": {"S": "ACCOUNT#eve"}, "sk": {"S": "BALANCE"}}
    dynamodb = upstream.client("dynamodb")
    yield "get_item", outcome_of(dynamodb.get_item, TableName=table, Key=key)
    yield "put_item", outcome_of(dynamodb.put_item, TableName=table, Item=key)
    yield "scan", outcome_of(dynamodb.scan, TableName=table)
    for name, function in embedded.functions.items():
        yield f"invoke {name}", outcome_of(upstream.client("lambda").invoke, FunctionName=function)
    for output in ("KycCredentialsArn", "KycSigningArn"):
        read = upstream.client("secretsmanager").get_secret_value
        yield f"get_secret_value {output}", outcome_of(read, SecretId=outputs[output])
    entry = {"Source": "settlement", "DetailType": "LimboResolved", "Detail": "{}"}
    entries = [entry | {"EventBusName": outputs["EventBusName"]}]
    yield "put_events", outcome_of(upstream.client("events").put_events, Entries=entries)
    topic = outputs["PagerTopicArn"]
    yield "publish", outcome_of(upstream.client("sns").publish, TopicArn=topic, Message="nothing")


@pytest.mark.parametrize("way", WAYS)
def test_each_starting_policy_allows_only_its_own_way_of_starting(embedded: Embedded, way: str) -> None:
    request = new_request(embedded)

    with service(embedded, way) as upstream:
        found = dict(attempts(embedded, upstream, json.dumps(request)))
    if way == "The queue":
        embedded.wait_for(settled(embedded, request))

    denied = {what for what, how in found.items() if "AccessDenied" in how or "AuthorizationError" in how}
    assert found.keys() - denied == MAY[way]
    assert len(denied) > 40
    assert embedded.available(request["payer"]) == ("51.80" if way == "The queue" else "100.00")
