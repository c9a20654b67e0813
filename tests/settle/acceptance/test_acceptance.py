import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from settle import stack
from settle.acceptance import report as shown
from settle.acceptance import runner
from settle.acceptance.limit import at_most
from settle.acceptance.run import Run
from settle.acceptance.verdict import Check, NotApplicable, Refuted
from settle.exit_codes import CommandFailed, Exit
from settle.order import ApprovalRequired, DoorForbidden
from settlement.core.model.errors import StoreUnavailable
from tests.settle.acceptance.stage import stage
from tests.settle.conftest import Command, raising
from tests.unit import states
from tests.world.step_functions import client_error

CONSERVED = {"conserved": True, "faults": [], "unproven": [], "signatures": True} | dict.fromkeys(
    ("accounts", "settlements", "entries"), 0
)
STACK = stage()


def fails(failure: BaseException) -> Check:
    def prove(run: Run) -> str:
        raise failure

    return Check("fails", prove)


FINE = Check("fine", lambda run: "1 | of 1", ("a row",))


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found = dict(CONSERVED)
    monkeypatch.setattr(runner, "_proof", lambda stack: found)
    return found


def proved(*checks: Check) -> runner.Report:
    return runner.prove(STACK, checks, lambda text: None)


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (Refuted("2 of 1"), "refuted"),
        (CommandFailed(Exit.FAILED, "no answer"), "refuted"),
        (ZeroDivisionError("of the\ncheck"), "refuted"),
        (client_error("StopExecution", "ResourceNotFoundException"), "refuted"),
        (NotApplicable("not here"), "not applicable"),
        (ApprovalRequired(Exit.CONFLICT, "reverse", "ApprovalNeeded", "two persons"), "not applicable"),
        (DoorForbidden(Exit.FAILED, "403"), "not permitted"),
        (client_error("StopExecution", "AccessDeniedException"), "not permitted"),
    ],
)
def test_a_failed_check_gets_a_verdict_and_later_checks_run(
    proof: dict[str, Any], failure: Exception, verdict: str
) -> None:
    report = proved(fails(failure), FINE)

    assert [one.verdict for one in report.results] == [verdict, "proven", "proven"]
    assert "\n" not in report.results[0].evidence
    assert report.passed == (verdict != "refuted")


def test_an_endless_check_is_refuted_and_its_wait_is_named(proof: dict[str, Any]) -> None:
    def waits(run: Run) -> str:
        run.waits_for = "an answer"
        ours, theirs = socket.socketpair()
        with ours, theirs:
            return str(ours.recv(1))  # a call that is blocked, as one of AWS may be

    report = proved(Check("waits", waits, seconds_max=0.1), FINE)

    assert [one.verdict for one in report.results] == ["refuted", "proven", "proven"]
    assert report.results[0].evidence == "has not ended after 0.1 s: it waited for an answer"


def test_a_check_catching_every_error_is_still_ended(proof: dict[str, Any]) -> None:
    def stubborn(run: Run) -> str:
        while True:
            with suppress(Exception):
                time.sleep(60)

    assert proved(Check("stubborn", stubborn, seconds_max=0.1)).refuted == ["stubborn"]


