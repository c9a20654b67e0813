import json
import re

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payouts.office import HOLDER, IBAN, Office, office

__all__ = ["office"]

TYPED = "DE89 3704 0044\u00a00532 0130 00"
KNOWN = ("--account", "alice", "--holder", HOLDER)
ADD = ("payee", "add", "flat-9", *KNOWN, "--reason", "the rent")
CONFIRM = ("payee", "confirm", "flat-9", *KNOWN)


def added(office: Office, command: Command) -> None:
    assert command(*ADD, "--iban", TYPED)[0] == Exit.FINE
    office.desk.door.by = GRACE


def test_a_typed_iban_is_sent_without_its_blanks(office: Office, command: Command) -> None:
    code, out, err = command(*ADD, "--iban", TYPED)

    assert (code, err) == (Exit.FINE, "")
    order, body = office.desk.door.given[-1]
    assert (order, body["iban"]) == ("add-payee", IBAN)
    assert "…3000" in out


def test_no_output_has_the_iban_to_paste(office: Office, command: Command) -> None:
    """The second person must type the IBAN from the payee's papers."""
    outs = [command(*ADD, "--iban", TYPED)[1], command("payee", "show", "flat-9")[1]]

    assert [out for out in outs if IBAN in out or IBAN in out.replace(" ", "")] == []
    words = "settle payee confirm flat-9 --account '<ACCOUNT>' --iban '<IBAN>' --holder '<HOLDER>'"
    assert words in outs[0]


def test_a_payee_is_payable_once_a_second_person_confirms(office: Office, command: Command) -> None:
    added(office, command)
    before = json.loads(command("payee", "show", "flat-9", "--json")[1])

    code, out, err = command(*CONFIRM, "--iban", TYPED, "--json")

    told = json.loads(out)
    assert (code, err) == (Exit.FINE, "")
    assert (told["account"], told["holder"], told["added_by"]) == ("alice", HOLDER, ADA)
    assert (told["confirmed_by"], told["iban"]) == (GRACE, "…3000")
    after = json.loads(command("payee", "show", "flat-9", "--json")[1])
    assert (before["state"], after["state"]) == ("added: another person confirms it", "payable")


def test_the_person_who_added_a_payee_cannot_confirm_it(office: Office, command: Command) -> None:
    added(office, command)
    office.desk.door.by = ADA

    code, _, err = command(*CONFIRM, "--iban", IBAN)

    assert (code, "who added a destination does not confirm it" in err) == (Exit.REFUSED, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--iban", "GB29 NWBK 6016 1331 9268 19"), ("--account", "mallory"), ("--holder", "Mallory")],
)
def test_confirming_a_payee_with_different_data_is_refused(
    office: Office, command: Command, option: str, value: str
) -> None:
    added(office, command)

    code, out, err = command(*CONFIRM, "--iban", IBAN, option, value)

    assert (code, out, "DestinationRefused" in err) == (Exit.REFUSED, "", True)
    assert not any(known in err for known in (IBAN, "alice", HOLDER))
    assert office.desk.ledger.row(keys.destination_confirmed("flat-9")) is None


def test_repeating_a_payee_command_changes_nothing(office: Office, command: Command) -> None:
    added(office, command)
    office.desk.door.by = ADA
    assert command(*ADD, "--iban", IBAN)[0] == Exit.FINE
    office.desk.door.by = GRACE
    confirm = (*CONFIRM, "--iban", IBAN)
    first = command(*confirm)

    with office.desk.writes_nothing():
        assert command(*confirm) == first
    assert command(*ADD, "--iban", IBAN, "--holder", "Mallory")[0] == Exit.CONFLICT


def test_freezing_a_payee_twice_leaves_it_frozen(office: Office, command: Command) -> None:
    added(office, command)

    first, again = command("payee", "freeze", "flat-9"), command("payee", "freeze", "flat-9")
    told = json.loads(command("payee", "show", "flat-9", "--json")[1])

    assert (first[0], again) == (Exit.FINE, first)
    assert (told["state"], told["frozen_by"]) == ("frozen", GRACE)
    assert re.search(r"^frozen_at +\d{4}-", first[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("show", "flat-9"), Exit.NOT_FOUND, "id: flat-9 is no payee in under-test"),
        (("show", "flat 9"), Exit.USAGE, "id: must match"),
        ((*CONFIRM[1:], "--iban", IBAN), Exit.NOT_FOUND, "id: flat-9 is no payee"),
        ((*CONFIRM[1:], "--iban", "<IBAN>"), Exit.USAGE, "iban: must be an IBAN"),
        ((*CONFIRM[1:], "--iban", f"{IBAN[:-1]}1"), Exit.USAGE, "iban: must be an IBAN"),
        (("freeze", "flat-9"), Exit.REFUSED, "freeze-payee: DestinationRefused: "),
        ((*ADD[1:], "--iban", IBAN.lower()), Exit.USAGE, "iban: must be an IBAN in capitals"),
        ((*ADD[1:2], ".", *ADD[3:], "--iban", IBAN), Exit.USAGE, "id: must match"),
        ((*ADD[1:4], "a/b", *ADD[5:], "--iban", IBAN), Exit.USAGE, "account: must be a string"),
        ((*ADD[1:6], " Ida", *ADD[7:], "--iban", IBAN), Exit.USAGE, "holder: must be printable"),
        ((*ADD[1:8], "<why>", "--iban", IBAN), Exit.USAGE, "reason: replace <why>"),
    ],
)
def test_an_unknown_or_malformed_payee_is_named(
    office: Office, command: Command, words: tuple[str, ...], code: Exit, told: str
) -> None:
    found, out, err = command("payee", *words)

    assert (found, out) == (code, "")
    assert err.startswith(f"settle: {told}")
    assert office.desk.ledger.row(keys.destination("flat-9")) is None


def test_a_malformed_payee_can_be_frozen_but_not_confirmed(office: Office, command: Command) -> None:
    added(office, command)
    office.alter(keys.destination("flat-9"), holder="a\nb")

    confirmed = command(*CONFIRM, "--iban", IBAN)
    shown = command("payee", "show", "flat-9")
    command("payee", "freeze", "flat-9")

    assert (confirmed[0], shown[0]) == (Exit.FAILED, Exit.FAILED)
    assert "DESTINATION#flat-9: iban and holder" in confirmed[2]
    assert office.desk.ledger.row(keys.destination_confirmed("flat-9")) is None
    row = office.desk.ledger.row(keys.destination("flat-9"))
    assert row
    assert row["frozen_by"] == GRACE
