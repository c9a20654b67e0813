import json
import shlex
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.payouts.moves import Move
from settlement.payouts.payout import Status, Word
from tests.settle.conftest import Command
from tests.settle.desk import ADA
from tests.settle.payouts.office import IBAN, IN_LIMBO, KEY, STUCK, WIRE, Office, office
from tests.world.environment import NOW

__all__ = ["office"]

PAID = (Move.SEND, Move.ACCEPT, Move.PAY)
HOSTILE = "the bank\x1b[2Ksays\u202e yes"


def shown(command: Command, *words: str) -> tuple[int, Any]:
    code, out, _ = command("payout", *words, "--json")
    return code, json.loads(out)


def entry(step: str, posted_at: str, debit: str, credit: str) -> dict[str, Any]:
    account = "alice" if "alice" in (debit, credit) else credit
    place = keys.entry(account, posted_at, KEY, f"payout-{step}")
    moved = {"debit": debit, "credit": credit, "amount": 48_20, "currency": "EUR"}
    return {**place, "step": f"payout-{step}", "posted_at": posted_at, **moved}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ((), Exit.IN_FLIGHT),
        ((Move.SEND,), Exit.IN_FLIGHT),
        (PAID, Exit.FINE),
        ((Move.SEND, Move.REFUSE), Exit.REFUSED),
        ((*PAID, Move.RETURN), Exit.REFUSED),
        (IN_LIMBO, Exit.LIMBO),
    ],
)
def test_the_exit_code_follows_the_payouts_status(
    office: Office, command: Command, path: tuple[Move, ...], code: Exit
) -> None:
    state = office.put(*path)

    found, told = shown(command, "status", KEY)

    assert (found, told["status"], told["amount"]) == (code, state.status, "48.20")


def test_a_paid_payout_without_a_bank_debit_needs_a_decision(office: Office, command: Command) -> None:
    office.put(*PAID, trouble="no statement has its debit")

    code, told = shown(command, "status", KEY)

    assert (code, told["status"]) == (Exit.LIMBO, Status.PAID)
    assert [one["verdict"] for one in told["case"]["verdicts"]] == ["not-paid", "ask", "close"]


def test_only_the_ibans_last_digits_are_shown(office: Office, command: Command) -> None:
    office.put(*IN_LIMBO)

    for options in ((), ("--json",)):
        out = command("payout", "status", KEY, *options)[1]
        assert IBAN not in out
        assert IBAN[:-4] not in out
    assert shown(command, "status", KEY)[1]["iban"] == "…3000"
    assert "Ida Example" in out


def test_an_unknown_payout_is_not_found(office: Office, command: Command) -> None:
    code, out, err = command("payout", "status", KEY)

    assert (code, out) == (Exit.NOT_FOUND, "")
    assert err == f"settle: key: {KEY} has no payout in under-test\n"


def test_a_payout_shows_the_entries_that_moved_its_money(office: Office, command: Command) -> None:
    office.add_payee()
    assert office.services.call("POST", "/payouts", WIRE).status == 202
    for _ in range(2):
        command("payout", "ask", KEY)
    paid = timestamp(NOW)
    office.alter(keys.payout(KEY), status="PAID", paid_at=paid, ended_at=paid)
    office.desk.ledger.put(entry("pay", paid, "transit:EUR", "external:EUR"))
    office.desk.ledger.put(
        entry("return", paid, "external:EUR", "suspense:EUR")
        | keys.entry("suspense:EUR", paid, KEY, "payout-return")
    )

    told = shown(command, "status", KEY)[1]

    assert [(one["step"], one["moved"], one["amount"]) for one in told["entries"]] == [
        ("payout-pay", "transit:EUR → external:EUR", "48.20"),
        ("payout-return", "external:EUR → suspense:EUR", "48.20"),
        ("payout-reserve", "alice → transit:EUR", "48.20"),
    ]


def test_a_malformed_entry_is_named_beside_the_good_ones(office: Office, command: Command) -> None:
    state = office.put()
    office.desk.ledger.put(entry("reserve", state.reserved_at, "alice", "transit:EUR") | {"amount": "much"})

    code, out, err = command("payout", "status", KEY)

    assert (code, "RESERVED" in out) == (Exit.FAILED, True)
    assert "cannot be read: ENTRIES: amount is no int" in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "GONE"),
        ("amount", "48.20"),
        ("iban", "DE00"),
        ("holder", "a\nb"),
        ("destination", "flat-10"),
    ],
)
def test_a_malformed_payout_is_named(office: Office, command: Command, name: str, value: str) -> None:
    office.put()
    office.alter(keys.payout(KEY), **{name: value})

    code, out, err = command("payout", "status", KEY)

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert f"PAYOUT#{KEY}" in err


