import json

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import start
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, at_once, new_account, new_request
from tests.e2e.provider import GIVING_BACK
from tests.e2e.stuck import pay
from tests.world.journal import slots

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("machine", "told"), [("express", GIVING_BACK), ("standard", {"COMPENSATED"})])
def test_a_refused_release_returns_the_full_amount_to_the_payer(
    embedded: Embedded, machine: str, told: set[str]
) -> None:
    """Express does not wait for the end; Standard and a replay report the end."""
    request = new_request(embedded, payee=new_account(embedded, "rich", "1000000.00"))

    started = start(embedded.stack, Machine(machine), json.dumps(request))

    outcome = started.outcome
    assert outcome is not None
    assert outcome["status"] in told
    assert outcome["replayed"] is False
    cause = "payee: the account would hold more than this stage allows in EUR"
    assert outcome["failure"] == {"step": "release", "error": "CapExceeded", "cause": cause}
    embedded.wait_for(lambda: embedded.settlement(request["key"])["status"] == "COMPENSATED")
    row = embedded.settlement(request["key"])
    assert (row["escrow"], slots(row)) == (0, {"hold_at", "verify_at", "hold_reversed_at"})
    assert row["failure"] == outcome["failure"]
    assert "gsi1pk" not in row
    assert embedded.entries(request["key"]) == ["compensate:hold", "hold", "verify"]
    assert embedded.available(request["payer"]) == "100.00"
    again = start(embedded.stack, Machine.EXPRESS, json.dumps(request)).outcome
    assert again is not None
    assert (again["status"], again["replayed"]) == ("COMPENSATED", True)
    assert embedded.conserved()


def a_settled_one(embedded: Embedded) -> tuple[str, dict[str, str], str, str]:
    payer, payee = new_account(embedded, "gina", "100.00"), new_account(embedded, "hugo")
    outcome = pay(embedded, payer, payee, "48.20")
    names = ("key", "payer", "payee", "amount", "currency", "fee")
    return outcome["key"], {name: outcome[name] for name in names}, payer, payee


def test_a_settled_payment_is_refunded_with_its_fee(embedded: Embedded) -> None:
    key, _, payer, payee = a_settled_one(embedded)

    told = embedded.told("reverse", key, "--reason", "the goods came back")

    assert told["reversed"] == ["fee", "hold", "release"]
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
    entry = embedded.stack.store.read(keys.evidence(key, "reverse"))
    assert entry is not None
    assert (entry["reason"], entry["by"]) == ("the goods came back", "arn:aws:iam::000000000000:root")
    assert embedded.told("reverse", key, "--reason", "asked a second time") == told


def compensate(embedded: Embedded, key: str, settlement: dict[str, str], name: str) -> str:
    """Order the reversal, and start the compensating machine again; return the execution's ARN."""
    embedded.stack.door.send("reverse", {"key": key, "reason": "a test"})
    content = {"settlement": settlement, "order": "reverse"}
    return embedded.run("CompensationArn", content, f"{key}-{name}")


def test_concurrent_compensations_reverse_each_step_once(embedded: Embedded) -> None:
    key, settlement, payer, payee = a_settled_one(embedded)

    arns = at_once([lambda n=n: compensate(embedded, key, settlement, str(n)) for n in range(4)])

    ends = [embedded.ended(arn) for arn in arns]
    assert {end["status"] for end in ends} == {"SUCCEEDED"}
    assert {json.loads(end["output"])["status"] for end in ends} == {"COMPENSATED"}
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
    assert len(embedded.entries(key)) == len(set(embedded.entries(key))) == 4 + 3 + 1
    assert embedded.conserved()


def test_occupied_execution_names_delay_no_reversal(embedded: Embedded) -> None:
    request = new_request(embedded, payee=new_account(embedded, "rich", "1000000.00"))
    for name in ("c0", "c0-00000000", "compensate-0"):
        embedded.run("CompensationArn", {"settlement": "is none: it fails"}, f"{request['key']}-{name}")

    outcome = start(embedded.stack, Machine.STANDARD, json.dumps(request)).outcome

    assert outcome is not None
    assert (outcome["status"], outcome["failure"]["error"]) == ("COMPENSATED", "CapExceeded")
    assert embedded.available(request["payer"]) == "100.00"
