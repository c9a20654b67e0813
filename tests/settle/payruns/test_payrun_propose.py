import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from settle import instants
from settle.accounts.accounts import open_account
from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.payouts import moves
from settlement.payouts.moves import Move
from settlement.payouts.payout import State
from settlement.payruns import bucket, file
from settlement.payruns.file import Kind, key_of, parse, run_of
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payouts.office import STUCK, Office, office
from tests.settle.payruns.conftest import HEAD, LINES, NAME, Runs
from tests.world.environment import NOW

__all__ = ["office"]

KNOWN = ("--name", NAME, "--reason", "the sellers")
OTHER = "bob,2.00,EUR,another"


def propose(command: Command, file: str, *options: str, payer: str = "alice") -> Any:
    return command("payrun", "propose", file, *KNOWN, "--payer", payer, *options)


def digest_of(runs: Runs) -> str:
    (name,) = runs.s3.objects
    return name.removeprefix("runs/").removesuffix(".jsonl")


def test_a_correct_file_is_stored_once_and_proposed(runs: Runs, command: Command) -> None:
    file = runs.written()

    code, out, err = propose(command, file)

    assert (code, err) == (Exit.FINE, "")
    digest = digest_of(runs)
    found = parse(runs.s3.objects[f"runs/{digest}.jsonl"], digest)
    assert [(line.number, line.payee) for line in found.lines] == [(2, "bob"), (3, "shop"), (4, "bob")]
    for told in ("3 lines: 59.25 EUR", "left on alice: 440.75 EUR", "1 payees have several lines", ADA):
        assert told in out
    assert f"settle payrun approve {run_of(digest)} --digest {digest} --stack under-test" in out


def test_the_same_file_again_is_the_same_run(runs: Runs, command: Command) -> None:
    first = json.loads(propose(command, runs.written(), "--json")[1])
    runs.order("approve", first)
    runs.order("run", first)
    runs.pay()
    runs.desk.pay(amount="430.00", fee="0.00")  # too little is left to pay the file again
    rows = len(runs.desk.ledger.rows())
    lines = "\r\n".join(line.replace(",", ";") for line in (HEAD, *LINES))
    runs.folder.joinpath("other.csv").write_bytes(lines.encode("utf-16"))

    code, out, err = propose(command, str(runs.folder / "other.csv"))

    assert (code, err) == (Exit.FINE, "")
    assert f"run {first['run']} has exactly these lines, and is FINISHED" in out
    assert len(runs.s3.versions) == len(runs.s3.versions[f"runs/{first['digest']}.jsonl"]) == 1
    assert len(runs.desk.ledger.rows()) == rows


def test_a_file_is_checked_again_until_its_run_has_begun(runs: Runs, command: Command) -> None:
    """So its approver can check it, too."""
    run = runs.propose()["run"]
    right = propose(command, runs.written(), "--check")
    frozen(runs)

    code, _, err = propose(command, runs.written(), "--check")
    runs.desk.alter(keys.payrun(run), begun=1)

    assert (right[0], code, "bob is frozen" in err) == (Exit.FINE, Exit.USAGE, True)
    assert propose(command, runs.written())[0] == Exit.FINE


@pytest.mark.parametrize(
    "again", [(NAME, "beside the first"), ("other-name", "the sellers")], ids=["reason", "name"]
)
def test_another_name_makes_another_run_but_another_reason_does_not(
    runs: Runs, command: Command, again: tuple[str, str]
) -> None:
    first = runs.propose()
    name, reason = again
    given = (runs.written(), "--payer", "alice", "--name", name, "--reason", reason, "--json")

    code, out, err = command("payrun", "propose", *given)

    is_same = name == NAME
    assert code == (Exit.FINE if is_same else Exit.USAGE)
    assert len(runs.s3.objects) == 1
    if is_same:
        assert json.loads(out)["reason"] == first["reason"]
    else:
        assert f"line 2: equals line 2 of run {NAME} (NOT BEGUN): cancel that run" in err


