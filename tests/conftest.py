"""Fixtures for all tests. Tests that need DynamoDB run on moto and on AWS's DynamoDB Local."""

import gc
import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# Before anything of ours is imported: the functions read their configuration at import, as on Lambda.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_LAMBDA_FUNCTION_NAME": "under-test",
    "POWERTOOLS_LOG_LEVEL": "INFO",
    "POWERTOOLS_METRICS_DISABLED": "false",  # the command would switch them off for the whole process
    "POWERTOOLS_TRACE_DISABLED": "true",
    "TABLE_NAME": "replaced-by-the-store-fixture",
    "PAGING": (
        '{"runbook":"docs/runbooks/limbo.md","show_command":"settle limbo show {key}",'
        '"again_after_seconds":1800}'
    ),
    "EVENT_BUS": "settlement-under-test",
    "KYC_SIGNING_SECRET": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:signing-AbCdEf",
    "SETTLEMENT_MACHINE": "arn:aws:states:eu-west-1:123456789012:stateMachine:SettlementStandard",
    "COMPENSATION_MACHINE": "arn:aws:states:eu-west-1:123456789012:stateMachine:Compensation",
    "KYC": (
        '{"endpoint":{"url":"https://kyc.invalid","provider":"verifications","dataset":"default",'
        '"connect_timeout_seconds":1,"read_timeout_seconds":3},'
        '"breaker":{"failures":5,"within_seconds":60,"recovery_seconds":30},"review_seconds":86400,'
        '"secret_id":"arn:aws:secretsmanager:eu-west-1:123456789012:secret:credentials-AbCdEf",'
        '"runbook":"docs/runbooks/kyc-outage.md"}'
    ),
    "TERMS": (
        '{"currencies":{"EUR":2,"JPY":0,"KWD":3,"USD":2},"highest_balances":{"EUR":100000000},'
        '"fee_basis_points":100,"deadline_seconds":900,"recover_after_seconds":30}'
    ),
}
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # our Node
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)

import boto3  # noqa: E402
import pytest  # noqa: E402
from moto import mock_aws  # noqa: E402

from settlement import rows  # noqa: E402
from settlement.request import Settlement  # noqa: E402
from settlement.store import Store, from_wire  # noqa: E402
from settlement.terms import Terms  # noqa: E402
from settlement.writes import Write  # noqa: E402
from tests.support import dynamodb_local, moto_dynamodb, templates  # noqa: E402

NOW = datetime(2026, 11, 20, 12, 0, 0, 123000, tzinfo=UTC)
"""The instant at which tests happen, unless they say otherwise."""

moto_dynamodb.lighten()

_SESSION = boto3.Session()
"""One for all clients: a session reads its endpoint data once, which costs more than most tests."""


def pytest_collection_finish() -> None:
    """Take what was imported out of the garbage collector's sight; it went over it again in every test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@dataclass(frozen=True)
class Ledger:
    """A fresh table on one of the two engines, with what tests do to it."""

    client: Any
    table_name: str
    store: Store

    def open(self, account: str, available: int, currency: str = "EUR", **extra: Any) -> None:
        """Put an account's row, with extra attributes such as `limbo_keys`."""
        row = {**rows.account_key(account), "available": available, "currency": currency, **extra}
        self.put(row)

    def put(self, row: rows.Row) -> None:
        """Put any row as it is, past every condition."""
        serialized = Write("Put", {"Item": row}, lambda _: AssertionError())  # type: ignore[arg-type,return-value]
        self.client.put_item(TableName=self.table_name, Item=self.store._parameters(serialized)["Item"])

    def row(self, key: rows.Row) -> rows.Row | None:
        return self.store.read(key)

    def rows(self) -> list[rows.Row]:
        """All rows there are, in a stable order."""
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
    table_name = f"t-{uuid.uuid4().hex}"
    if request.param == "moto":
        with mock_aws():
            yield _ledger(_SESSION.client("dynamodb"), table_name)
    else:
        client = request.getfixturevalue("dynamodb_local_client")
        yield _ledger(client, table_name)
        client.delete_table(TableName=table_name)


@pytest.fixture(scope="session")
def terms() -> Terms:
    return Terms.from_json(os.environ["TERMS"])


@pytest.fixture
def settlement() -> Settlement:
    """Alice pays Bob 48.20 EUR, of which 0.48 EUR are the fee."""
    return Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
    )


def _ledger(client: Any, table_name: str) -> Ledger:
    client.create_table(TableName=table_name, **templates.table_definition())
    return Ledger(client, table_name, Store(client, table_name, pause=lambda failed_tries: None))
