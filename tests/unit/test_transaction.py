"""Writes and transactions: each update has a condition, whose values it carries."""

from typing import Any

import pytest

from settlement.ledger.conditions import ABSENT, EXISTS, Condition, owner_is, status_is
from settlement.ledger.transaction import AlreadyApplied, StepTransaction, Write, placeholders, put, update
from settlement.model.errors import SettlementError, StepFenced
from settlement.model.status import Status

KEY = {"pk": "SETTLEMENT#k", "sk": "SETTLEMENT"}


def refuse(_: Any) -> SettlementError:
    return StepFenced("test", "refused")


def built(*conditions: Condition, expression: str = "SET escrow = escrow", **options: Any) -> dict[str, Any]:
    return dict(update(KEY, expression, conditions=conditions, on_failure=refuse, **options).parameters)


def write(name: str) -> Write:
    return put({"pk": name, "sk": name}, refuse)


# Updates


def test_an_update_without_a_condition_cannot_be_built() -> None:
    with pytest.raises(ValueError, match=r"^an update must have a condition$"):
        built()


def test_an_update_demands_all_of_its_conditions_in_their_order() -> None:
    parameters = built(status_is(Status.LIMBO), EXISTS, owner_is("me"))

    assert (
        parameters["ConditionExpression"] == "#status = :limbo AND attribute_exists(pk) AND #owner = :owner"
    )
    assert parameters["UpdateExpression"] == "SET escrow = escrow"
    assert parameters["Key"] == KEY


def test_the_values_of_the_conditions_join_those_of_the_expression() -> None:
    values = {":now": "then", ":one": 1}

    parameters = built(status_is(Status.LIMBO), owner_is("me"), values=values)

    assert parameters["ExpressionAttributeValues"] == {
        ":now": "then",
        ":one": 1,
        ":limbo": "LIMBO",
        ":owner": "me",
    }
    assert values == {":now": "then", ":one": 1}


def test_a_placeholder_with_two_values_cannot_be_built() -> None:
    with pytest.raises(ValueError, match=r"^:owner has two values$"):
        built(owner_is("me"), values={":owner": "you"})


def test_two_conditions_may_share_a_value() -> None:
    one, other = Condition("a = :this", {":this": 1}), Condition("b = :this", {":this": 1})

    assert built(one, other)["ExpressionAttributeValues"] == {":this": 1}


@pytest.mark.parametrize(
    ("expression", "condition", "names"),
    [
        ("SET escrow = escrow", EXISTS, None),
        ("SET #failure = :f", EXISTS, {"#failure": "failure"}),
        ("SET escrow = escrow", owner_is("me"), {"#owner": "owner"}),
        (
            "SET #failure = :f, #owner = :o",
            status_is(Status.LIMBO),
            {"#failure": "failure", "#owner": "owner", "#status": "status"},
        ),
    ],
)
def test_an_update_has_the_aliases_that_it_uses_and_no_others(
    expression: str, condition: Condition, names: dict[str, str] | None
) -> None:
    assert built(condition, expression=expression).get("ExpressionAttributeNames") == names


def test_a_write_knows_the_meaning_of_its_failure() -> None:
    updated = update(KEY, "SET escrow = escrow", conditions=[EXISTS], on_failure=refuse)

    assert (updated.action, updated.on_failure) == ("Update", refuse)
    assert (write("a").action, write("a").on_failure) == ("Put", refuse)


def test_a_row_is_put_only_if_there_is_none() -> None:
    assert write("a").parameters == {
        "Item": {"pk": "a", "sk": "a"},
        "ConditionExpression": ABSENT.expression,
    }


def test_placeholders_have_the_names_of_their_attributes() -> None:
    assert placeholders({"gsi1pk": "LIMBO", "gsi1sk": "then"}) == {":gsi1pk": "LIMBO", ":gsi1sk": "then"}
    assert placeholders({}) == {}


# Transactions


def test_a_transaction_writes_entry_settlement_and_balance_in_this_order() -> None:
    entry, settlement, balance = write("entry"), write("settlement"), write("balance")

    assert StepTransaction(entry=entry, settlement=settlement).writes == (entry, settlement)
    assert StepTransaction(entry=entry, settlement=settlement, balance=balance).writes == (
        *(entry, settlement),
        balance,
    )
    assert StepTransaction(entry=entry, settlement=settlement).metric is None


def test_an_applied_write_carries_the_state_that_it_left() -> None:
    state = object()

    assert AlreadyApplied(state).found is state