def test_json_lines_from_standard_input_are_proposed(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = runs.folder / "lines.jsonl"
    file.write_text('{"payee": "bob", "amount": "48.20"}')
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, _ = propose(command, "-", "--currency", "EUR", "--json")

    assert (code, json.loads(out)["sums"]) == (Exit.FINE, {"EUR": "48.20"})


# Faults


def frozen(runs: Runs) -> None:
    runs.desk.alter(keys.account("bob"), frozen_at="2026-11-20T12:00:00.000Z")


def closed(runs: Runs) -> None:
    runs.desk.alter(keys.account("bob"), closed_at="2026-11-20T12:00:00.000Z")


def limbo(runs: Runs) -> None:
    runs.desk.alter(keys.account("bob"), limbo_cases=1)


def dollars(runs: Runs) -> None:
    runs.desk.alter(keys.account("bob"), currency="USD")


def damaged(runs: Runs) -> None:
    runs.desk.alter(keys.account("bob"), available="much")


def frozen_payer(runs: Runs) -> None:
    runs.desk.alter(keys.account("alice"), frozen_at="2026-11-20T12:00:00.000Z")


def as_it_is(runs: Runs) -> None:
    pass


FAULTS: dict[str, tuple[Callable[[Runs], None], tuple[str, ...], str]] = {
    "no account": (as_it_is, ("nobody,1.00,EUR,",), "line 2, payee: nobody has no account here"),
    "no merchant": (as_it_is, ("merchant.x,1.00,EUR,",), "line 2, payee: merchant.x has no account here"),
    "frozen": (frozen, LINES, "line 2, payee: bob is frozen"),
    "closed": (closed, LINES, "line 4, payee: bob is closed"),
    "LIMBO": (limbo, LINES, "line 4, payee: bob is blocked by a case of LIMBO"),
    "currency": (dollars, LINES, "line 2, payee: bob has USD"),
    "damaged payee": (damaged, LINES, "line 2, payee: ACCOUNT: available is no int"),
    "currency of the payer": (as_it_is, ("bob,1.00,USD,",), "line 2, currency: the payer has EUR alone"),
    "payer": (as_it_is, ("alice,1.00,EUR,",), "line 2, payee: is the payer itself"),
    "frozen payer": (frozen_payer, LINES, "file: the payer alice is closed, frozen or blocked"),
    "funds": (
        as_it_is,
        ("bob,500.01,EUR,",),
        "file: the payer would have -0.01 EUR: pay in first, or leave lines out",
    ),
    "equal": (as_it_is, (*LINES, "bob,48.2,EUR,November"), "line 5: is equal to line 2"),
    "form": (as_it_is, ("bob,-1,EUR,",), "line 2, amount: must be more than 0"),
    "column": (as_it_is, ("bob,1,EUR,,x",), "line 2: must have 4 fields"),
}


@pytest.mark.parametrize(("spoil", "lines", "told"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_and_nothing_is_proposed(
    runs: Runs,
    command: Command,
    spoil: Callable[[Runs], None],
    lines: tuple[str, ...],
    told: str,
) -> None:
    spoil(runs)
    given = len(runs.desk.door.given)

    code, _, err = propose(command, runs.written(*lines))
    problems = json.loads(propose(command, runs.written(*lines), "--json")[1])["problems"]

    assert (code, told in err) == (Exit.USAGE, True), err
    assert "faults: nothing was proposed" in err
    assert (runs.s3.versions, len(runs.desk.door.given)) == ({}, given)
    shown = {f"line {one['line']}" if one["line"] else "file" for one in problems}
    assert told.partition(":")[0].partition(",")[0] in shown


@pytest.mark.parametrize(
    ("payer", "told"), [("nobody", "the payer nobody has no account here"), ("a:b", "payer: must")]
)
def test_a_payer_without_an_account_is_a_fault(runs: Runs, command: Command, payer: str, told: str) -> None:
    code, _, err = propose(command, runs.written(), payer=payer)

    assert (code, told in err, runs.s3.versions) == (Exit.USAGE, True, {})


def test_a_run_can_pay_the_payers_whole_balance(runs: Runs, command: Command) -> None:
    open_account(runs.desk.stack, "merchant.shop", "EUR", "0")

    code, out, err = propose(command, runs.written("merchant.shop,500.00,EUR,"))

    assert (code, err, "left on alice: 0.00 EUR" in out) == (Exit.FINE, "", True)


def test_many_faults_are_counted_and_not_all_shown(runs: Runs, command: Command) -> None:
    code, _, err = propose(command, runs.written(*[f"nobody{one},0.01,EUR," for one in range(130)]))

    assert (code, len(err.splitlines())) == (Exit.USAGE, 102)
    assert "and 30 more faults" in err
    assert "130 faults: nothing was proposed" in err


def test_a_check_shows_the_sums_and_proposes_nothing(runs: Runs, command: Command) -> None:
    with runs.desk.writes_nothing():
        code, out, err = propose(command, runs.written(), "--check")
        told = json.loads(propose(command, runs.written(), "--check", "--json")[1])

    assert (code, err, runs.s3.versions) == (Exit.FINE, "", {})
    assert out.splitlines()[0] == "3 lines: 59.25 EUR"
    assert (told["lines"], told["sums"], told["problems"]) == (3, {"EUR": "59.25"}, [])


@pytest.mark.parametrize(
    ("options", "lines"), [(("--leave-out", "5"), (2, 3, 4)), (("--repeat", "5"), (2, 3, 4, 5))]
)
def test_an_equal_line_is_left_out_or_repeated_by_option(
    runs: Runs, command: Command, options: tuple[str, ...], lines: tuple[int, ...]
) -> None:
    code, out, _ = propose(command, runs.written(*LINES, LINES[0]), *options, "--json")

    digest = json.loads(out)["digest"]
    found = parse(runs.s3.objects[f"runs/{digest}.jsonl"], digest)
    assert (code, tuple(line.number for line in found.lines)) == (Exit.FINE, lines)
    assert found.header.repeats == ((5,) if options[0] == "--repeat" else ())


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--leave-out", "file: --leave-out 9 must be the number"),
        ("--repeat", "file: --repeat: no line 9 is there"),
    ],
)
def test_an_option_that_names_an_absent_line_is_a_fault(
    runs: Runs, command: Command, option: str, told: str
) -> None:
    code, _, err = propose(command, runs.written(), option, "9")

    assert (code, told in err, runs.s3.versions) == (Exit.USAGE, True, {})


def test_a_file_over_the_size_limit_is_a_fault(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "BYTES_MAX", 100)

    code, _, err = propose(command, runs.written())

    assert (code, "over 100 bytes: split the sheet" in err, runs.s3.versions) == (Exit.USAGE, True, {})


def test_checking_more_lines_does_not_render_the_file_more_often(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rendering the file for each of 100,000 lines took a day."""
    rendered = Mock(side_effect=file.rendered)
    monkeypatch.setattr(file, "rendered", rendered)
    calls = []
    for count in (2, 40):
        rendered.reset_mock()
        runs.propose(*(f"bob,0.01,EUR,{count} {one}" for one in range(count)), name=f"run-{count}")
        calls.append(rendered.call_count - len(runs.s3.versions))  # each recorded file is parsed

    assert calls[0] == calls[1]


@pytest.mark.parametrize("name", ["-x", "a b", "<b>", "x" * 65, ""])
def test_a_name_outside_the_pattern_is_refused(runs: Runs, command: Command, name: str) -> None:
    words = (runs.written(), f"--name={name}", "--payer", "alice", "--reason", "x")

    code, out, err = command("payrun", "propose", *words)

    assert (code, out, err.startswith("settle: name: must match")) == (Exit.USAGE, "", True)


# Earlier runs

ENDS = {
    "SETTLED": {},
    "LIMBO": {"status": "LIMBO"},
    "PROCESSING": {"status": "PROCESSING"},
    "COMPENSATING": {"status": "COMPENSATING"},
    "REJECTED": {"status": "REJECTED"},
    "COMPENSATED": {"status": "COMPENSATED"},
    "UNREADABLE": {"amount": "much"},
}
BACK = {"REJECTED", "COMPENSATED"}


@pytest.mark.parametrize("end", ENDS)
def test_a_line_is_paid_again_only_if_rejected_or_compensated(runs: Runs, command: Command, end: str) -> None:
    run = runs.paid(LINES[0])
    runs.settlement(run, 2, **ENDS[end])

    code, _, err = propose(command, runs.written(OTHER, "bob,48.2,EUR,November"), "--check")
    repeated = propose(command, runs.written(OTHER, "bob,48.2,EUR,November"), "--repeat", "3")[0]

    assert (code, repeated) == (Exit.FINE if end in BACK else Exit.USAGE, Exit.FINE)
    assert (f"line 3: equals line 2 of run {NAME} ({end}): leave it out" in err) is (end not in BACK)


def test_lines_of_a_cancelled_run_may_be_proposed_again(runs: Runs, command: Command) -> None:
    first = runs.propose()
    refused = propose(command, runs.written(*LINES, OTHER))
    runs.order("cancel", first)

    code, out, _ = propose(command, runs.written(*LINES, OTHER))

    assert (refused[0], code) == (Exit.USAGE, Exit.FINE)
    assert "cancel that run, leave it out" in refused[2]
    assert "1 lines are new, 0 are gone" in out


def test_a_file_is_compared_to_the_last_equally_named_run(runs: Runs, command: Command) -> None:
    runs.order("cancel", runs.propose())

    out = propose(command, runs.written(LINES[0], LINES[1], OTHER), "--check")[1]

    assert "unlike the last run of this name: 1 lines are new, 1 are gone" in out
    assert "  new: line 4: bob 2.00 EUR" in out
    assert "  gone: line 4: bob 1.05 EUR" in out


@pytest.mark.parametrize(
    ("days", "name", "payer", "is_fault"),
    [
        (20, "other", "alice", True),
        (21, "other", "alice", False),
        (21, NAME, "alice", True),
        (1, NAME, "carol", False),
    ],
)
def test_runs_of_a_payer_are_compared_for_20_days(
    runs: Runs, command: Command, days: int, name: str, payer: str, *, is_fault: bool
) -> None:
    open_account(runs.desk.stack, "carol", "EUR", "100.00")
    run = runs.paid(name=name, payer=payer)
    at = timestamp(instants.now() - timedelta(days=days))
    runs.desk.alter(keys.payrun(run), changed_at=at)

    code, _, err = propose(command, runs.written(*LINES, OTHER))
    of_parent = propose(command, runs.written(*LINES, OTHER), "--parent", run)[0]

    assert (code, f"of run {name} (SETTLED)" in err) == (Exit.USAGE if is_fault else Exit.FINE, is_fault)
    assert of_parent == (Exit.NOT_FOUND if payer == "carol" else Exit.USAGE)


@pytest.mark.parametrize(
    "spoil", [{"name": 7}, {"status": "LOST"}, {"sums": {"SETTLED XXX": 0}}, {"lines": "3"}], ids=str
)
def test_an_unreadable_earlier_run_blocks_other_proposals_of_its_payer(
    runs: Runs, command: Command, spoil: dict[str, Any]
) -> None:
    told = runs.propose()
    runs.desk.alter(keys.payrun(told["run"]), **spoil)

    code, _, err = propose(command, runs.written(*LINES))
    other = propose(command, runs.written(OTHER))

    assert (code in (Exit.FAILED, Exit.USAGE), other[0]) == (True, Exit.USAGE)
    assert f"PAYRUN#{told['run']}" in err
    assert f"an earlier run cannot be read, so equal lines may be missed: PAYRUN#{told['run']}" in other[2]


def test_an_open_run_is_compared_however_old_it_is(runs: Runs, command: Command) -> None:
    run = runs.go(name="other")
    runs.desk.alter(keys.payrun(run), changed_at=timestamp(instants.now() - timedelta(days=99)))

    code, _, err = propose(command, runs.written())

    assert (code, "equals line 2 of run other (NOT BEGUN)" in err) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    ("payer", "place", "spoil", "code"),
    [
        ("carol", keys.payrun, {"status": "LOST"}, Exit.FINE),
        ("alice", keys.payrun, {"status": "LOST"}, Exit.USAGE),
        ("carol", keys.payrun_proposed, {"kind": "gifts"}, Exit.FINE),
        ("carol", keys.payrun_proposed, {"lines": Decimal("0.5")}, Exit.USAGE),  # nothing of it can be read
    ],
)
def test_an_unreadable_run_blocks_only_its_payer_if_known(
    runs: Runs, command: Command, payer: str, place: Callable[[str], Any], spoil: dict[str, Any], code: Exit
) -> None:
    open_account(runs.desk.stack, "carol", "EUR", "100.00")
    run = runs.propose(payer=payer)["run"]
    runs.desk.alter(place(run), **spoil)

    found, _, err = propose(command, runs.written(OTHER))

    assert (found, "an earlier run cannot be read" in err) == (code, code is Exit.USAGE)


@pytest.mark.parametrize(("is_cancelled", "code"), [(True, Exit.FINE), (False, Exit.FAILED)])
def test_a_lost_file_blocks_proposals_unless_its_run_was_cancelled(
    runs: Runs, command: Command, *, is_cancelled: bool, code: Exit
) -> None:
    first = runs.propose()
    if is_cancelled:
        runs.order("cancel", first)
    runs.s3.versions.clear()

    assert propose(command, runs.written(OTHER))[0] == code


def test_a_run_of_mended_lines_names_its_parent_run(runs: Runs, command: Command) -> None:
    parent = runs.paid()
    runs.settlement(parent, 3, status="REJECTED")

    code, out, _ = propose(command, runs.written(LINES[1]), "--parent", parent, "--json")
    refused = propose(command, runs.written(LINES[2]), "--parent", parent)

    assert (code, json.loads(out)["parent"]) == (Exit.FINE, parent)
    assert f"line 2: equals line 4 of run {NAME} (SETTLED)" in refused[2]


@pytest.mark.parametrize("parent", ["ab" * 16, "no-id", "<script>"])
def test_an_unknown_parent_is_refused(runs: Runs, command: Command, parent: str) -> None:
    code, _, err = propose(command, runs.written(), "--parent", parent)

    assert (code, runs.s3.versions) == (Exit.NOT_FOUND, {})
    assert f"parent: alice has no run {parent}" in err


# Payouts


def unknown(runs: Runs, office: Office) -> None:
    runs.desk.ledger.delete(keys.destination("flat-9"))


def of_another(runs: Runs, office: Office) -> None:
    for place in (keys.destination("flat-9"), keys.destination_confirmed("flat-9")):
        runs.desk.alter(place, account="bob")


def unconfirmed(runs: Runs, office: Office) -> None:
    runs.desk.ledger.delete(keys.destination_confirmed("flat-9"))


def frozen_payee(runs: Runs, office: Office) -> None:
    runs.desk.alter(keys.destination("flat-9"), frozen_at="2026-11-20T12:00:00.000Z")


def resting(runs: Runs, office: Office) -> None:
    runs.desk.alter(keys.destination_confirmed("flat-9"), payable_from="2026-11-21T12:00:00.000Z")


def by_one_person(runs: Runs, office: Office) -> None:
    runs.desk.alter(keys.destination_confirmed("flat-9"), confirmed_by=ADA)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (unknown, "flat-9 is no bank account on record"),
        (of_another, "flat-9 is a bank account of another customer"),
        (unconfirmed, "flat-9 is not confirmed by a second person"),
        (frozen_payee, "flat-9 is frozen"),
        (resting, "flat-9 may be paid from 2026-11-21T12:00:00.000Z"),
        (by_one_person, "one person added and confirmed it"),
    ],
)
def test_a_destination_that_may_not_be_paid_is_a_fault(
    runs: Runs, office: Office, command: Command, spoil: Callable[[Runs, Office], None], told: str
) -> None:
    office.add_payee()
    spoil(runs, office)

    code, _, err = propose(
        command, runs.written("flat-9,48.20,EUR", head="destination,amount,currency"), "--payouts"
    )

    assert (code, "line 2, payee: " in err, told in err) == (Exit.USAGE, True, True), err
    assert runs.s3.versions == {}


def test_a_file_of_payouts_is_proposed(runs: Runs, office: Office, command: Command) -> None:
    office.add_payee()
    file = runs.written("flat-9,48.20,EUR", head="destination,amount,currency")

    code, out, err = propose(command, file, "--payouts", "--json")

    assert (code, err, json.loads(out)["kind"]) == (Exit.FINE, "", "payouts")


def test_a_payout_in_suspense_is_not_paid_again(runs: Runs, office: Office, command: Command) -> None:
    office.add_payee()
    head, line = "destination,amount,currency", "flat-9,48.20,EUR"
    run = runs.paid(line, head=head, kind=Kind.PAYOUTS)
    state = State.from_row(office.row(key_of(run, 2)))
    for move in (Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN):
        more = {"sent_sha256": "5c" * 32} if move is Move.SEND else {}
        state = moves.after(state, move, NOW, **more)
    found = list[bool]()
    for one in (replace(state, in_suspense=1, trouble=STUCK), state):
        runs.desk.ledger.put(one.to_row())
        file = runs.written("flat-9,1.00,EUR", line, head=head)
        code, _, err = propose(command, file, "--payouts", "--check")
        found += [code == Exit.USAGE, f"equals line 2 of run {NAME} (IN SUSPENSE)" in err]

    assert found == [True, True, False, False]


# Several commands at once, and lost answers


def test_two_concurrent_proposals_make_one_run(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, put = runs.written(), runs.s3.put_object
    other = list[Any]()

    def between(**given: Any) -> Any:
        if not other:
            other.append(None)
            runs.desk.door.by = GRACE
            other[0] = propose(command, file, "--json")
            runs.desk.door.by = ADA
        return put(**given)

    monkeypatch.setattr(runs.s3, "put_object", between)
    code, out, err = propose(command, file, "--json")

    assert (code, err, other[0][0]) == (Exit.FINE, "", Exit.FINE)
    assert json.loads(out) == json.loads(other[0][1])
    assert json.loads(out)["proposed_by"] == GRACE
    assert [len(versions) for versions in runs.s3.versions.values()] == [1]


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "SlowDown"])
def test_a_failed_upload_proposes_nothing(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def fail(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": code}}, "PutObject")

    given = len(runs.desk.door.given)
    with monkeypatch.context() as patched:
        patched.setattr(runs.s3, "put_object", fail)
        first = propose(command, runs.written())

    assert (first[0], len(runs.desk.door.given)) == (Exit.FAILED, given)
    assert propose(command, runs.written())[0] == Exit.FINE


def test_a_proposal_with_a_lost_answer_can_be_repeated(runs: Runs, command: Command) -> None:
    runs.desk.door.losing = 1

    lost = propose(command, runs.written())
    code, out, err = propose(command, runs.written(), "--json")

    assert (lost[0], "repeat it" in lost[2]) == (Exit.FAILED, True)
    assert (code, err, json.loads(out)["status"]) == (Exit.FINE, "", "PROPOSED")


def test_a_stored_file_with_other_bytes_is_reported(runs: Runs, command: Command) -> None:
    told = json.loads(propose(command, runs.written(), "--json")[1])
    runs.s3.versions[f"runs/{told['digest']}.jsonl"][:] = [b"another file"]

    code, _, err = propose(command, runs.written())

    assert (code, "do not approve it" in err) == (Exit.CONFLICT, True)
