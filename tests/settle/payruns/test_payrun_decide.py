import json
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from settle.exit_codes import Exit
from settle.payruns import on_record, waiting
from settle.settlements import index
from settle.settlements.index import Found
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.payruns import bucket
from settlement.payruns.file import Line
from settlement.payruns.run import Status
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payruns.conftest import LINES, NAME, Runs
from tests.unit.payruns.rows import RUNNING

OTHER = "bob,2.00,EUR,another"
VERBS = ("approve", "run", "pause", "cancel")
Told = dict[str, Any]


@pytest.fixture
def told(runs: Runs) -> Told:
    return runs.propose()


def decide(command: Command, verb: str, told: Told, *options: str) -> Any:
    return command("payrun", verb, told["run"], "--digest", told["digest"], *options)


def row(runs: Runs, told: Told) -> Any:
    return runs.row(keys.payrun(told["run"]))


def test_each_printed_command_leads_to_the_next(runs: Runs, command: Command) -> None:
    told = runs.propose()
    out = command("payrun", "status", NAME)[1]
    seen = []
    for by in (GRACE, ADA):
        runs.desk.door.by = by
        line = out.splitlines()[-2].strip()
        code, out, err = command(*shlex.split(line.removesuffix(" --stack under-test"))[1:])
        assert (code, err) == (Exit.FINE, ""), line
        seen.append(row(runs, told)["status"])
    runs.pay()
    code, out, _ = command("payrun", "status", NAME)

    assert (seen, row(runs, told)["status"]) == (["APPROVED", "RUNNING"], "FINISHED")
    assert (code, "settle payrun report" in out, "3 SETTLED" in out or "SETTLED" in out) == (0, True, True)


def test_a_status_shows_what_was_proposed_and_approved(runs: Runs, told: Told, command: Command) -> None:
    runs.order("approve", told)

    code, out, err = command("payrun", "status", NAME)
    as_json = json.loads(command("payrun", "status", told["run"], "--json")[1])

    assert (code, err) == (Exit.IN_FLIGHT, "")
    for shown in (told["run"], told["digest"], "59.25 EUR", "the sellers", ADA, "grace", "APPROVED"):
        assert shown in out
    assert as_json["approved_by"] == ["grace"]


@pytest.mark.parametrize("verb", ["approve", "run"])
def test_runs_sharing_an_equal_line_wait_until_one_is_cancelled(
    runs: Runs, told: Told, command: Command, verb: str
) -> None:
    """Both were proposed at once, so neither command saw the other run."""
    if verb == "run":
        runs.order("approve", told)
    other = runs.smuggle(Line(number=9, payee="bob", amount="48.2", currency="EUR", reference="November"))
    runs.desk.door.by = GRACE

    for one, line in ((told, 2), (other, 9)):
        with runs.desk.writes_nothing():
            code, out, err = decide(command, verb, one)
        assert (code, out, "its lines may be paid twice" in err) == (Exit.CONFLICT, "", True)
        assert f"line {line}: equals line {11 - line} of run {NAME} (NOT BEGUN)" in err

    runs.order("cancel", other)
    runs.desk.door.by = GRACE
    assert decide(command, verb, told)[0] == Exit.FINE


def test_a_begun_run_resumes_despite_another_with_equal_lines(
    runs: Runs, told: Told, command: Command
) -> None:
    for verb in ("approve", "run", "pause"):
        runs.order(verb, told)
    runs.desk.alter(keys.payrun(told["run"]), begun=2)
    runs.smuggle(Line(number=9, payee="bob", amount="48.2", currency="EUR", reference="November"))

    assert decide(command, "run", told)[0] == Exit.FINE


def test_an_approver_is_shown_lines_that_are_repeated_on_purpose(runs: Runs, command: Command) -> None:
    told = runs.propose(*LINES, LINES[0], repeats=(5,))

    code, out, _ = command("payrun", "status", told["run"])
    as_json = json.loads(command("payrun", "status", told["run"], "--json")[1])

    assert (code, as_json["repeats"]) == (Exit.IN_FLIGHT, [5])
    assert re.search(r"^repeats +\[5\]$", out, re.MULTILINE)
    assert decide(command, "approve", told)[0] == Exit.CONFLICT  # its proposer
    runs.order("approve", told)


def test_the_proposer_cannot_approve_a_run(runs: Runs, told: Told, command: Command) -> None:
    code, out, err = decide(command, "approve", told)

    assert (code, out, row(runs, told)["status"]) == (Exit.CONFLICT, "", "PROPOSED")
    assert "who proposed a run does not approve it" in err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("digest", [None, "ab" * 32, "x"])
