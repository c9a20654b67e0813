"""No stolen role pays a thief; functions that strangers reach make no money."""

import pytest

from tests.infra.attacks import ATTACKS as ON_SETTLEMENTS
from tests.infra.attacks import End
from tests.infra.attacks import ends as ends_of_settlements
from tests.infra.payouts.attacks import (
    ATTACKS,
    DEPOSIT,
    Attack,
    Scene,
    ends,
    forges_a_return,
    played,
    refunds_a_refused_payout_again,
    replaces_a_refused_payout,
)
from tests.infra.stack import OF_PAYS_OUT, PAYS_OUT, functions
from tests.infra.test_attacks import ALL
from tests.infra.test_grants import STRANGERS
from tests.world.ledger import ROW_KEYS

GAINS: dict[Attack, End] = {
    refunds_a_refused_payout_again: End.NAMED,
    replaces_a_refused_payout: End.NAMED,
    forges_a_return: End.COMPARED,
}
"""Attacks that make money if nothing denies them. The functions refuse the others."""

SEEN = {End.DENIED, End.IN_VAIN, End.NAMED, End.UNSIGNED}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_with_full_permissions_ends_as_listed(attack: Attack) -> None:
    assert played(ALL, attack) is GAINS.get(attack, End.IN_VAIN)


def test_without_signatures_a_thief_would_be_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(ROW_KEYS), "is_proven", lambda keys, row: True)

    gained = {attack.__name__ for attack in ATTACKS if played(ALL, attack) is not End.IN_VAIN}

    assert gained >= {
        *("forges_a_payout_and_its_entry", "replaces_a_payout_and_its_entry"),
        *("decides_a_case", "confirms_a_destination"),
    }


def test_without_an_attack_the_payout_is_paid_and_proven() -> None:
    assert played(ALL, lambda thief: None) is End.IN_VAIN
    scene = Scene()
    scene.town.tick(60)
    scene.look()
    scene.town.tick(86_400)
    scene.look()

    assert scene.balances + scene.paid == DEPOSIT
    assert scene.booked() == scene.paid > 0
    assert scene.findings(signed=True).conserved


@pytest.mark.parametrize("function", sorted(functions(PAYS_OUT)))
def test_each_roles_attack_is_denied_or_named_by_the_proof(function: str) -> None:
    """The exception is ReadStatements, which can invent a line of a bank's file."""
    others = {attack: end for attack, end in ends(function).items() if end not in SEEN}

    assert others == ({forges_a_return: End.COMPARED} if function == "ReadStatements" else {})


@pytest.mark.parametrize("function", OF_PAYS_OUT)
def test_no_payout_role_makes_money_unseen_by_attacking_settlements(function: str) -> None:
    found = ends_of_settlements(PAYS_OUT, function)

    assert [attack.__name__ for attack in ON_SETTLEMENTS if found[attack] not in SEEN] == []


@pytest.mark.parametrize("function", [*STRANGERS, "BankEvents"])
def test_functions_reached_by_strangers_make_no_money(function: str) -> None:
    """ServePayouts is excluded, because IAM admits its callers."""
    assert {*ends_of_settlements(PAYS_OUT, function).values()} <= {End.DENIED, End.IN_VAIN}
    assert {*ends(function).values()} == {End.DENIED}
