import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import Found, NeverSeen, Unknown
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payouts.office import IN_LIMBO, KEY, STUCK, Office, office
from tests.world.environment import NOW

__all__ = ["office"]

LETTER = ("--reason", "the bank's letter")


@pytest.fixture
def stuck(office: Office) -> Office:
    office.put(*IN_LIMBO)
    office.bank.found = NeverSeen()
    return office


def proposed(office: Office, command: Command, verdict: str = "not-paid", *options: str) -> tuple[str, ...]:
    """Propose as Ada; return the printed command's arguments for Grace."""
    code, out, err = command("payout", "propose", KEY, verdict, *LETTER, *options)
    assert (code, err) == (Exit.FINE, "")
    line = out.splitlines()[-1].strip().replace("<why>", "I have called the bank")
    office.desk.door.by = GRACE
    return tuple(shlex.split(line)[1:])


def test_two_persons_give_a_stuck_payout_back(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)

    code, out, err = command(*pasted)

    assert (code, err) == (Exit.FINE, "")
    assert f"{KEY}: not-paid of case 1, approved by {GRACE}" in out
    assert stuck.row()["status"] == Status.REFUSED
    told = json.loads(command("payout", "status", KEY, "--json")[1])
    assert (told["decided"]["by"], told["decided"]["approved_by"]) == (ADA, GRACE)


def test_a_proposal_shows_the_payouts_details_and_its_proposer(stuck: Office, command: Command) -> None:
    out = command("payout", "propose", KEY, "not-paid", *LETTER)[1]

    for told in ("48.20", "alice", "flat-9", "Ida Example", "…3000", STUCK, f"is proposed by {ADA}"):
        assert told in out


def test_the_proposer_cannot_approve_a_payout(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    stuck.desk.door.by = ADA

    code, _, err = command(*pasted)

    assert (code, "who proposed a verdict does not approve it" in err) == (Exit.CONFLICT, True)
    assert stuck.row()["status"] == Status.LIMBO


@pytest.mark.parametrize(
    ("order", "exit_code"),
    [
        (("ask",), Exit.CONFLICT),
        (("propose", "ask"), Exit.FAILED),
        (("approve", "ask", "--case", "1"), Exit.CONFLICT),
    ],
    ids=str,
)
def test_a_malformed_payout_is_named_and_not_decided(
    stuck: Office, command: Command, order: tuple[str, ...], exit_code: Exit
) -> None:
    stuck.alter(keys.payout(KEY), amount="much")
    name, *verdict = order
    why = ("--digest", "0" * 64, "--reason", "a call") if verdict else ()

    code, out, err = command("payout", name, KEY, *verdict, *why)

    assert (code, out) == (exit_code, "")
    assert KEY in err
    assert stuck.row()["amount"] == "much"


@pytest.mark.parametrize("name", ["iban", "holder", "amount", "detail"])
def test_a_row_that_changes_before_the_approval_is_refused(
    stuck: Office, command: Command, name: str
) -> None:
    pasted = proposed(stuck, command)
    swapped = {"iban": "GB29NWBK60161331926819", "holder": "Mallory", "detail": "x"}
    changed = {name: swapped[name]} if name in swapped else _of_amount(stuck)
    stuck.alter(keys.payout(KEY), **changed)

    code, out, err = command(*pasted)

    assert (code, out) == (Exit.CONFLICT, "")
    assert "the payout is not what you were shown" in err
    assert stuck.row()["status"] == Status.LIMBO


def _of_amount(office: Office) -> dict[str, Any]:
    state = State.from_row(office.row())
    other = replace(state, payout=replace(state.payout, amount=48_21))
    return {"amount": 48_21, "request_hash": other.payout.request_hash}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), Exit.USAGE, "approve: give --case and --digest"),
        (("--case", "1"), Exit.USAGE, "approve: give --case and --digest"),
        (("--digest", "ab" * 32), Exit.USAGE, "approve: give --case and --digest"),
        (("--case", "1", "--digest", "ab" * 8), Exit.USAGE, "digest: must be all 64 digits"),
    ],
)
def test_an_approval_needs_the_case_and_the_full_digest(
    stuck: Office, command: Command, words: tuple[str, ...], code: Exit, told: str
) -> None:
    found, _, err = command("payout", "approve", KEY, "not-paid", *LETTER, *words)

    assert (found, err.startswith(f"settle: {told}")) == (code, True)
    assert stuck.desk.door.given[-1][0] != "approve-payout"


