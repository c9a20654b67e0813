"""Runs each command of payouts once, as two persons and a service use them."""

import json
from pathlib import Path
from typing import Any

import pytest

from settle.local import record
from settle.permissions.people import Kind
from tests.e2e.embedded import Embedded, new_account, new_key
from tests.e2e.people import Person, of_kind, of_policies

pytestmark = pytest.mark.long

IBAN, TYPED = "DE89370400440532013000", "DE89 3704 0044 0532 0130 00"
CONFLICT, REFUSED, UNDER_WAY = 6, 4, 7


def told(embedded: Embedded, person: Person, *words: str, code: int = 0) -> Any:
    stack = ("--stack", record.STACK_NAME)
    finished = embedded.settle(*words, "--json", *stack, **person.environment)
    assert finished.returncode == code, finished
    return json.loads(finished.stdout)


def test_commands_add_a_payee_and_pay_out_to_it(embedded: Embedded, tmp_path: Path) -> None:
    dora, payee, key = new_account(embedded, "dora", "100.00"), new_key("payee"), new_key("payout")
    payout = {"key": key, "account": dora, "amount": "48.20", "currency": "EUR", "destination": payee}
    file = tmp_path / "payouts.jsonl"
    file.write_text(json.dumps(payout))
    start = ("payout", "start", str(file))
    typed = (payee, "--account", dora, "--iban", TYPED, "--holder", "Bank pay-now x")
    with (
        of_kind(embedded, Kind.OPERATOR, "olga") as olga,
        of_kind(embedded, Kind.APPROVER, "anna") as anna,
        of_policies(embedded, "PayerPolicyArn", "ViewerPolicyArn", name="service") as service,
    ):
        told(embedded, olga, "payee", "add", *typed, "--reason", "contract 9")
        early = told(embedded, service, *start, code=REFUSED)
        confirmed = told(embedded, anna, "payee", "confirm", *typed)
        shown = told(embedded, olga, "payee", "show", payee)
        first = told(embedded, service, *start, code=UNDER_WAY)

        embedded.wait_for(lambda: ask(embedded, olga, key) == "PAID")
        status = told(embedded, olga, "payout", "status", key)
        again = told(embedded, service, *start)
        listed = told(embedded, olga, "payout", "list")

    assert early["error"] == "DestinationRefused"
    assert (confirmed["id"], shown["state"], shown["iban"]) == (payee, "payable", "…3000")
    assert shown["added_by"].endswith("/olga")
    assert shown["confirmed_by"].endswith("/anna")
    assert (first["key"], first["replayed"], again["replayed"]) == (key, False, True)
    assert [one["step"] for one in status["entries"]] == ["payout-reserve", "payout-pay"]
    assert [one["status"] for one in listed if one["key"] == key] == ["PAID"]
    assert embedded.available(dora) == "51.80"
    assert embedded.conserved()


def ask(embedded: Embedded, person: Person, key: str) -> str:
    stack = ("--stack", record.STACK_NAME)
    finished = embedded.settle("payout", "ask", key, "--json", *stack, **person.environment)
    assert finished.returncode in (0, CONFLICT, UNDER_WAY), finished  # the first look may be under way
    return str(json.loads(finished.stdout)["status"]) if finished.stdout else ""