def test_an_order_without_the_shown_digest_is_refused(
    runs: Runs, told: Told, command: Command, verb: str, digest: str | None
) -> None:
    runs.desk.door.by = GRACE

    with runs.desk.writes_nothing():
        code, out, err = command("payrun", verb, told["run"], *(("--digest", digest) if digest else ()))

    shown = "the run has another file than you were shown" if digest else "look at the run first"
    assert (code, out) == (Exit.CONFLICT if digest else Exit.USAGE, "")
    assert err.startswith(f"settle: digest: {shown}")


@pytest.mark.parametrize(
    ("verbs", "status"),
    [
        (("approve",), "APPROVED"),
        (("approve", "run"), "RUNNING"),
        (("approve", "run", "pause"), "PAUSED"),
        (("approve", "run", "pause", "run"), "RUNNING"),
        (("cancel",), "CANCELLED"),
        (("approve", "run", "pause", "cancel"), "CANCELLED"),
    ],
    ids=" ".join,
)
def test_a_repeated_order_has_no_further_effect(
    runs: Runs, told: Told, command: Command, verbs: tuple[str, ...], status: str
) -> None:
    for verb in verbs:
        runs.desk.door.by = GRACE if verb == "approve" else ADA
        first = decide(command, verb, told, "--json")
        sequence = row(runs, told)["sequence"]
        again = decide(command, verb, told, "--json")
        assert (first[0], again[0], row(runs, told)["sequence"]) == (0, 0, sequence)
        assert json.loads(again[1]) == json.loads(first[1])

    assert row(runs, told)["status"] == status


@pytest.mark.parametrize(
    ("done", "verb", "shown"),
    [
        ((), "run", "it is PROPOSED"),
        (("approve",), "pause", "it is APPROVED"),
        (("cancel",), "run", "it is CANCELLED"),
        (("cancel",), "approve", "it is CANCELLED"),
        (("approve", "run"), "approve", "it is RUNNING"),
    ],
)
def test_an_order_that_the_runs_status_forbids_is_refused(
    runs: Runs, told: Told, command: Command, done: tuple[str, ...], verb: str, shown: str
) -> None:
    for one in done:
        runs.order(one, told)
    runs.desk.door.by = "arn:aws:iam::123456789012:user/bea"

    code, out, err = decide(command, verb, told)

    assert (code, out, shown in err) == (Exit.CONFLICT, "", True)


def test_a_large_run_needs_two_approvers(runs: Runs, command: Command) -> None:
    told = runs.propose("bob,400.01,EUR,")
    runs.order("approve", told)
    early = decide(command, "run", told)
    runs.desk.door.by = "arn:aws:iam::123456789012:user/bea"
    decide(command, "approve", told)
    runs.desk.door.by = ADA

    assert (early[0], "it is PROPOSED" in early[2]) == (Exit.CONFLICT, True)
    assert decide(command, "run", told)[0] == Exit.FINE


def test_a_cancelled_run_finishes_the_lines_already_begun(runs: Runs, told: Told, command: Command) -> None:
    for verb in ("approve", "run"):
        runs.order(verb, told)
    runs.desk.alter(keys.payrun(told["run"]), begun=2)

    out = decide(command, "cancel", told)[1]
    runs.pay()

    assert "cancelled_after  2" in out
    assert "payrun pause" not in out
    assert row(runs, told)["status"] == "CANCELLED"
    lines = json.loads(command("payrun", "results", NAME, "--json")[1])
    assert [one["outcome"] for one in lines] == ["SETTLED", "SETTLED", "NOT BEGUN"]
    assert lines[2]["next"] == "it is never paid"


# The file


def gone(runs: Runs, name: str) -> None:
    runs.s3.versions.clear()


def empty(runs: Runs, name: str) -> None:
    runs.s3.versions[name].append(b"")


def another(runs: Runs, name: str) -> None:
    runs.s3.versions[name].append(runs.s3.versions[name][0].replace(b"48.20", b"48.21"))  # type: ignore[union-attr]


def huge(runs: Runs, name: str) -> None:
    runs.s3.versions[name].append(b"x" * 100_000)


@pytest.mark.parametrize("spoil", [gone, empty, another, huge], ids=lambda one: one.__name__)
@pytest.mark.parametrize("verb", ["status", "results", *VERBS])
def test_a_missing_or_replaced_file_is_neither_shown_nor_decided(
    runs: Runs,
    told: Told,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    spoil: Callable[[Runs, str], None],
) -> None:
    monkeypatch.setattr(bucket, "BYTES_MAX", 50_000)
    name = bucket.name_of(told["digest"])
    spoil(runs, name)
    runs.desk.door.by = GRACE
    options = ("--digest", told["digest"]) if verb in VERBS else ()

    with runs.desk.writes_nothing():
        code, out, err = command("payrun", verb, told["run"], *options)

    assert (code, out) == (Exit.FAILED if spoil is gone else Exit.CONFLICT, "")
    reasons = {"gone": "it is not in the bucket", "huge": "over 50000 bytes"}
    shown = reasons.get(spoil.__name__, "do not approve it")
    assert (err.startswith(f"settle: file: {name}: "), shown in err) == (True, True)


