import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from infra.assets import LAMBDAS
from infra.functions import handler_of
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from tests.infra.evaluator import ENCLOSING, LEADING, Request, allows, applies, listed, policy, requests
from tests.infra.observed import Call, observed
from tests.infra.stack import FUNCTIONS, ON_AWS, each_stage_on_aws, executions, properties, variables

TABLE, KEY, INDEX = "${LedgerTable.Arn}", "${LedgerKey.Arn}", "${LedgerTable.Arn}/index/gsi1"
HELPERS = {
    path.stem: f"handlers.{path.parent.name}.{path.stem}" for path in LAMBDAS.glob("handlers/*/_[a-z]*.py")
}

READ: dict[str, Row] = {
    "settlement": keys.settlement("k"),
    "listed_settlement": keys.settlement("k"),
    "account": keys.account("alice"),
    "evidence": keys.evidence("k", "verify"),
    "waiting": keys.waiting("k"),
}
"""A row for each store method that reads one."""

THROUGH_DYNAMODB = {"kms:ViaService": ("dynamodb.${AWS::Region}.amazonaws.com",)}
OF_THE_KEY = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey*", "ReEncrypt*")
"""KMS actions of DynamoDB on the table's key, for a caller.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
"""

BUCKET_KEY = "${JournalKey.Arn}"
OF_THE_BUCKETS_KEY = {
    "SealJournal": ("kms:Decrypt", "kms:GenerateDataKey"),
    "ReadSettlements": ("kms:Decrypt",),
}
THROUGH_S3 = {"kms:ViaService": ("s3.${AWS::Region}.amazonaws.com",)}
TOPICS_KEY, OF_THE_TOPICS_KEY = "${PagerKey.Arn}", ("kms:Decrypt", "kms:GenerateDataKey")
THROUGH_SNS = {"kms:ViaService": ("sns.${AWS::Region}.amazonaws.com",)}
"""KMS use on a caller's behalf: S3 with the journal's key, SNS with the topics' key."""

SOURCES = {
    "sqs": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    "dynamodb": tuple(f"dynamodb:{name}" for name in ("DescribeStream", "GetRecords", "GetShardIterator")),
}
"""Actions by which Lambda reads a function's event sources.

From AWSLambdaSQSQueueExecutionRole and AWSLambdaDynamoDBExecutionRole.
"""

OPERATIONS = {
    "lambda:Invoke": "lambda:InvokeFunction",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
}
"""IAM actions whose name differs from their API operation's."""


def reads(function: str) -> Iterator[Row]:
    """Yield a row of each kind that a handler's source reads. Simulated lives read some too rarely."""
    source = inspect.getsource(import_module(handler_of(function).removesuffix(".handler")))
    helpers = sorted(set(re.findall(r"\b(_[a-z_]+)\.", source)) & HELPERS.keys())
    for one in (source, *(inspect.getsource(import_module(HELPERS[helper])) for helper in helpers)):
        yield from (READ[name] for name in re.findall(r"\bstore\.(\w+)\(", one) if name in READ)


@cache
def of_the_table(function: str) -> tuple[Request, ...]:
    found = [Request("dynamodb:GetItem", TABLE, {LEADING: (row["pk"],)}) for row in reads(function)]
    for call in observed():
        if call.function == function and call.service == "dynamodb":
            table = INDEX if "IndexName" in call.parameters else TABLE
            found += requests(table, call.operation, call.parameters)
    kinds = {(one.action, one.resource, str(one.context)): one for one in found}
    return tuple(kinds.values())


@cache
def of_services(stage: str, function: str) -> frozenset[tuple[str, str]]:
    return frozenset(
        (_action(call), _resource(stage, call))
        for call in observed()
        if call.function == function and call.service != "dynamodb" and not _is_off(stage, call)
    )


def listings(function: str, action: str) -> list[dict[str, tuple[str, ...]]]:
    """Return an S3 action's condition values: one map for each listed prefix, else an empty one."""
    prefixes = {
        call.parameters["Prefix"]
        for call in observed()
        if call.function == function and "Prefix" in call.parameters and _action(call) == action
    }
    return [{"s3:prefix": (one,)} for one in sorted(prefixes)] or [{}]


@cache
def of_constructs(stage: str, function: str) -> set[tuple[str, str]]:
    """Return Lambda's actions for the function: logs, traces, event source."""
    own = properties(stage, "Lambda::Function")[function]
    group = own["LoggingConfig"]["LogGroup"].strip("${}")
    needed = {(f"logs:{name}", f"${{{group}.Arn}}") for name in ("CreateLogStream", "PutLogEvents")}
    if own.get("TracingConfig") == {"Mode": "Active"}:
        needed |= {(f"xray:{name}", "*") for name in ("PutTelemetryRecords", "PutTraceSegments")}
    for source in properties(stage, "Lambda::EventSourceMapping").values():
        if source["FunctionName"] == f"${{{function}}}":
            arn = source["EventSourceArn"]
            service = "dynamodb" if arn.endswith("StreamArn}") else "sqs"
            needed |= {(action, arn) for action in SOURCES[service]}
            needed |= {("dynamodb:ListStreams", "*")} if service == "dynamodb" else set()
            if to := source.get("DestinationConfig"):
                needed.add(("sqs:SendMessage", to["OnFailure"]["Destination"]))
    for config in properties(stage, "Lambda::EventInvokeConfig").values():
        if config["FunctionName"] == f"${{{function}}}" and (to := config.get("DestinationConfig")):
            needed.add(("sqs:SendMessage", to["OnFailure"]["Destination"]))
    return needed