def test_an_ended_check_leaves_no_timer_running() -> None:
    with at_most(60):
        pass

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_money_not_returned_in_time_is_reported(
    proof: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_back(run: Run) -> Iterator[str]:
        yield "an account"
        run.waits_for = "the door"
        time.sleep(60)

    monkeypatch.setattr(runner, "GIVE_BACK_SECONDS_MAX", 0.1)
    monkeypatch.setattr(Run, "give_back", give_back)

    assert proved(FINE).left == ["an account", "the rest, after 0.1 s: it waited for the door"]


def test_payments_that_do_not_end_share_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("settle.acceptance.run.REST_SECONDS_MAX", 0.4)
    stalled = states.state()
    store = SimpleNamespace(settlement=lambda key: stalled)
    run = Run(stage(store=store), keys=[f"key-{number}" for number in range(20)])

    began = time.monotonic()
    left = [*run.in_flight()]

    assert left == [f"key-{number} is PROCESSING" for number in range(20)]
    assert time.monotonic() - began < 20 * 0.4


@pytest.mark.parametrize(
    "failure", [StoreUnavailable("DynamoDB: gone"), client_error("GetItem", "AccessDenied")]
)
def test_an_unreadable_table_at_the_end_is_reported(proof: dict[str, Any], failure: Exception) -> None:
    store = SimpleNamespace(settlement=raising(failure), account=raising(failure))

    def leaves(run: Run) -> str:
        run.keys.append("a-key")
        run.accounts.append("an-account")
        return "done"

    report = runner.prove(stage(store=store), [Check("leaves", leaves)], lambda text: None)

    assert report.left == [f"a-key may be in flight: {failure}", f"an-account: {failure}"]
    assert report.refuted == ["books"]


@pytest.mark.parametrize(
    "found",
    [{"conserved": False, "faults": ["a row"]}, {"conserved": False, "unproven": ["a row"]}],
)
def test_a_failed_proof_of_the_books_fails_the_run(proof: dict[str, Any], found: dict[str, Any]) -> None:
    proof.update(found)
    report = proved(FINE)

    assert (report.refuted, report.passed) == (["books"], False)


def test_a_payment_still_in_flight_fails_the_run(
    proof: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "in_flight", lambda run: iter(["a-key is LIMBO"]))
    report = proved(FINE)

    assert (report.refuted, report.left) == (["books"], ["a-key is LIMBO"])


def test_ctrl_c_ends_the_checks_but_returns_the_money(
    proof: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "give_back", lambda run: iter(["an account"]))
    report = proved(FINE, fails(KeyboardInterrupt()), FINE)

    assert [one.check for one in report.results] == ["fine", "books"]
    assert (report.interrupted, report.passed, report.left) == (True, False, ["an account"])


def test_a_second_ctrl_c_names_accounts_that_may_hold_money(
    proof: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(run: Run) -> Iterator[str]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(Run, "give_back", cut_off)
    report = proved(FINE)

    assert (report.interrupted, report.passed) == (True, False)
    assert report.left == [f"what accounts acceptance-{report.run}-… still have: it was cut off twice"]


def test_the_page_has_a_row_for_each_check(proof: dict[str, Any]) -> None:
    page = shown.markdown(proved(FINE, fails(Refuted("2 of 1"))))

    assert "# Acceptance of settlement-test: NOT passed" in page
    assert r"| fine | proven | 1 \| of 1 | a row |" in page
    assert "| fails | refuted | 2 of 1 |  |" in page


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stack", "settlement-prod"), "stack: settlement-prod may be prod"),
        (("--stack", "payments"), "stack: payments may be prod"),
        (("--stack", "settlement-my-olga-2"), "stack: settlement-my-olga-2 may be prod"),
        (("--stack", "settlement-my-olga", "--only", "luck"), "only: has no luck"),
        (("--stack", "settlement-dev", "--only", "luck"), "only: has no luck"),
        (("--load", "0"), "'--load': Input should be greater than or equal to 1"),
        (("--only", "luck"), "only: has no luck; the checks are alarms, definitions, states, canary,"),
        (("-o", "no/such/place.md"), "output: there is no directory no/such"),
    ],
)
def test_wrong_arguments_are_refused_before_any_call(
    settle: Command, arguments: tuple[str, ...], told: str
) -> None:
    code, out, err = settle("acceptance", *arguments)

    assert (code, out, told in err) == (Exit.USAGE, "", True), err


def test_the_report_is_printed_and_written_to_a_file(
    proof: dict[str, Any], settle: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, page = proved(FINE), tmp_path / "acceptance.md"
    monkeypatch.setattr(stack, "find", lambda name: STACK)
    monkeypatch.setattr(runner, "prove", lambda *_: report)

    code, out, _ = settle("acceptance", "--json", "-o", str(page))

    assert (code, json.loads(out)) == (0, shown.described(report))
    assert page.read_text() == shown.markdown(report)
