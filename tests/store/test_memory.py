"""The in-memory model answers random writes, with all or some conditions, like each DynamoDB server.

The quick suite uses Dynoxide, the long one DynamoDB Local. `MEMORY_OPERATIONS` and `MEMORY_SEED` set number
and seed; a failure prints both and its cause.
"""

import os
import uuid
from collections.abc import Mapping
from itertools import islice
from random import SystemRandom
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.store.operations import Operation, Operations
from tests.world import engines, templates
from tests.world.memory_dynamodb import MemoryDynamoDb

SERVERS = [
    pytest.param("dynoxide", 1_000, id="dynoxide"),
    pytest.param("dynamodb-local", 5_000, id="dynamodb-local", marks=pytest.mark.long),
]
SEED = int(os.environ.get("MEMORY_SEED", "0")) or SystemRandom().randrange(1, 10**9)
TABLE_COMPARED_EVERY = 250
INVALID = ["invalid"]

NOT_COMPARED = ("ConsumedCapacity", "ResponseMetadata", "Message", "message", "Count", "ScannedCount")
"""Parts of an answer that the model does not promise: message texts, cost (see `test_cost.py`), redundant
counts.

Not compared either (AWS's behaviour: docs/decisions/2026-11-22-test-engines.md):

- the order of rows with equal sort keys in a query: DynamoDB promises none;
- the report of an update that its row makes invalid: in a transaction, the model and AWS give the reason at
  its position; DynamoDB Local refuses the whole request. The store treats neither as a refusal;
- a transaction with two writes of one row: the model and AWS refuse it; DynamoDB Local only if all
  conditions hold;
- requests that we never send, such as invalid ones, some of which Dynoxide carries out.
"""


@pytest.mark.parametrize(("name", "operations"), SERVERS)
def test_the_in_memory_table_answers_like_a_dynamodb_server(name: str, operations: int) -> None:
    if reason := engines.missing(name):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs a DynamoDB server: {reason}")
    memory, table_name = MemoryDynamoDb(), f"t-{uuid.uuid4().hex}"
    operations = int(os.environ.get("MEMORY_OPERATIONS", operations))
    with engines.server(name) as endpoint_url:
        server = boto3.client("dynamodb", endpoint_url=endpoint_url)
        server.create_table(TableName=table_name, **templates.table_definition())
        for number, operation in enumerate(islice(Operations(SEED), operations)):
            before = dict(memory.items)
            in_memory = answers(memory, table_name, operation)
            assert in_memory == answers(server, table_name, operation), reproduction(
                number, operation, before
            )
            if number % TABLE_COMPARED_EVERY == 0 or number == operations - 1:
                assert table(memory, table_name) == table(server, table_name), f"seed {SEED}"


def answers(client: Any, table_name: str, operation: Operation) -> list[Any]:
    parameters = dict(operation.parameters)
    if operation.name == "transact_write_items":
        parameters["TransactItems"] = [
            {action: write | {"TableName": table_name} for action, write in item.items()}
            for item in parameters["TransactItems"]
        ]
    else:
        parameters["TableName"] = table_name
    found: list[Any] = []
    while True:
        try:
            answer = getattr(client, operation.name)(**parameters)
        except ClientError as error:
            answer = error.response
            if _is_invalid(answer):
                return INVALID
        found.append(comparable(answer))
        if "LastEvaluatedKey" not in answer:
            return _apart_from_ties(found) if operation.name == "query" else found
        parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def comparable(answer: Any) -> Any:
    """Return an answer without NOT_COMPARED, its sets sorted."""
    if isinstance(answer, list):
        return [comparable(part) for part in answer]
    if isinstance(answer, Mapping):
        return {
            name: sorted(part) if name in ("SS", "NS") and isinstance(part, list) else comparable(part)
            for name, part in answer.items()
            if name not in NOT_COMPARED
        }
    return answer


def _is_invalid(response: Mapping[str, Any]) -> bool:
    reasons = [reason["Code"] for reason in response.get("CancellationReasons", ())]
    return response["Error"]["Code"] == "ValidationException" or "ValidationError" in reasons


def _apart_from_ties(pages: list[Any]) -> list[Any]:
    """Return the pages of a query; if sort keys tie, only their lengths and all sorted rows."""
    listed = [item for page in pages for item in page.get("Items", ())]
    if len({item["gsi1sk"]["S"] for item in listed}) == len(listed):
        return pages
    return [
        [len(page["Items"]) for page in pages],
        sorted(listed, key=lambda item: (item["gsi1sk"]["S"], item["pk"]["S"], item["sk"]["S"])),
    ]


def table(client: Any, table_name: str) -> dict[tuple[str, str], Any]:
    pages = client.get_paginator("scan").paginate(TableName=table_name, ConsistentRead=True)
    return {(item["pk"]["S"], item["sk"]["S"]): comparable(item) for page in pages for item in page["Items"]}


def reproduction(number: int, operation: Operation, before: Mapping[Any, Any]) -> str:
    return (
        f"MEMORY_SEED={SEED} MEMORY_OPERATIONS={number + 1}: {operation.name} {dict(operation.parameters)}"
        f" on the rows {before}"
    )
