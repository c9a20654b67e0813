"""Tests that a write has a condition and one value per placeholder. Whole writes: test_vectors.py."""

from typing import Any

import pytest

from settlement.core.ledger.conditions import ABSENT, Condition, no_later_case, owner_is
from settlement.core.ledger.transaction import put, update
from settlement.core.model.errors import SettlementError, StepFenced

KEY = {"pk": "SETTLEMENT#k", "sk": "SETTLEMENT"}


def refuse(_: Any) -> SettlementError:
    return StepFenced("test", "refused")


def built(*conditions: Condition, **options: Any) -> dict[str, Any]:
    expression = "SET escrow = escrow"
    return dict(update(KEY, expression, conditions=conditions, on_failure=refuse, **options).parameters)


def test_an_update_without_a_condition_cannot_be_built() -> None:
    with pytest.raises(ValueError, match=r"^an update must have a condition$"):
        built()


def test_a_placeholder_with_two_values_cannot_be_built() -> None:
    with pytest.raises(ValueError, match=r"^:owner has two values$"):
        built(owner_is("me"), values={":owner": "you"})


def test_two_conditions_may_share_a_value() -> None:
    one, other = Condition("a = :this", {":this": 1}), Condition("b = :this", {":this": 1})

    assert built(one, other)["ExpressionAttributeValues"] == {":this": 1}


def test_a_put_requires_an_absent_row_or_the_given_condition() -> None:
    """A put without values must not have an empty map of them, which DynamoDB refuses."""
    plain, other = put(KEY, refuse), put(KEY, refuse, no_later_case(2))

    assert plain.parameters == {"Item": KEY, "ConditionExpression": ABSENT.expression}
    assert other.parameters == {
        "Item": KEY,
        "ConditionExpression": no_later_case(2).expression,
        "ExpressionAttributeValues": {":case": 2},
        "ExpressionAttributeNames": {"#case": "case"},
    }
