import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.payouts import moves
from settlement.payouts.moves import Move
from settlement.payouts.payout import State
from settlement.payruns.file import Kind, Line, key_of
from tests.settle.conftest import Command
from tests.settle.payouts.office import IN_LIMBO, STUCK, Office, office
from tests.settle.payruns.conftest import NAME, Runs
from tests.settle.reports.test_report import HOSTILE, local, misnamed, parsed, texts
from tests.settle.reports.test_report_queue import cells
from tests.world.environment import NOW

__all__ = ["office"]

MEND = "the payer has the money: mend the line, and propose it in a follow-up run"


def results(command: Command, *options: str, code: int = 0) -> list[dict[str, Any]]:
    found, out, _ = command("payrun", "results", NAME, "--json", *options)
    assert found == code
    told: list[dict[str, Any]] = json.loads(out)
    return told


def page(runs: Runs, command: Command) -> str:
    file = runs.folder / "run.html"
    code, out, err = command("payrun", "report", NAME, "-o", str(file), "--force")
    assert (code, out, err) == (Exit.FINE, f"{file}\n", "")
    return file.read_text()


# Each outcome of a payment: how it comes about, why it did, and what is next.


def settled(runs: Runs) -> None:
    runs.paid()


def not_run(runs: Runs) -> None:
    runs.propose()


def cancelled(runs: Runs) -> None:
    runs.order("cancel", runs.propose())


def short(runs: Runs) -> None:
    runs.go()
    runs.desk.pay(amount="490.00", fee="0.00")
    runs.pay()


def taken(runs: Runs) -> None:
    run = runs.go()
    runs.desk.pay(key_of(run, 2), "claim")
    runs.pay()


def altered(**changed: Any) -> Callable[[Runs], None]:
    def act(runs: Runs) -> None:
        runs.settlement(runs.paid(), 2, **changed)

    return act


OUTCOMES: dict[str, tuple[Callable[[Runs], None], str, str]] = {
    "SETTLED": (settled, "", "nothing"),
    "REJECTED": (short, "InsufficientFunds", MEND),
    "COMPENSATED": (altered(status="COMPENSATED", failure={"error": "KycRejected"}), "KycRejected", MEND),
    "COMPENSATING": (altered(status="COMPENSATING"), "", "it is under way: wait"),
    "PROCESSING": (altered(status="PROCESSING"), "", "it is under way: wait"),
    "LIMBO": (altered(status="LIMBO", failure={"error": "SpentMoney"}), "SpentMoney", "settle limbo show "),
    "REFUSED": (taken, "IdempotencyConflict: ", MEND),
    "NOT BEGUN": (not_run, "", "the run has not come to it"),
    "NOT BEGUN since it is cancelled": (cancelled, "", "it is never paid"),
    "UNREADABLE": (altered(amount="much"), "", "settle reconcile --stack under-test"),
}


@pytest.mark.parametrize(("name", "act", "why", "then"), [(name, *how) for name, how in OUTCOMES.items()])
def test_each_outcome_has_its_reason_and_next_action(
    runs: Runs, command: Command, name: str, act: Callable[[Runs], None], why: str, then: str
) -> None:
    act(runs)
    outcome = name.partition(" since")[0]

    code, out, err = command("payrun", "results", NAME)
    line = results(command, code=code)[0]

    assert code == (Exit.FAILED if outcome == "UNREADABLE" else Exit.FINE)
    assert (f"cannot be read: line 2: {line['key']}" in err) is (outcome == "UNREADABLE")
    assert (line["outcome"], line["line"], line["reference"]) == (outcome, 2, "November")
    assert (line["why"] or "").startswith(why)
    assert line["next"].startswith(then)
    assert all(told in out for told in (outcome, why, then, line["key"]))
    shown = page(runs, command)
    row = next(iter(cells(shown, "Each line of the file")))
    assert [row[at] for at in (0, 1, 2, 3, 6)] == ["2", "bob", "48.20 EUR", outcome, line["key"]]
    assert (row[4], row[5]) == (line["why"] or "", line["next"])
    assert misnamed(shown) == []


def test_a_stuck_lines_command_shows_its_case(runs: Runs, command: Command) -> None:
    run = runs.go("bob,48.20,EUR,")
    runs.desk.machines.runs = False
    runs.pay()
    runs.settlement(run, 2, status="LIMBO")

    line = results(command)[0]

    _, *words = shlex.split(line["next"].removesuffix(" --stack under-test"))
    assert words == ["limbo", "show", key_of(run, 2)]


# Payouts

WAIT = "it is under way: wait"
PAYOUTS: dict[str, tuple[tuple[Move, ...], str]] = {
    "RESERVED": ((), WAIT),
    "SENDING": ((Move.SEND,), WAIT),
    "PAID": ((Move.SEND, Move.ACCEPT, Move.PAY), "nothing"),
    "REFUSED": ((Move.SEND, Move.REFUSE), MEND),
    "RETURNED": ((Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN), MEND),
    "IN SUSPENSE": ((Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN), "settle payout status "),
    "LIMBO": (IN_LIMBO, "settle payout status "),
}


