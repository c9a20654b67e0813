"""Fixtures for all tests. Tests that need DynamoDB run on moto and on AWS's DynamoDB Local."""

from tests.support.environment import NOW  # isort: split

import gc
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto import mock_aws

from settlement.adapters.dynamodb import Store, from_wire
from settlement.ledger import keys
from settlement.ledger.transaction import Write
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.support import dynamodb_local, moto_dynamodb, templates
from tests.support.memory_dynamodb import MemoryDynamoDb

__all__ = ["NOW", "Ledger", "make_ledger"]

moto_dynamodb.lighten()

_SESSION = boto3.Session()
"""One for all clients: a session reads its endpoint data once, which costs more than most tests."""


def pytest_collection_finish() -> None:
    """Freeze the imported objects, which the garbage collector would otherwise visit in every test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@dataclass(frozen=True)
class Ledger:
    """A fresh table on one of the engines, and its store."""

    client: Any
    table_name: str
    store: Store

    def open(self, account: str, available: int, currency: str = "EUR", **extra: Any) -> None:
        """Put an account's row, with extra attributes such as `limbo_keys`."""
        row = {**keys.account(account), "available": available, "currency": currency, **extra}
        self.put(row)

    def put(self, row: keys.Row) -> None:
        """Put any row as it is, past every condition."""
        serialized = Write("Put", {"Item": row}, lambda _: AssertionError())  # type: ignore[arg-type,return-value]
        self.client.put_item(TableName=self.table_name, Item=self.store._parameters(serialized)["Item"])

    def row(self, key: keys.Row) -> keys.Row | None:
        """Return one raw row; None if there is none."""
        return self.store.read(key)

    def rows(self) -> list[keys.Row]:
        """Return all raw rows, in a stable order."""
        pages = self.client.get_paginator("scan").paginate(TableName=self.table_name, ConsistentRead=True)
        found = [from_wire(item) for page in pages for item in page["Items"]]
        return sorted(found, key=lambda row: (row["pk"], row["sk"]))


@pytest.fixture(scope="session")
def dynamodb_local_url() -> Iterator[str]:
    if reason := dynamodb_local.missing():
        if os.environ.get("CI"):
            pytest.fail(f"CI must run DynamoDB Local, but {reason}")
        pytest.skip(f"not run on DynamoDB Local: {reason}")
    with dynamodb_local.server() as endpoint_url:
        yield endpoint_url


@pytest.fixture(scope="session")
def dynamodb_local_client(dynamodb_local_url: str) -> Any:
    return _SESSION.client("dynamodb", endpoint_url=dynamodb_local_url)


@pytest.fixture(params=["moto", "dynamodb-local"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """A fresh table, made from the synthesised template."""
    yield from make_ledger(request)


def make_ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Make a fresh table on the engine that the fixture is parametrized with.

    The engine in memory is the model of the simulations: enough for tests that are not about DynamoDB.
    """
    table_name = f"t-{uuid.uuid4().hex}"
    if request.param == "memory":
        client: Any = MemoryDynamoDb()
        yield Ledger(client, table_name, Store(client, table_name, pause=lambda failed_tries: None))
    elif request.param == "moto":
        with mock_aws():
            yield _ledger(_SESSION.client("dynamodb"), table_name)
    else:
        client = request.getfixturevalue("dynamodb_local_client")
        yield _ledger(client, table_name)
        client.delete_table(TableName=table_name)


@pytest.fixture(scope="session")
def config() -> StageConfig:
    return StageConfig.from_json(os.environ["STAGE_CONFIG"])


@pytest.fixture
def settlement() -> Settlement:
    """Alice pays Bob 48.20 EUR, of which 0.48 EUR are the fee."""
    return Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
    )


def _ledger(client: Any, table_name: str) -> Ledger:
    client.create_table(TableName=table_name, **templates.table_definition())
    return Ledger(client, table_name, Store(client, table_name, pause=lambda failed_tries: None))
