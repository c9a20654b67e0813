"""Updates: each has a condition, and one value for each placeholder. Whole updates: test_vectors.py."""

from typing import Any

import pytest

from settlement.ledger.conditions import Condition, committed, owner_is, sufficient
from settlement.ledger.transaction import update
from settlement.model.errors import SettlementError, StepFenced
from settlement.model.status import Step

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


def test_a_condition_brings_its_own_value_and_does_not_rely_on_the_one_beside_it() -> None:
    assert committed(Step.FEE).values == {":this": Step.FEE}
    assert sufficient(4820).values == {":amount": 4820}