@pytest.mark.parametrize(("status", "path", "then"), [(name, *how) for name, how in PAYOUTS.items()])
def test_each_status_of_a_payout_has_its_next_action(
    runs: Runs, office: Office, command: Command, status: str, path: tuple[Move, ...], then: str
) -> None:
    office.add_payee()
    run = runs.paid("flat-9,48.20,EUR", head="destination,amount,currency", kind=Kind.PAYOUTS)
    key = key_of(run, 2)
    state = State.from_row(office.row(key))
    for move in path:
        more: dict[Move, dict[str, Any]] = {
            Move.SEND: {"sent_sha256": "5c" * 32},
            Move.STICK: {"trouble": STUCK},
            Move.RETURN: {"in_suspense": 1, "trouble": STUCK} if status == "IN SUSPENSE" else {},
        }
        state = moves.after(state, move, NOW, **more.get(move, {}))
    runs.desk.ledger.put(state.to_row())

    (line,) = results(command)

    assert (line["outcome"], line["payee"], line["key"]) == (status, "flat-9", key)
    assert line["next"].startswith(then)


def test_a_payout_over_its_limit_is_refused_with_a_reason(
    runs: Runs, office: Office, command: Command
) -> None:
    office.add_payee()
    runs.paid("flat-9,100.01,EUR", head="destination,amount,currency", kind=Kind.PAYOUTS)

    (line,) = results(command)

    assert (line["outcome"], line["next"]) == ("REFUSED", MEND)
    assert line["why"].startswith("PayoutRefused: ")


# Files for programs and spreadsheets


def hostile(runs: Runs) -> None:
    formula = "=HYPERLINK(A1)"
    runs.smuggle(
        Line(number=2, payee="bob", amount="1.00", currency="EUR", reference=formula),
        Line(number=3, payee=HOSTILE, amount="2.00", currency="EUR", reference=HOSTILE),
        Line(number=4, payee="-5", amount="3.00", currency="EUR", payee_name=HOSTILE),
    )


@pytest.mark.parametrize("option", ["--csv", "--spreadsheet"])
def test_the_spreadsheet_option_escapes_formulas_and_csv_does_not(
    runs: Runs, command: Command, option: str
) -> None:
    hostile(runs)

    code, out, err = command("payrun", "results", NAME, option)

    rows = list(csv.DictReader(io.StringIO(out)))
    guard = "'" if option == "--spreadsheet" else ""
    assert (code, err, len(rows)) == (Exit.FINE, "", 3)
    assert rows[0]["reference"] == f"{guard}=HYPERLINK(A1)"
    assert rows[2]["payee"] == f"{guard}-5"
    assert (rows[1]["line"], rows[1]["amount"]) == ("3", "2.00")
    assert [char for char in out if not (char.isprintable() or char in "\r\n")] == []


def test_two_output_formats_together_are_refused(runs: Runs, command: Command) -> None:
    code, out, err = command("payrun", "results", NAME, "--csv", "--json")

    assert (code, out, err.startswith("settle: csv: give one of")) == (Exit.USAGE, "", True)


def test_hostile_lines_are_shown_without_control_characters(runs: Runs, command: Command) -> None:
    hostile(runs)

    for options in ((), ("--json",)):
        out = command("payrun", "results", NAME, *options)[1]
        assert [char for char in out if not (char.isprintable() or char == "\n")] == []
    text = page(runs, command)
    assert not {"script", "img"} & {local(one) for one in parsed(text).iter()}
    assert not [one for one in "\x1b\u202e\x00\x7f" if one in text]
    assert "<script>alert(1)" in texts(text)


# The report


def test_the_report_counts_outcomes_and_names_persons(runs: Runs, command: Command) -> None:
    run = runs.paid()
    runs.settlement(run, 4, status="LIMBO")

    shown = texts(page(runs, command))

    for told in (f"Pay run {NAME}", "3 lines from", "LIMBO 1", "SETTLED 2", "the sellers", "grace", run):
        assert told in shown


def test_a_report_is_replaced_only_with_force(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.folder)
    told = runs.propose()
    file = Path(f"{told['run']}.html")

    first, again = (command("payrun", "report", NAME) for _ in range(2))

    assert (first, file.stat().st_mode & 0o777) == ((Exit.FINE, f"{file}\n", ""), 0o600)
    assert (again[0], "add --force" in again[2]) == (Exit.CONFLICT, True)
    assert command("payrun", "report", NAME, "--force")[0] == Exit.FINE


def test_a_malformed_line_is_unreadable_and_the_others_are_shown(runs: Runs, command: Command) -> None:
    run = runs.paid()
    runs.desk.ledger.put(keys.payrun_line(run, 3) | {"refused": 7, "why": ["x"]})
    runs.settlement(run, 2, failure="x")

    found = results(command, code=Exit.FAILED)

    assert [one["outcome"] for one in found] == ["UNREADABLE", "SETTLED", "SETTLED"]
