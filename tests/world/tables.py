"""A fresh table on a DynamoDB server, from the synthesised template."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3

from tests.world import templates
from tests.world.ledger import Ledger, over

_SESSION = boto3.Session()
"""Shared, because loading its endpoint data costs more than most tests."""


@contextmanager
def on_server(endpoint_url: str) -> Iterator[Ledger]:
    client = _client(endpoint_url)
    name = _create_table(client)
    yield over(client, name)
    client.delete_table(TableName=name)


def _create_table(client: Any) -> str:
    name = f"t-{uuid.uuid4().hex}"
    client.create_table(TableName=name, **templates.table_definition())
    return name


_clients: dict[str, Any] = {}


def _client(endpoint_url: str) -> Any:
    """Share one client per server, because making one costs more than a test."""
    if endpoint_url not in _clients:
        _clients[endpoint_url] = _SESSION.client("dynamodb", endpoint_url=endpoint_url)
    return _clients[endpoint_url]
