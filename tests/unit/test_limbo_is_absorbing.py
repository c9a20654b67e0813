"""Only a person's resolution changes a row in LIMBO.

Each other write is tried on all rows in LIMBO. Without the fragment that keeps it out, it must commit there,
or the proof would prove nothing. `RULES` in test_writes.py says when a resolution commits.
"""

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from settlement.core.ledger import limbo
from settlement.core.ledger.conditions import ABSENT, LISTED_IN_FLIGHT
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.status import Status
from settlement.core.policy import compensation
from settlement.http.caller import Caller
from settlement.orders.requests import parse_reversal
from tests.unit import vectors
from tests.unit.conditions import applied, asked, clauses, status_set_by, without
from tests.unit.every_row import rows_met_by
from tests.world.environment import NOW
from tests.world.rooms import there

PROJECT = Path(__file__).parents[2]
WRITES = vectors.settlement_writes()

ALERTED_AGAIN = "recovery.take_over.limbo"
RESOLVING = {name for name in WRITES if name.startswith("limbo.leave.")}
KEPT_OUT = WRITES.keys() - RESOLVING - {ALERTED_AGAIN}


def touched(write: Write) -> list[Row]:
    """Return the rows in LIMBO on which the write commits."""
    met = [row for row in rows_met_by(write) if row["status"] == Status.LIMBO]
    assert met
    return list(filter(asked(write), met))


def fence_of(write: Write) -> str:
    """Return the fragment that keeps the write out of LIMBO: the condition on the status.

    A put's fence is the row's absence. A write that only moves a row within the index compares the partition,
    because it must also move a row without a status.
    """
    fences = (ABSENT.expression, LISTED_IN_FLIGHT.expression)
    (fence,) = (each for each in clauses(write) if each in fences or each.startswith("#status "))
    return fence


@pytest.mark.parametrize("name", sorted(KEPT_OUT))
def test_only_a_resolution_can_change_a_settlement_in_limbo(name: str) -> None:
    assert not touched(WRITES[name])


@pytest.mark.parametrize("name", sorted(KEPT_OUT))
def test_without_its_fence_a_write_would_change_rows_in_limbo(name: str) -> None:
    mutant = without(WRITES[name], fence_of(WRITES[name]))

    rows = touched(mutant)
    leaves = any(applied(mutant, row)["status"] != Status.LIMBO for row in rows)
    assert rows
    assert leaves == (status_set_by(mutant) not in (None, Status.LIMBO))


OF_NO_SETTLEMENT = {
    *("balances", "entries", "sweep", "account_orders", "administration", "proposals", "partial_reversal"),
    *("booking", "record", "decision", "destination", "lines", "writes"),
}
"""Modules that write no settlement row, or only through another module's builder."""


def test_the_tests_cover_every_kind_of_write() -> None:
    modules = {module.__name__.rpartition(".")[2] for module in vectors.BUILDERS | vectors.POSTERS}

    assert {name.split(".")[0] for name in KEPT_OUT} == modules - OF_NO_SETTLEMENT
    assert {vector.name for vector in vectors.LIMBO if vector.builder is limbo.leave} == RESOLVING


# A person's order carries the status that its write compares


@pytest.mark.parametrize("expected", Status)
def test_no_order_reverses_a_settlement_in_limbo(expected: Status) -> None:
    """The order names the status that its condition expects, so only two statuses are accepted."""
    caller = Caller(by=vectors.ORDER.by, user_id="AIDA", request_id="r", source_ip="192.0.2.7")
    order = {"key": vectors.SETTLEMENT.key, "reason": vectors.ORDER.reason, "expected_status": expected.value}

    if expected in (Status.SETTLED, Status.PROCESSING):
        _, parsed = parse_reversal(order, caller)
        assert parsed == replace(vectors.ORDER, expected_status=expected)
        write = compensation.reverse_on_order(vectors.SETTLEMENT, parsed, NOW, vectors.CONFIG).settlement
        assert not touched(write)
    else:
        with pytest.raises(InvalidRequest):
            parse_reversal(order, caller)
        with pytest.raises(InvalidRequest):
            replace(vectors.ORDER, expected_status=expected)


