import csv
import io
import json
import re
import shlex
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.payouts.port import NeverSeen
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payouts.office import HOLDER, IBAN, IN_LIMBO, KEY, Office, office

__all__ = ["office"]

SINCE = ("--since", "2026-11-01T00:00:00Z")
KNOWN = ("flat-10", "--account", "alice", "--iban", IBAN, "--holder", HOLDER)
ORDER = re.compile(r"(add|confirm|freeze)-payee|(propose|approve)-payout-.*")


def audited(command: Command, *more: str) -> list[dict[str, Any]]:
    code, out, err = command("audit", *SINCE, *more, "--json")
    assert (code, err) == (0, "")
    return [one for line in out.splitlines() if ORDER.fullmatch((one := json.loads(line))["order"])]


def given(office: Office, command: Command) -> None:
    office.put(*IN_LIMBO)
    office.bank.found = NeverSeen()
    command("payee", "add", *KNOWN, "--reason", "the rent")
    pasted = command("payout", "propose", KEY, "not-paid", "--reason", "the bank's letter")[1].splitlines()
    office.desk.door.by = GRACE
    command("payee", "confirm", *KNOWN)
    command("payee", "freeze", "flat-10")
    command("payee", "freeze", "flat-10")
    assert command(*shlex.split(pasted[-1].strip().replace("<why>", "I have called"))[1:])[0] == Exit.FINE


def test_each_order_is_audited_with_its_persons(office: Office, command: Command) -> None:
    given(office, command)

    found = {one["order"]: one for one in audited(command) if one["key"] in (KEY, "flat-10")}

    assert {name: (one["by"], one["approved_by"]) for name, one in found.items()} == {
        "add-payee": (ADA, ""),
        "confirm-payee": (GRACE, ""),
        "freeze-payee": (GRACE, ""),
        "propose-payout-not-paid": (ADA, ""),
        "approve-payout-not-paid": (ADA, GRACE),
    }
    approval = found["approve-payout-not-paid"]
    assert (approval["case"], approval["account"], approval["reason"]) == ("1", "alice", "I have called")
    assert (approval["amount"], approval["currency"], approval["payment"]) == ("48.20", "EUR", "")
    assert found["propose-payout-not-paid"]["amount"] == ""
    assert found["add-payee"]["reason"] == "the rent"
    assert all(one["user_id"] and one["request_id"] and one["source_ip"] for one in found.values())
    assert not any(IBAN in str(one) or HOLDER in str(one) for one in found.values())


def test_a_repeated_freeze_is_audited_once(office: Office, command: Command) -> None:
    given(office, command)

    assert [one["order"] for one in audited(command)].count("freeze-payee") == 1


def test_the_audit_filters_payout_orders_by_person(office: Office, command: Command) -> None:
    given(office, command)

    found = [one["order"] for one in audited(command, "--by", "grace") if one["key"] in (KEY, "flat-10")]

    assert sorted(found) == ["approve-payout-not-paid", "confirm-payee", "freeze-payee"]


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (keys.destination("flat-10"), {"iban": 7}),
        (keys.destination_confirmed("flat-10"), {"confirmed_by": ""}),
        (keys.destination("flat-10"), {"added_at": "then"}),
        (keys.destination("flat-10"), {"account": {"a": 1}}),
    ],
    ids=str,
)
def test_a_malformed_order_is_named_and_the_others_are_shown(
    office: Office, command: Command, place: dict[str, str], changed: dict[str, Any]
) -> None:
    given(office, command)
    office.alter(place, **changed)

    code, out, err = command("audit", *SINCE, "--csv")

    rows = [one for one in csv.DictReader(io.StringIO(out)) if one["key"] in (KEY, "flat-10")]
    assert (code, len([one for one in rows if one["order"]])) == (Exit.FAILED, 4)
    assert "DESTINATION#flat-10" in err


def test_a_malformed_order_still_shows_its_person_and_reason(office: Office, command: Command) -> None:
    given(office, command)
    office.alter(keys.destination("flat-10"), holder=" ")

    out = command("audit", *SINCE, "--csv")[1]

    (spoilt,) = (
        one for one in csv.DictReader(io.StringIO(out)) if one["key"] == "flat-10" and not one["order"]
    )
    assert (spoilt["by"], spoilt["reason"]) == (ADA, "the rent")


def test_the_audit_continues_past_a_foreign_row_in_the_index(office: Office, command: Command) -> None:
    given(office, command)
    place = keys.payout_orders_index("2026-11-20T12:00:00.000Z")
    office.desk.ledger.put({"pk": f"ORDER#{'x' * 2_042}", "sk": "ORDER", **place})

    code, out, _ = command("audit", *SINCE, "--csv")

    assert (code, out.count("-payout-not-paid")) == (Exit.FAILED, 2)


def test_a_decision_without_its_payout_is_audited(office: Office, command: Command) -> None:
    given(office, command)
    office.desk.ledger.delete(keys.payout(KEY))

    found = [one for one in audited(command) if one["key"] == KEY]

    assert [(one["case"], one["amount"], one["account"]) for one in found] == [("1", "", "")] * 2