def test_a_proposal_that_differs_from_its_file_is_hidden(runs: Runs, command: Command) -> None:
    """Ada bypasses the command, and proposes the file with smaller sums."""
    line = Line(number=2, payee="bob", amount="400.01", currency="EUR")
    runs.smuggle(line, sums={"EUR": "0.01"})

    code, out, err = command("payrun", "status", NAME)

    assert (code, out, "its sums are not as approved; do not approve it" in err) == (Exit.CONFLICT, "", True)


# Names


def test_an_ambiguous_run_name_asks_for_the_run_id(runs: Runs, told: Told, command: Command) -> None:
    other = runs.propose(OTHER)

    code, _, err = command("payrun", "status", NAME)
    lines = json.loads(command("payrun", "list", "--json")[1])

    assert (code, f"several are named {NAME}; pass one of " in err) == (Exit.CONFLICT, True)
    assert (told["run"] in err, other["run"] in err) == (True, True)
    assert {one["run"] for one in lines} == {told["run"], other["run"]}
    assert command("payrun", "status", other["run"])[0] == Exit.IN_FLIGHT


def test_a_run_that_begins_during_a_listing_is_listed(
    runs: Runs, told: Told, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run moves to a partition that has already been read."""
    runs.order("approve", told)
    real = index.listed

    def moving(stack: Stack, partitions: Sequence[str], *more: Any) -> Found:
        found = [real(stack, partitions[:1], *more)]
        if partitions[1:]:
            order = {"run": told["run"], "digest": told["digest"]}
            assert runs.desk.door.send("run-payrun", order).status == 200
            found.append(real(stack, partitions[1:], *more))
        return Found([row for one in found for row in one.rows], more=False)

    monkeypatch.setattr(on_record, "listed", moving)
    lines = json.loads(command("payrun", "list", "--json")[1])

    assert [(one["run"], one["status"]) for one in lines] == [(told["run"], "RUNNING")]


@pytest.mark.parametrize("name", ["unknown", "ab" * 16, "<script>", "a/b"])
@pytest.mark.parametrize("verb", ["status", "wait", "results", "report", *VERBS])
def test_an_unknown_run_is_not_found(runs: Runs, command: Command, verb: str, name: str) -> None:
    code, out, err = command("payrun", verb, name)

    assert (code, out, name in err) == (Exit.NOT_FOUND, "", True)


def test_a_list_without_runs_says_so(runs: Runs, command: Command) -> None:
    assert command("payrun", "list") == (Exit.FINE, "there is no pay run\n", "")
    assert command("payrun", "list", "--json")[1] == "[]\n"


# Waiting


def test_waiting_for_a_run_ends_with_the_run(
    runs: Runs, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.go()
    monkeypatch.setattr(time, "sleep", lambda _: runs.pay())

    code, out, err = command("payrun", "wait", NAME)

    assert (code, "FINISHED" in out) == (Exit.FINE, True)
    assert "RUNNING: 0 of 3 lines started, 0 ended" in err


def test_a_wait_that_times_out_shows_the_run(
    runs: Runs, told: Told, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PAUSE_SECONDS", 0.01)
    clock = iter(range(99))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    code, out, _ = command("payrun", "wait", NAME, "--timeout", "3")

    assert (code, "PROPOSED" in out) == (Exit.IN_FLIGHT, True)


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({"started": 300}, 35.0),
        ({"started": 300, "cut": 500, "begun": 500}, 10.0),
        ({"started": 100}, None),
        ({"started": 300, "status": Status.PAUSED}, None),
    ],
    ids=str,
)
def test_the_time_left_uses_the_rate_since_waiting_began(changed: dict[str, Any], left: float | None) -> None:
    first = replace(RUNNING, lines=1_000, begun=1_000, started=100)

    assert waiting.left_seconds(first, replace(first, **changed), 10.0) == left


# Two commands at once, and lost answers


@pytest.mark.parametrize("verb", VERBS)
def test_an_order_with_a_lost_answer_can_be_repeated(
    runs: Runs, told: Told, command: Command, verb: str
) -> None:
    for one in VERBS[: VERBS.index(verb)]:
        runs.order(one, told)
    runs.desk.door.by, runs.desk.door.losing = GRACE if verb == "approve" else ADA, 1

    lost = decide(command, verb, told)
    sequence = row(runs, told)["sequence"]
    code, _, err = decide(command, verb, told)

    assert (lost[0], "repeat it" in lost[2]) == (Exit.FAILED, True)
    assert (code, err, row(runs, told)["sequence"]) == (Exit.FINE, "", sequence)


@pytest.mark.parametrize("by", [GRACE, "arn:aws:iam::123456789012:user/bea"])
def test_only_the_first_of_two_concurrent_approvals_counts(
    runs: Runs, told: Told, command: Command, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    orders, send = runs.desk.door, type(runs.desk.door).send
    runs.desk.door.by = GRACE
    other = list[Any]()

    def between(decision: str, order: Any) -> Any:
        if not other:
            other.append(None)
            orders.by = by
            other[0] = decide(command, "approve", told)
            orders.by = GRACE
        return send(orders, decision, order)

    monkeypatch.setattr(orders, "send", between)
    code, _, err = decide(command, "approve", told)

    assert other[0][0] == Exit.FINE
    assert code == (Exit.FINE if by == GRACE else Exit.CONFLICT), err
    assert (row(runs, told)["status"], row(runs, told)["approvals"]) == ("APPROVED", 1)


# Malformed rows

SPOILS: dict[str, tuple[Callable[[str], Any], dict[str, Any]]] = {
    "status": (keys.payrun, {"status": "LOST"}),
    "counts": (keys.payrun, {"begun": 9}),
    "sums": (keys.payrun, {"sums": {"SETTLED XXX": 1}}),
    "name": (keys.payrun, {"name": "<b>"}),
    "digest": (keys.payrun_proposed, {"digest": "x"}),
    "kind": (keys.payrun_proposed, {"kind": ["payments"]}),
    "currency": (keys.payrun_proposed, {"sums": {"XXX": 1}}),
    "by": (keys.payrun_proposed, {"by": 7}),
    "posted_at": (keys.payrun_proposed, {"posted_at": 7}),
}


@pytest.mark.parametrize(("place", "spoil"), SPOILS.values(), ids=SPOILS)
def test_a_malformed_run_is_named_and_the_others_are_shown(
    runs: Runs, told: Told, command: Command, place: Callable[[str], Any], spoil: dict[str, Any]
) -> None:
    good = runs.propose(OTHER, name="good")
    runs.desk.alter(place(told["run"]), **spoil)

    code, out, err = command("payrun", "list", "--json")
    single = command("payrun", "status", told["run"])
    by_name = command("payrun", "status", "unknown")

    assert (code, [one["run"] for one in json.loads(out)]) == (Exit.FAILED, [good["run"]])
    assert f"cannot be read: PAYRUN#{told['run']}" in err or told["run"] in err
    assert (single[0] in (Exit.FAILED, Exit.CONFLICT), single[1]) == (True, "")
    assert (by_name[0], told["run"] in by_name[2]) == (Exit.NOT_FOUND, True)
    for verb in VERBS:
        runs.desk.door.by = GRACE
        with runs.desk.writes_nothing():
            assert decide(command, verb, told)[0] in (Exit.FAILED, Exit.CONFLICT)


def test_a_run_with_a_fractional_count_is_named(runs: Runs, told: Told, command: Command) -> None:
    runs.desk.alter(keys.payrun(told["run"]), begun=Decimal("0.5"))

    code, out, err = command("payrun", "list", "--json")

    assert (code, out, f"cannot be read: PAYRUN#{told['run']}: " in err) == (Exit.FAILED, "[]\n", True)


def test_a_run_whose_proposal_is_missing_is_named(runs: Runs, told: Told, command: Command) -> None:
    runs.desk.ledger.delete(keys.payrun_proposed(told["run"]))

    code, out, err = command("payrun", "list")

    assert (code, out) == (Exit.FAILED, "there is no pay run\n")
    assert f"cannot be read: PAYRUN#{told['run']}" in err


def test_a_forged_proposal_is_not_approved(runs: Runs, told: Told, command: Command) -> None:
    runs.desk.alter(keys.payrun_proposed(told["run"]), by=ADA + "x")
    runs.desk.door.by = GRACE

    code, _, err = decide(command, "approve", told)

    assert (code, "no valid signature" in err) == (Exit.CONFLICT, True)


HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\x07"


def test_hostile_texts_are_printed_without_control_characters(
    runs: Runs, told: Told, command: Command
) -> None:
    runs.desk.alter(keys.payrun_proposed(told["run"]), reason=HOSTILE, by=HOSTILE)
    runs.desk.alter(keys.payrun(told["run"]), outcomes={HOSTILE: 0}, sums={f"{HOSTILE} EUR": 0})

    outs = [
        command("payrun", *words)[1]
        for words in (("status", NAME), ("list",), ("status", NAME, "--json"), ("list", "--json"))
    ]

    assert [char for out in outs for char in out if not (char.isprintable() or char == "\n")] == []
    assert "<script>" in outs[0]
    assert LINES