@pytest.mark.parametrize(
    ("words", "told"), [(("--case", "2"), "case: "), (("--digest", "ab" * 32), "digest: ")]
)
def test_an_approval_of_another_case_or_digest_is_refused(
    stuck: Office, command: Command, words: tuple[str, str], told: str
) -> None:
    pasted = proposed(stuck, command)

    code, _, err = command(*pasted, *words)

    assert (code, f"ResolutionRefused: {told}" in err) == (Exit.CONFLICT, True)
    assert stuck.row()["status"] == Status.LIMBO


@pytest.mark.parametrize("words", [("--case", "2"), ("--digest", "ab" * 32)])
def test_a_proposal_for_another_case_or_digest_is_not_sent(
    stuck: Office, command: Command, words: tuple[str, ...]
) -> None:
    given = len(stuck.desk.door.given)

    code, _, err = command("payout", "propose", KEY, "ask", *LETTER, *words)

    assert (code, words[0].strip("-") in err) == (Exit.CONFLICT, True)
    assert len(stuck.desk.door.given) == given


@pytest.mark.parametrize(
    ("verb", "told"),
    [("propose", f"{KEY} is RESERVED and has no open case"), ("approve", f"{KEY} has no open case")],
)
def test_a_payout_without_a_case_accepts_no_verdict(
    office: Office, command: Command, verb: str, told: str
) -> None:
    state = office.put()

    code, _, err = command("payout", verb, KEY, "paid", *LETTER, "--case", "1", "--digest", state.digest)

    assert (code, told in err) == (Exit.CONFLICT, True)


def test_money_in_suspense_may_go_to_the_customers_other_account(office: Office, command: Command) -> None:
    office.put(Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN, trouble="it came back", in_suspense=1)
    pasted = proposed(office, command, "give-back", "--account", "bob")

    shown = command("payout", "status", KEY)[1]
    code, out, err = command(*pasted)

    assert "48.20 EUR go from suspense to bob" in shown
    assert "approve" in shown
    assert "--account bob" in shown
    assert (code, err) == (Exit.FINE, "")
    assert "give-back, by" not in out
    after = command("payout", "status", KEY)[1]
    assert f"give-back to bob, by {ADA} and {GRACE}" in after
    assert "suspense:EUR → bob" in after
    row = office.desk.ledger.row(keys.account("bob"))
    assert row
    assert row["available"] == 48_20


def test_only_a_give_back_verdict_accepts_another_account(stuck: Office, command: Command) -> None:
    code, _, err = command("payout", "propose", KEY, "not-paid", *LETTER, "--account", "bob")

    assert (code, err.startswith("settle: account: must be left out")) == (Exit.USAGE, True)


def test_the_placeholder_is_refused_as_a_reason(stuck: Office, command: Command) -> None:
    out = command("payout", "status", KEY)[1]
    (line,) = re.findall(r"settle (payout propose \S+ not-paid .*)", out)

    code, _, err = command(*shlex.split(line))

    assert (code, "reason: replace <why>" in err) == (Exit.USAGE, True)


@pytest.mark.parametrize("contradicts", [True, False])
def test_a_verdict_that_contradicts_the_bank_shows_a_warning(
    office: Office, command: Command, *, contradicts: bool
) -> None:
    office.put(*IN_LIMBO, said=Word.ACCEPTED, said_at=timestamp(NOW))
    words = ("--contradicts",) if contradicts else ()

    code, out, err = command("payout", "propose", KEY, "not-paid", *LETTER, *words)

    assert code == (Exit.FINE if contradicts else Exit.CONFLICT)
    assert ("the bank said accepted" in err) is not contradicts
    assert ("--contradicts" in out) is contradicts


# A repeat, and a lost answer


