"""Tests the example checks, called as a stage calls them."""

import json
import runpy
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from settlement.checks.check import Approve, Check, Payment, Refuse, Reply, Wait

EXAMPLES = Path(__file__).parents[3] / "examples/checks"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def example(name: str) -> Check:
    check: Check = runpy.run_path(str(EXAMPLES / f"{name}.py"))["CHECK"]
    return check


def payment(key: str = "order-1", amount: int = 60_000, **more: Any) -> Payment:
    return Payment(key=key, payer="alice", payee="bob", amount=amount, currency="EUR", fee=0, **more)


@pytest.fixture
def limits() -> Iterator[Callable[..., Any]]:
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="limits",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        check = example("limits")

        def ask(key: str, amount: int = 60_000, days: int = 0) -> Any:
            tools: Any = SimpleNamespace(now=lambda: NOON + timedelta(days=days))
            return check.ask(payment(key, amount), f"{key}:check:limits", tools)

        yield ask


def test_the_daily_limit_example_refuses_payments_above_the_limit(limits: Callable[..., Any]) -> None:
    assert limits("order-1") == Approve()
    assert limits("order-2") == Refuse("above_limit")
    assert limits("order-3", 40_000) == Approve()
    assert limits("order-4", 1) == Refuse("above_limit")
    assert limits("order-5", 100_000, days=1) == Approve()
    assert limits("order-6", 100_001, days=2) == Refuse("above_limit")


def test_a_repeated_token_counts_once_and_gets_the_same_answer(limits: Callable[..., Any]) -> None:
    assert [limits("order-1") for _ in range(3)] == [Approve()] * 3
    assert limits("order-2") == limits("order-2", days=1) == Refuse("above_limit")
    assert limits("order-3", 40_000) == Approve()


def test_a_listed_party_is_refused_by_id_or_name() -> None:
    check, tools = example("sanctions"), SimpleNamespace()

    assert check.ask(payment(), "t", tools) == Approve({"list": "2026-11-01"})
    for more in ({"payer_name": " Mallory"}, {"payee_name": "EVE"}):
        assert isinstance(check.ask(payment(**more), "t", tools), Refuse)  # type: ignore[arg-type]


def test_the_delivery_example_waits() -> None:
    assert example("delivered").ask(payment(), "t", SimpleNamespace()) == Wait()


def screened(status: int = 200, **parties: Any) -> Any:
    """Return the screening example's decision on Alice and Mallory, after a canned answer of its service."""
    check = example("opensanctions")
    body = json.dumps({"responses": {party: {"results": found} for party, found in parties.items()}})
    tools: Any = SimpleNamespace(secret=lambda name: "k", http=lambda *_, **__: Reply(status, body.encode()))
    return check.ask(payment(payer_name="Alice", payee_name="Mallory"), "t", tools)


def test_the_screening_example_waits_for_a_person_on_a_match() -> None:
    unsure: dict[str, Any] = {"id": "Q1", "match": None}

    assert screened(payer=[], payee=[{"match": False}]) == Approve({"matches": 0})
    assert screened(payer=[], payee=[{"match": True}]) == screened(payer=[unsure], payee=[]) == Wait()


def test_an_example_whose_service_fails_raises_an_error() -> None:
    answers: list[dict[str, Any]] = [
        {"status": 500, "payer": [], "payee": []},
        {"payer": []},
        {"payer": [], "payee": [{}]},
    ]
    for answer in answers:
        with pytest.raises((OSError, KeyError)):
            screened(**answer)


def test_the_screening_example_refuses_a_payment_without_names() -> None:
    assert example("opensanctions").ask(payment(), "t", SimpleNamespace()) == Refuse("no_name")
