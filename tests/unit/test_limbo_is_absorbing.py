"""No write anywhere leaves LIMBO, or so much as touches a row in it, but a person's resolution.

Every write of a settlement's row is asked about every row in LIMBO. Then the same is asked of a mutant
of each, without the fragment that keeps it out: found innocent, it would show that the proof is none.
"""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from settlement import compensation
from settlement.conditions import ABSENT, IN_LIMBO, LISTED_IN_FLIGHT
from settlement.errors import InvalidRequest
from settlement.resolution import parse_reversal
from settlement.rows import Row
from settlement.status import Status
from settlement.writes import Write
from tests.conftest import NOW
from tests.unit import vectors
from tests.unit.conditions import admits, clauses, status_set_by, without
from tests.unit.every_row import rows_met_by
from tests.unit.table import applied

PROJECT = Path(__file__).parents[2]
WRITES = vectors.settlement_writes()

WAITING = "limbo.await_decision"
PAGED_AGAIN = "recovery.take_over.limbo"
RESOLVING = {name for name in WRITES if name.startswith(("limbo.leave.", "compensation.resolve."))}
KEPT_OUT = WRITES.keys() - RESOLVING - {WAITING, PAGED_AGAIN}


def touched(write: Write, *, in_limbo: bool = True) -> list[Row]:
    """The rows in LIMBO, or else out of it, that the write commits on."""
    met = [row for row in rows_met_by(write) if (row["status"] == Status.LIMBO) == in_limbo]
    assert met
    return [row for row in met if admits(write, row)]


def leaves(write: Write) -> bool:
    """Whether the write takes any row out of LIMBO."""
    return any(applied(write, row)["status"] != Status.LIMBO for row in touched(write))


def fence_of(write: Write) -> str:
    """The fragment that looks at the status; that a row is put once is the fence of what makes one.

    What only moves a row within the index looks at its partition, as it must move what has no status, too.
    """
    (fence,) = (
        each for each in clauses(write) if each in (ABSENT, LISTED_IN_FLIGHT) or each.startswith("#status ")
    )
    return fence


@pytest.mark.parametrize("name", sorted(KEPT_OUT))
def test_no_write_but_a_resolution_touches_a_settlement_in_limbo(name: str) -> None:
    assert not touched(WRITES[name])


@pytest.mark.parametrize("name", sorted(KEPT_OUT))
def test_without_its_fence_each_of_them_would_be_found_guilty(name: str) -> None:
    mutant = without(WRITES[name], fence_of(WRITES[name]))

    assert touched(mutant)
    assert leaves(mutant) == (status_set_by(mutant) not in (None, Status.LIMBO))


def test_whoever_waits_for_the_decision_leaves_word_and_nothing_else() -> None:
    write = WRITES[WAITING]

    assert touched(write)
    for row in touched(write):
        waiting = write.parameters["ExpressionAttributeValues"][":waiting"]
        assert applied(write, row) == row | {"waiting": waiting}


def test_whoever_pages_again_becomes_the_owner_and_changes_nothing_that_a_decision_is_about() -> None:
    write = WRITES[PAGED_AGAIN]

    assert touched(write)
    for row in touched(write):
        after = applied(write, row)
        assert {name for name in after if after[name] != row.get(name)} == {
            *("owner", "recoveries", "recover_at"),
        }
        assert row.keys() <= after.keys()


@pytest.mark.parametrize("name", sorted(RESOLVING))
def test_every_resolution_leads_out_of_limbo_and_nowhere_but_where_it_may(name: str) -> None:
    write = WRITES[name]

    assert touched(write)
    for row in touched(write):
        completes = ".complete." in name
        assert applied(write, row)["status"] == (Status.SETTLED if completes else Status.COMPENSATING)


@pytest.mark.parametrize("name", [*sorted(RESOLVING), WAITING, PAGED_AGAIN])
def test_a_resolution_touches_nothing_but_a_settlement_in_limbo(name: str) -> None:
    write = WRITES[name]

    assert not admits(write, None)
    assert not touched(write, in_limbo=False)
    assert touched(without(write, IN_LIMBO), in_limbo=False)


def test_every_kind_of_write_is_among_those_that_were_asked() -> None:
    """Were the vectors of a module not found, the proof would be about nothing."""
    modules = {name.split(".")[0] for name in KEPT_OUT}

    assert modules == {"items", "steps", "reversals", "limbo", "compensation", "reviews", "recovery"}
    assert len(RESOLVING) == 11


# A person's order says itself what it is for


@pytest.mark.parametrize("seen", Status)
def test_an_order_reverses_nothing_in_limbo_as_nobody_may_have_seen_it_there(seen: Status) -> None:
    """The status that the write demands comes from outside: there is no such order for any but these two."""
    said = {"reason": vectors.ORDER.reason, "by": vectors.ORDER.by, "seen": seen.value}

    if seen in (Status.SETTLED, Status.PROCESSING):
        order = replace(vectors.ORDER, seen=seen)
        assert parse_reversal(said) == order
        write = compensation.requested(vectors.SETTLEMENT, order, NOW, vectors.TERMS).settlement
        assert write is not None
        assert not touched(write)
        assert not leaves(write)
    else:
        with pytest.raises(InvalidRequest):
            parse_reversal(said)
        with pytest.raises(InvalidRequest):
            replace(vectors.ORDER, seen=seen)


# Nothing writes past these builders, but the circuit breaker its own row (test_breaker_row.py)

BREAKER = "lambdas/settlement/breaker.py"


def _sources() -> list[Path]:
    return [path for folder in ("lambdas", "settle") for path in sorted((PROJECT / folder).rglob("*.py"))]


def _words(path: Path) -> set[str]:
    """All names, attributes and texts of a file, comments and docstrings aside."""
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
            | {"transact_write_items", "execute_statement", "execute_transaction"}
            | {"batch_execute_statement"},
            {"lambdas/settlement/store.py", BREAKER},
            id="DynamoDB's writes",
        ),
        pytest.param(
            {"Write"},
            {"lambdas/settlement/writes.py", "lambdas/settlement/store.py"}
            | {f"lambdas/settlement/{name}.py" for name in ("items", "reversals", "limbo")}
            | {f"lambdas/settlement/{name}.py" for name in ("reviews", "recovery", "steps")},
            id="what a write is",
        ),
        pytest.param(
            {"reopen"},
            {"lambdas/settlement/compensation.py"},
            id="how what was seen is reversed",
        ),
        pytest.param(
            {"Reversal"},
            {"lambdas/settlement/compensation.py", "lambdas/settlement/resolution.py"},
            id="what an order to reverse is",
        ),
        pytest.param(
            {"UpdateExpression", "ConditionExpression"},
            {"lambdas/settlement/writes.py", BREAKER},
            id="what a write says",
        ),
    ],
)
def test_only_the_known_modules_know(words: set[str], homes: set[str]) -> None:
    found = {path.relative_to(PROJECT).as_posix() for path in _sources() if _words(path) & words}

    assert found == homes