def test_a_repeated_approval_gets_the_same_answer(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    first = command(*pasted, "--json")

    again = command(*pasted, "--json")

    assert (first[0], again[0]) == (Exit.FINE, Exit.FINE)
    assert json.loads(again[1]) == json.loads(first[1])


def test_an_approval_whose_answer_is_lost_can_be_repeated(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    stuck.desk.door.losing = 1

    lost = command(*pasted)
    again = command(*pasted)

    assert (lost[0], f"repeat it with its key {KEY}" in lost[2]) == (Exit.FAILED, True)
    assert (again[0], again[2]) == (Exit.FINE, "")


def test_approving_another_verdict_after_the_decision_is_a_conflict(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    command(*pasted)

    code, _, err = command(*(word if word != "not-paid" else "paid" for word in pasted))

    assert (code, "has no open case" in err) == (Exit.CONFLICT, True)


def test_an_approval_that_waits_for_follow_payouts_is_in_flight(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    stuck.follow.down = True

    code, out, err = command(*pasted)
    status = command("payout", "status", KEY)[1]
    stuck.follow.down = False
    asked = command("payout", "ask", KEY)

    assert (code, err) == (Exit.IN_FLIGHT, "")
    assert "not carried out yet" in out
    assert f"approved: not-paid, by {ADA} and {GRACE}" in status
    assert "settle payout approve" not in status
    assert f"settle payout ask {KEY}" in status
    assert (asked[0], stuck.row()["status"]) == (Exit.REFUSED, Status.REFUSED)


def test_a_bank_that_contradicts_the_verdict_opens_another_case(stuck: Office, command: Command) -> None:
    pasted = proposed(stuck, command)
    stuck.bank.found = Found(Word.PAID)

    code, out, _ = command(*pasted)

    assert code == Exit.LIMBO
    assert "case 2: the bank says paid since two persons decided not-paid" in out
    assert stuck.row()["status"] == Status.LIMBO


def test_an_approved_not_paid_verdict_waits_for_a_silent_bank(stuck: Office, command: Command) -> None:
    stuck.bank.found = Unknown("500")
    waiting, against = proposed(stuck, command), ("--contradicts",)
    stuck.desk.door.by = ADA
    pasted = proposed(stuck, command, "not-paid", *against)
    shown = command("payout", "status", KEY)[1]

    code, _, _ = command(*waiting)
    other, _, err = command(*pasted)

    assert "--contradicts" in pasted
    assert "against the bank: the bank's letter" in shown
    assert (code, stuck.row()["status"]) == (Exit.LIMBO, Status.LIMBO)
    assert (other, "not-paid is approved already" in err) == (Exit.CONFLICT, True)


def test_two_persons_can_decide_against_a_silent_bank(stuck: Office, command: Command) -> None:
    stuck.bank.found = Unknown("500")
    proposed(stuck, command, "not-paid", "--contradicts")
    shown = command("payout", "status", KEY)[1]
    (line,) = (one.strip() for one in shown.splitlines() if "payout approve" in one)

    code = command(*shlex.split(line.replace("<why>", "I called"))[1:])[0]

    assert "--contradicts" in line
    assert (code, stuck.row()["status"]) == (Exit.FINE, Status.REFUSED)
    assert "not-paid against the bank, by" in command("payout", "status", KEY)[1]


# Ask


def test_payout_ask_queries_the_bank_at_once(office: Office, command: Command) -> None:
    office.put(Move.SEND, Move.DOUBT)
    office.bank.found = Found(Word.PAID)

    code, out, err = command("payout", "ask", KEY)

    assert (code, err) == (Exit.FINE, "")
    assert re.search(r"^status +PAID$", out, re.MULTILINE)


def test_payout_ask_reports_an_unknown_payout_as_not_found(office: Office, command: Command) -> None:
    code, _, err = command("payout", "ask", KEY)

    assert (code, "PayoutNotFound" in err) == (Exit.NOT_FOUND, True)


def test_a_failed_payout_ask_shows_the_previous_state(office: Office, command: Command) -> None:
    office.put()
    office.follow.down = True

    code, out, _ = command("payout", "ask", KEY)

    assert code == Exit.IN_FLIGHT
    assert re.search(r"^status +RESERVED$", out, re.MULTILINE)
    assert re.search(r"^not_yet +ClientError$", out, re.MULTILINE)