# No other code writes, but a circuit its own row (http/test_circuit_row.py)

_OF_PAYOUTS = ("decision", "destination", "follow", "lines", "reservation", "writes")
SETTLEMENT, HANDLERS = "lambdas/settlement", "lambdas/handlers"
STORE, CIRCUIT = f"{SETTLEMENT}/core/store/dynamodb.py", f"{SETTLEMENT}/http/shared_circuit.py"
TRANSACTION = f"{SETTLEMENT}/core/ledger/transaction.py"


def _sources() -> list[Path]:
    return [path for folder in ("lambdas", "settle") for path in sorted((PROJECT / folder).rglob("*.py"))]


@cache
def _words(path: Path) -> set[str]:
    words: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words.add(f"{node.name}")
        elif isinstance(node, ast.keyword) and node.arg:
            words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
    return words


@pytest.mark.parametrize(
    ("words", "homes"),
    [
        pytest.param(
            {"put_item", "update_item", "delete_item", "batch_write_item", "batch_writer"}
            | {"transact_write_items", "execute_transaction", "batch_execute_statement"},
            {STORE, CIRCUIT},
            id="DynamoDB's writes",
        ),
        pytest.param(
            {"execute_statement"},
            {*there("books", f"{SETTLEMENT}/books/data_api.py")},
            id="DynamoDB's write by a name that the RDS Data API has, too",
        ),
        pytest.param(
            {"Write"},
            {STORE, TRANSACTION, "settle/migrations/rows.py"}
            | {
                f"{SETTLEMENT}/core/ledger/{name}.py"
                for name in ("balances", "entries", "forward", "kyc_review")
            }
            | {f"{SETTLEMENT}/core/ledger/{name}.py" for name in ("limbo", "reversal", "takeover")}
            | {f"{SETTLEMENT}/core/policy/{name}.py" for name in ("compensation", "recovery", "steps")}
            | {f"{SETTLEMENT}/accounts/{name}.py" for name in ("account_orders", "administration")}
            | {f"{SETTLEMENT}/orders/{name}.py" for name in ("partial_reversal", "parts", "proposals")}
            | {
                *there("doors", f"{SETTLEMENT}/doors/cancellation.py"),
                *(f"{SETTLEMENT}/bank/{name}.py" for name in ("booking", "record", "recording")),
                f"{HANDLERS}/rooms.py",
                *there("payouts", *(f"{SETTLEMENT}/payouts/{name}.py" for name in _OF_PAYOUTS)),
                *(f"{SETTLEMENT}/payruns/{name}.py" for name in ("paying", "writes")),
                f"{HANDLERS}/payruns/_orders.py",
                *there("checks", f"{SETTLEMENT}/checks/waits.py"),
            }
            | {*there("merchants", f"{SETTLEMENT}/merchants/sweep.py")}
            | {f"{SETTLEMENT}/orders/{name}.py" for name in ("four_eyes", "orders")},
            id="the type of a write",
        ),
        pytest.param(
            {"begin_on_order"}, {f"{SETTLEMENT}/core/policy/compensation.py"}, id="the write of an order"
        ),
        pytest.param(
            {"Reversal"},
            {f"{SETTLEMENT}/core/policy/compensation.py"}
            | {f"{SETTLEMENT}/orders/{name}.py" for name in ("approval", "requests")}
            | {f"{SETTLEMENT}/orders/{name}.py" for name in ("four_eyes", "orders")},
            id="the type of an order",
        ),
        pytest.param(
            {"UpdateExpression", "ConditionExpression"}, {TRANSACTION, CIRCUIT}, id="the text of a write"
        ),
    ],
)
def test_only_the_listed_modules_mention_limbo(words: set[str], homes: set[str]) -> None:
    found = {path.relative_to(PROJECT).as_posix() for path in _sources() if _words(path) & words}

    assert found == homes