def test_hostile_text_prints_no_terminal_control_characters(office: Office, command: Command) -> None:
    office.put(*IN_LIMBO, detail=HOSTILE)
    office.alter(keys.payout(KEY), trouble=HOSTILE)

    for words in (("status", KEY), ("list", "--cases")):
        out = command("payout", *words)[1]
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\\x1b[2Ksays\\u202e yes" in out


# Cases


def test_each_verdict_of_a_case_has_its_effect_and_command(office: Office, command: Command) -> None:
    state = office.put(*IN_LIMBO)

    case = shown(command, "status", KEY)[1]["case"]

    assert (case["number"], case["trouble"], case["digest"]) == (1, STUCK, state.digest)
    assert [one["verdict"] for one in case["verdicts"]] == ["paid", "not-paid", "ask"]
    assert case["verdicts"][1]["effect"] == "the bank never pays it: 48.20 EUR go back to alice"
    for one in case["verdicts"]:
        words = shlex.split(one["command"])
        assert words[:5] == ["settle", "payout", "propose", KEY, one["verdict"]]
        assert words[5:11] == ["--case", "1", "--digest", state.digest, "--reason", "<why>"]


@pytest.mark.parametrize(
    ("said", "against"),
    [(Word.ACCEPTED, "not-paid"), (Word.PAID, "not-paid"), (Word.REFUSED, "paid"), (Word.NEVER_SEEN, "paid")],
)
def test_a_verdict_that_contradicts_the_banks_answer_is_marked(
    office: Office, command: Command, said: Word, against: str
) -> None:
    office.put(*IN_LIMBO, said=said, said_at=timestamp(NOW))

    verdicts = shown(command, "status", KEY)[1]["case"]["verdicts"]
    out = command("payout", "status", KEY)[1]

    marked = {one["verdict"]: one["contradicts"] for one in verdicts}
    assert {verdict for verdict, word in marked.items() if word} == {against}
    assert {one["verdict"] for one in verdicts if "--contradicts" in one["command"]} == {against}
    assert f"(contradicts the bank, which said {said})" in out


@pytest.mark.parametrize("state", [(*PAID, Move.RETURN)])
def test_money_in_suspense_can_only_be_given_back(
    office: Office, command: Command, state: tuple[Move, ...]
) -> None:
    office.put(*state, in_suspense=1, trouble="it came back")

    (only,) = shown(command, "status", KEY)[1]["case"]["verdicts"]

    assert (only["verdict"], only["effect"]) == ("give-back", "48.20 EUR go from suspense to alice")


def test_a_proposal_has_its_person_and_the_command_to_approve(office: Office, command: Command) -> None:
    state = office.put(*IN_LIMBO)
    command("payout", "propose", KEY, "not-paid", "--reason", "the bank's letter")

    case = shown(command, "status", KEY)[1]["case"]
    out = command("payout", "status", KEY)[1]
    listed = shown(command, "list", "--cases")[1]

    proposed = {one["verdict"]: one["proposed"] for one in case["verdicts"]}
    assert (proposed["paid"], proposed["ask"]) == (None, None)
    assert (proposed["not-paid"]["by"], proposed["not-paid"]["reason"]) == (ADA, "the bank's letter")
    assert f"settle payout approve {KEY} not-paid --case 1 --digest {state.digest}" in out
    assert f"proposed by {ADA} at " in out
    assert [one["proposed"] for one in listed] == ["not-paid"]


def test_a_proposal_about_an_earlier_state_is_not_shown(office: Office, command: Command) -> None:
    office.put(*IN_LIMBO)
    command("payout", "propose", KEY, "not-paid", "--reason", "the bank's letter")
    office.alter(keys.payout(KEY), detail="something new")

    case = shown(command, "status", KEY)[1]["case"]

    assert [one["proposed"] for one in case["verdicts"]] == [None, None, None]


@pytest.mark.parametrize("changed", [{"verdict": "paid"}, {"digest": "0" * 64}, {"reason": 7}], ids=str)
def test_a_malformed_proposal_is_named_and_not_shown(
    office: Office, command: Command, changed: dict[str, Any]
) -> None:
    state = office.put(*IN_LIMBO)
    command("payout", "propose", KEY, "not-paid", "--reason", "the bank's letter")
    office.alter(keys.payout_proposed(KEY, 1, state.digest, "not-paid"), **changed)

    code, out, err = command("payout", "status", KEY)
    listed = command("payout", "list", "--cases")

    assert (code, "proposed by" in out) == (Exit.FAILED, False)
    assert f"cannot be read: PAYOUT_CASE#{KEY}: " in err
    assert (listed[0], KEY in listed[1]) == (Exit.FAILED, True)
    assert f"PAYOUT_CASE#{KEY}: " in listed[2]


# Lists


def test_payouts_under_way_are_listed_by_their_next_look(office: Office, command: Command) -> None:
    later, sooner = office.put(), office.put(Move.SEND, key="payout-2026-000102")
    office.alter(keys.payout(sooner.key), gsi1sk="2026-11-20T11:00:00.000Z")
    office.put(*IN_LIMBO, key="payout-in-limbo-001")
    office.put(Move.SEND, Move.REFUSE, key="payout-refused-001")

    code, told = shown(command, "list")

    assert [(one["key"], one["next_look"]) for one in told] == [
        (sooner.key, "2026-11-20T11:00:00.000Z"),
        (later.key, later.listed_at),
    ]
    assert (code, command("payout", "list", "--limit", "1")[2]) == (
        Exit.FINE,
        "there are more than these 1; see more of them with --limit\n",
    )


def test_cases_are_listed_with_their_trouble(office: Office, command: Command) -> None:
    office.put()
    office.put(*IN_LIMBO, key="payout-in-limbo-001")

    code, told = shown(command, "list", "--cases")

    assert (code, [(one["key"], one["trouble"], one["case"]) for one in told]) == (
        Exit.FINE,
        [("payout-in-limbo-001", STUCK, 1)],
    )


def faulty(office: Office, identity: str, **line: Any) -> None:
    """Put a refused bank line: its PAYOUT_LINE row and its BANK_LINE row."""
    place = keys.payout_lines_index("2026-11-20", is_refused=True)
    listed = {
        **keys.payout_line(identity),
        **place,
        "booked": "2026-11-20",
        "refused": "line: a second debit",
    }
    own = {
        **keys.bank_line(identity),
        **{"bank_account": "ours", "currency": "EUR", "booked": "2026-11-20", "valued": "2026-11-20"},
        **{"bank_reference": "B-1", "reference": "R-1", "returns": "", "amount": 48_20, "side": "out"},
        **{"statement": "S-1", "part": 0, "at": 7, "file": "ab" * 32},
    }
    for row in (listed, own):
        office.desk.ledger.put(row | line)


def test_refused_lines_are_listed_with_their_reason(office: Office, command: Command) -> None:
    faulty(office, "1d" * 32)

    code, told = shown(command, "list", "--lines")

    assert (code, told) == (
        Exit.FINE,
        [
            {
                **{"key": "1d" * 32, "booked": "2026-11-20", "side": "out", "currency": "EUR"},
                **{"bank_reference": "B-1", "reference": "R-1", "file": "ab" * 32, "amount": "48.20"},
                "refused": "line: a second debit",
            }
        ],
    )


def test_a_malformed_row_is_named_beside_the_good_ones(office: Office, command: Command) -> None:
    for path, key in (((), "payout-good-000001"), (IN_LIMBO, "payout-case-000001")):
        office.put(*path, key=key)
        office.put(*path, key=f"{key}x")
        office.alter(keys.payout(f"{key}x"), amount="much")
        forged = office.row(key) | {"pk": f"SETTLEMENT#{key}f", "sk": "SETTLEMENT"}
        office.desk.ledger.put(forged)
    faulty(office, "1d" * 32)
    faulty(office, "2e" * 32, amount="much")
    faulty(office, "3f" * 32)
    office.desk.ledger.delete(keys.bank_line("3f" * 32))

    for options, good, bad in (
        ((), "payout-good-000001", ("PAYOUT#payout-good-000001x", "SETTLEMENT#payout-good-000001f")),
        (
            ("--cases",),
            "payout-case-000001",
            ("PAYOUT#payout-case-000001x", "SETTLEMENT#payout-case-000001f"),
        ),
        (("--lines",), "1d" * 32, (f"PAYOUT_LINE#{'2e' * 32}", f"PAYOUT_LINE#{'3f' * 32}")),
    ):
        code, out, err = command("payout", "list", *options, "--json")

        assert code == Exit.FAILED
        assert "unreadable" not in {one["key"]: one for one in json.loads(out)}[good]
        assert [name for name in bad if f"{name}: " not in err] == []
        assert len(err.splitlines()) == len(bad)


def test_listing_cases_and_lines_together_is_refused(office: Office, command: Command) -> None:
    code, _, err = command("payout", "list", "--cases", "--lines")

    assert (code, err) == (Exit.USAGE, "settle: list: give one of --cases and --lines\n")


def test_an_empty_list_says_so(office: Office, command: Command) -> None:
    assert command("payout", "list")[1] == "no payout is under way\n"
    assert command("payout", "list", "--cases")[1] == "no payout has an open case\n"
    assert command("payout", "list", "--lines")[1] == "no line of the bank is refused\n"
