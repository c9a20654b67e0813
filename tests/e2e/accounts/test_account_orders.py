"""`settle account` gives people's orders about accounts to the deployed stage."""

import json

import pytest

from tests.e2e.embedded import Embedded, new_account, new_key, new_request

pytestmark = pytest.mark.long


def test_a_frozen_payer_and_a_closed_payee_are_rejected(embedded: Embedded) -> None:
    frozen, closed = new_account(embedded, "frozen", "100.00"), new_account(embedded, "closed")
    embedded.told("account", "freeze", frozen, "--reason", "reported as stolen")
    embedded.told("account", "close", closed, "--reason", "the customer has left")
    by_frozen, to_closed = new_request(embedded, payer=frozen), new_request(embedded, payee=closed)

    embedded.settle("start", "-", stdin="\n".join(map(json.dumps, (by_frozen, to_closed))))

    rejected = [embedded.told("wait", one["key"], code=4) for one in (by_frozen, to_closed)]
    assert [one["status"] for one in rejected] == ["REJECTED"] * 2
    assert [one["failure"]["error"] for one in rejected] == ["AccountFrozen", "AccountClosed"]
    assert embedded.available(to_closed["payer"]) == "100.00"
    assert embedded.available(frozen) == "100.00"


def test_the_command_gives_each_account_order_and_repeats_by_key(embedded: Embedded) -> None:
    account, key = new_account(embedded, "greta"), new_key("deposit")
    moved = ("--currency", "EUR", "--reference", "bank-1", "--reason", "as agreed")

    for _ in range(2):
        deposited = embedded.told("account", "deposit", account, "10.00", *moved, "--key", key)
    withdrawn = embedded.told("account", "withdraw", account, "10.00", *moved)
    closed = embedded.told("account", "close", account, "--reason", "the customer has left")

    assert deposited["account"]["available"] == "10.00"
    assert withdrawn["account"]["available"] == "0.00"
    assert "closed_at" in closed["account"]
    assert embedded.told("reconcile")["faults"] == []
