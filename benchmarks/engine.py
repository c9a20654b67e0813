"""The engines that the rivals work on: one DynamoDB server with a table each, and one PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager

import boto3

from benchmarks.rivals import Place
from tests.world import engines, environment, templates
from tests.world import postgresql as pg

assert environment  # it sets the credentials that every process shares

DYNAMODB = "dynoxide" if engines.missing("dynoxide") is None else "dynamodb-local"
_PLAIN_TABLE = {
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@contextmanager
def dynamodb() -> Iterator[str]:
    """Start the DynamoDB server, and yield its address."""
    with engines.server(DYNAMODB) as url:
        yield url


def table(url: str, name: str, *, is_ours: bool) -> Place:
    """Create a table: the stack's own, or one without an index."""
    definition = templates.table_definition() if is_ours else _PLAIN_TABLE
    boto3.client("dynamodb", endpoint_url=url).create_table(TableName=name, **definition)
    return Place(url, name)


@contextmanager
def postgresql() -> Iterator[Place]:
    """Start the PostgreSQL server, and yield its place."""
    with pg.server() as url:
        yield Place(url, "postgres")
