"""No single stolen role makes money unseen; roles reached by strangers' input make no money."""

from typing import Any

import pytest

from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.core.ledger import keys
from tests.infra.attacks import (
    ATTACKS,
    LOOT,
    TABLE,
    Attack,
    Denied,
    End,
    Thief,
    ends,
    forges_a_deposit_with_its_order,
    played,
    staged,
)
from tests.infra.evaluator import ENCLOSING, LEADING, Request, allows, policy, requests
from tests.infra.stack import FUNCTIONS, each_stage_on_aws
from tests.infra.test_grants import STRANGERS
from tests.world.ledger import ROW_KEYS

ALL = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
IN_VAIN = {
    "forges_an_escrow",
    "revives_a_refused_payment_without_escrow",
    "refunds_twice_without_escrow",
    "releases_twice_without_escrow",
    "skips_the_reclaim_without_escrow",
}
"""Attacks that fail even with full write access, because the escrow must hold the payment."""


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_makes_money_if_nothing_denies_it(attack: Attack) -> None:
    """Otherwise its denial would prove nothing. The proof names each attack that succeeds."""
    expected = End.IN_VAIN if attack.__name__ in IN_VAIN else End.NAMED
    if attack is forges_a_deposit_with_its_order:
        expected = End.UNSIGNED

    assert played(ALL, attack) is expected


def test_without_an_attack_nothing_is_gained_and_all_is_proven() -> None:
    assert played(ALL, lambda thief: None) is End.IN_VAIN
    with staged() as world:
        world.assert_conserved()
        assert world.findings(ROW_KEYS).conserved


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_single_role_makes_money_unseen_by_the_proof(function: str) -> None:
    found = ends("prod", function)

    assert [attack.__name__ for attack in ATTACKS if found[attack] is End.UNSEEN] == []


@pytest.mark.parametrize("function", [*STRANGERS, "PrepareAlert", "ReportOutcome"])
def test_a_role_reachable_by_strangers_input_makes_no_money(function: str) -> None:
    assert set(ends("prod", function).values()) <= {End.DENIED, End.IN_VAIN}


@each_stage_on_aws
@pytest.mark.parametrize("enclosing", [(), ("TransactGetItems",)])
def test_a_release_entry_is_denied_outside_a_transaction(stage: str, enclosing: tuple[str, ...]) -> None:
    context = {LEADING: ("ENTRIES#eve",)} | ({ENCLOSING: enclosing} if enclosing else {})

    assert not allows(policy(stage, "ReleaseFunds"), Request("dynamodb:PutItem", TABLE, context))
    inside = {**context, ENCLOSING: ("TransactWriteItems",)}
    assert allows(policy(stage, "ReleaseFunds"), Request("dynamodb:PutItem", TABLE, inside))


@each_stage_on_aws
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_role_may_change_an_immutable_attribute(stage: str, function: str) -> None:
    own = policy(stage, function)
    key = {name: {"S": text} for name, text in keys.settlement(LOOT.key).items()}
    changed = []
    for attribute in IMMUTABLE_ATTRIBUTES:
        change = {"Key": key, "UpdateExpression": f"SET {attribute} = :n"}
        change["ExpressionAttributeValues"] = {":n": {"N": "1"}}
        asked = requests(TABLE, "TransactWriteItems", {"TransactItems": [{"Update": change}]})
        changed += [attribute for one in asked if allows(own, one)]

    assert changed == []


def test_the_simulated_attacker_is_denied_what_the_policy_omits() -> None:
    def attack(thief: Thief) -> None:
        with pytest.raises(Denied):
            thief.put({**keys.account("eve"), "available": 1, "currency": "EUR"})
        raise Denied

    assert played([], attack) is End.DENIED


# The evaluator


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("StringEquals", ("a",), True),
        ("StringEquals", ("b",), False),
        ("StringEquals", (), False),
        ("ForAnyValue:StringEquals", (), False),
        ("ForAnyValue:StringEquals", ("b", "a"), True),
        ("ForAllValues:StringEquals", (), True),
        ("ForAllValues:StringEquals", ("a", "a"), True),
        ("ForAllValues:StringEquals", ("a", "b"), False),
        ("ForAllValues:StringLike", ("a",), True),
    ],
)
def test_each_iam_condition_operator_is_evaluated_as_in_iam(
    operator: str, values: tuple[str, ...], holds: bool
) -> None:
    statement: dict[str, Any] = {**ALL[0], "Condition": {operator: {"k": ["a"]}}}

    assert allows([statement], Request("x", "y", {"k": values} if values else {})) is holds


def test_a_denial_wins_and_an_unknown_element_is_an_error() -> None:
    asked = Request("dynamodb:PutItem", TABLE)
    deny = {**ALL[0], "Effect": "Deny"}

    assert allows(ALL, asked)
    assert not allows([*ALL, deny], asked)
    assert not allows([], asked)
    assert not allows([{**ALL[0], "Action": "s3:*"}], asked)
    for unknown in ({"NotAction": "x"}, {"Condition": {"ForNoValue:StringEquals": {"k": "a"}}}):
        with pytest.raises(ValueError, match="does not know"):
            allows([{**ALL[0], **unknown}], asked)