def _is_off(stage: str, call: Call) -> bool:
    return call.variable == "FOLLOW_PAYOUTS" and call.variable not in variables(stage, call.function)


def _action(call: Call) -> str:
    action = f"{call.service}:{call.operation}"
    if action == "s3:GetObject" and "VersionId" in call.parameters:
        return "s3:GetObjectVersion"
    return OPERATIONS.get(action, action)


def _resource(stage: str, call: Call) -> str:
    """Return a call's resource, which the template passes in a variable."""
    if call.operation == "SendTaskSuccess":  # by a token, which names no resource
        return "*"
    named: str = variables(stage, call.function)[call.variable]
    if call.service == "secretsmanager" and named.startswith("{"):
        named = json.loads(named)["secret_id"]
    if call.operation == "DescribeExecution":
        return executions(named.strip("${}"))
    if call.service == "s3":
        folder = str(call.parameters.get("Key", "")).partition("/")[0]
        return f"{named[:-1]}.Arn}}" + (f"/{folder}/*" if folder else "")
    if call.service in ("sqs", "events"):  # they are called by an address or a name
        return f"{named[:-1]}.Arn}}"
    return named


def grants(statements: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a policy's grants: one action on one resource, or on rows of one pattern."""
    for statement in statements:
        if statement["Effect"] != "Allow":
            continue
        condition: Mapping[str, Any] = statement.get("Condition", {})
        patterns = condition.get("ForAllValues:StringLike", {}).get(LEADING)
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                piece = {**statement, "Action": action, "Resource": resource}
                for pattern in listed(patterns) if patterns else ():
                    rows = {"ForAnyValue:StringLike": {LEADING: pattern}}
                    enclosed = {
                        key: value for key, value in condition.items() if key.startswith("ForAnyValue")
                    }
                    yield {**piece, "Condition": {**rows, **enclosed}}
                if not patterns:
                    yield piece


def uses_the_key(stage: str, function: str) -> bool:
    stream = ("dynamodb:GetRecords", "${LedgerTable.StreamArn}")
    return bool(of_the_table(function)) or stream in of_constructs(stage, function)


def is_needed(stage: str, function: str, piece: Mapping[str, Any]) -> bool:
    """Return whether the function needs a grant.

    A grant that is not limited to transactions must be used outside one.
    """
    if piece["Resource"] in (TABLE, INDEX):
        enclosed = ENCLOSING in str(piece.get("Condition"))
        return any(
            applies(piece, one) for one in of_the_table(function) if (ENCLOSING in one.context) == enclosed
        )
    if piece["Resource"] == KEY:
        action = piece["Action"].removeprefix("kms:")
        return action in OF_THE_KEY and uses_the_key(stage, function)
    if piece["Resource"] == TOPICS_KEY:
        return function == "SendPage" and piece["Action"] in OF_THE_TOPICS_KEY
    if piece["Resource"] == BUCKET_KEY:
        return piece["Action"] in OF_THE_BUCKETS_KEY.get(function, ())
    used = of_services(stage, function) | of_constructs(stage, function)
    return (piece["Action"], piece["Resource"]) in used


@each_stage_on_aws
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_allows_only_what_its_function_needs(stage: str, function: str) -> None:
    """On failure, remove the grant, or let the simulator or a scene run a new function."""
    needless = [
        (piece["Action"], piece["Resource"], piece.get("Condition"))
        for piece in grants(policy(stage, function))
        if not is_needed(stage, function, piece)
    ]

    assert needless == []


@each_stage_on_aws
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_role_allows_all_that_its_function_does(stage: str, function: str) -> None:
    own = policy(stage, function)
    needed = [
        *of_the_table(function),
        *(
            Request(*one, passed)
            for one in of_services(stage, function) | of_constructs(stage, function)
            for passed in listings(function, one[0])
        ),
        *(
            Request(f"kms:{name}", KEY, THROUGH_DYNAMODB)
            for name in OF_THE_KEY
            if uses_the_key(stage, function)
        ),
        *(Request(one, TOPICS_KEY, THROUGH_SNS) for one in OF_THE_TOPICS_KEY if function == "SendPage"),
        *(Request(one, BUCKET_KEY, THROUGH_S3) for one in OF_THE_BUCKETS_KEY.get(function, ())),
    ]

    assert [one for one in needed if not allows(own, one)] == []


def test_the_test_observes_every_function_using_a_service() -> None:
    assert {call.function for call in observed()} >= FUNCTIONS.keys()
    assert ON_AWS
