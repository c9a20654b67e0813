import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from rich.console import Console

from settle import instants
from settle.exit_codes import CommandFailed, Exit
from settle.orders import proposing as proposal
from settle.output import live
from settle.settlements import snapshot
from settlement.core.ledger import keys
from settlement.core.model.orders import Decision
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk
from tests.settle.flight import at, claimed, finished, key_of, stuck
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.step_functions import client_error

OPENED_AT = int(NOW.timestamp()) - 5


class Sleep:
    """Sleeps without delay, until the watcher has seen enough."""

    def __init__(self) -> None:
        self.slept: list[int] = []

    def __call__(self, seconds: int) -> None:
        self.slept.append(seconds)
        if len(self.slept) % 2 == 0:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def sleep(monkeypatch: pytest.MonkeyPatch) -> Sleep:
    sleep = Sleep()
    monkeypatch.setattr(snapshot, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(instants, "now", lambda: NOW)
    return sleep


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    sent = io.StringIO()
    monkeypatch.setattr(
        live, "out", Console(file=sent, force_terminal=True, width=100, highlight=False, markup=False)
    )
    return sent


def fails_then_works(desk: Desk, monkeypatch: pytest.MonkeyPatch, *failures: Exception | None) -> None:
    """Raise these failures at successive looks. A look with None, and each later look, succeeds."""
    left, look = list(failures), snapshot.look

    def next_look(*arguments: Any) -> dict[str, Any]:
        failure = left.pop(0) if left else None
        if failure:
            raise failure
        return look(*arguments)

    monkeypatch.setattr(snapshot, "look", next_look)


def test_the_snapshot_of_an_idle_stack_is_empty(desk: Desk) -> None:
    finished(desk)

    assert snapshot.look(desk.stack, NOW) == {
        "at": at(0),
        "stack": "under-test",
        "in_flight": {
            "count": 0,
            "more": False,
            "by_status": {"PROCESSING": 0, "COMPENSATING": 0},
            "in_review": 0,
            "due": 0,
            "overdue": 0,
            "unreadable": [],
            "oldest": None,
            "behind_seconds": 0,
        },
        "limbo": {
            **{"count": 0, "proposed": 0, "more": False, "oldest": None, "unreadable": []},
            "at_risk": {},
        },
        "circuit": {
            "circuit": "kyc",
            "state": "CLOSED",
            "since": None,
            "failures": 0,
            "last_failure": None,
            "last_probe": None,
        },
        "error": None,
    }


def test_the_snapshot_counts_by_status_and_names_the_oldest(desk: Desk) -> None:
    """A settlement in review is never the oldest; a resumed one counts from its resumption."""
    claimed(desk, 1, ago=80_000, review="a-reference", due=6_400, deadline_at=at(6_400))
    assert snapshot.look(desk.stack, NOW)["in_flight"]["oldest"] is None
    claimed(desk, 2, ago=300, status="COMPENSATING", due=200)
    claimed(desk, 3, ago=4000, in_flight_since=at(-5))
    with desk.writes_nothing():
        seen = snapshot.look(desk.stack, NOW)["in_flight"]

    assert (seen["count"], seen["by_status"]) == (3, {"PROCESSING": 2, "COMPENSATING": 1})
    assert (seen["in_review"], seen["oldest"]) == (1, {"key": key_of(2), "since": at(-300)})


LATE = {"deadline_at": at(-1)}


@pytest.mark.parametrize(
    ("extra", "due", "overdue"),
    [
        ({"due": -1}, 1, 0),
        ({"due": 0}, 1, 0),
        ({"due": 1}, 0, 0),
        ({"deadline_at": at(0)}, 0, 1),
        ({"deadline_at": at(1)}, 0, 0),
        ({**LATE, "hold_at": at(-2), "verify_at": at(-1)}, 0, 1),
        ({**LATE, "hold_at": at(-3), "verify_at": at(-2), "release_at": at(-1)}, 0, 0),
        ({**LATE, "status": "COMPENSATING"}, 0, 0),
    ],
)
def test_overdue_counts_only_unreleased_settlements_after_their_deadline(
    desk: Desk, extra: dict[str, Any], due: int, overdue: int
) -> None:
    claimed(desk, **extra)

    seen = snapshot.look(desk.stack, NOW)["in_flight"]

    assert (seen["due"], seen["overdue"]) == (due, overdue)


def test_the_snapshot_counts_cases_and_sums_amounts_at_risk(desk: Desk) -> None:
    stuck(desk, 1, since=-10)
    stuck(desk, 2, since=-99)
    stuck(desk, 3, currency="JPY", amount=500, fee=1)

    assert snapshot.look(desk.stack, NOW)["limbo"] == {
        "count": 3,
        "proposed": 0,
        "more": False,
        "oldest": {"key": key_of(2), "since": at(-99)},
        "unreadable": [],
        "at_risk": {"EUR": "95.44", "JPY": "499"},
    }


@pytest.mark.usefixtures("two_persons")
def test_a_case_that_waits_for_another_person_is_counted(desk: Desk) -> None:
    desk.stuck()
    proposal.propose(desk.stack, KEY, Decision.WRITE_OFF, "as agreed")

    assert snapshot.look(desk.stack, NOW)["limbo"]["proposed"] == 1


def test_a_snapshot_that_is_cut_says_so(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "LOOKED_AT_MAX", 2)
    for number in range(3):
        claimed(desk, number)
        stuck(desk, number + 10)

    seen = snapshot.look(desk.stack, NOW)
    _, out, _ = command("watch", "--once")

    assert {(seen[part]["count"], seen[part]["more"]) for part in ("in_flight", "limbo")} == {(2, True)}
    assert "2+: 2 PROCESSING, 0 COMPENSATING" in out
    assert "(of the 2 due first)" in out
    assert "at least 95.44 EUR" in out


def test_a_row_without_its_status_is_counted_too(desk: Desk) -> None:
    row = claimed(desk)
    desk.ledger.put({name: value for name, value in row.items() if name != "status"})

    seen = snapshot.look(desk.stack, NOW)["in_flight"]

    assert seen["by_status"] == {"PROCESSING": 0, "COMPENSATING": 0, "unknown": 1}


def test_the_snapshot_in_text_shows_the_same_figures(desk: Desk, command: Command) -> None:
    claimed(desk, 1, ago=1_000, due=-40)
    claimed(desk, 2, review="a-reference")
    stuck(desk, 3, since=-7_200)
    desk.ledger.put({**keys.circuit("kyc"), "state": "OPEN", "opened_at": OPENED_AT})

    code, out, err = command("watch", "--once")

    assert (code, err) == (Exit.FINE, "")
    assert [line.rstrip() for line in out.splitlines()] == [
        "stack             under-test",
        f"at                {at(0)}",
        "in flight         2: 2 PROCESSING, 0 COMPENSATING; 1 in review",
        f"oldest in flight  {key_of(1)}, 16m 40s ago",
        "due               1 due for recovery, 1 overdue",
        "recovery          40 s behind",
        "LIMBO             1",
        "proposals         0 of these cases wait for another person",
        f"oldest in LIMBO   {key_of(3)}, 2h ago",
        "at risk           47.72 EUR",
        "KYC circuit       OPEN since 2026-11-20T11:59:55Z",
    ]


def test_watch_prints_one_snapshot_with_once_and_several_without(
    desk: Desk, command: Command, sleep: Sleep
) -> None:
    expected = snapshot.look(desk.stack, NOW)
    once, watched, patient = (
        command("watch", *options, "--json") for options in (("--once",), (), ("--every", "7"))
    )

    for (code, out, err), looks in ((once, 1), (watched, 2), (patient, 2)):
        assert (code, err) == (Exit.FINE, "")
        assert [json.loads(line) for line in out.splitlines()] == [expected] * looks
    assert sleep.slept == [2, 2, 7, 7]


def test_watch_once_fails_if_its_snapshot_fails(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_then_works(desk, monkeypatch, client_error("Query", "ThrottlingException"))

    code, out, err = command("watch", "--once", "--json")

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert "ThrottlingException" in err


def test_an_interrupt_during_a_snapshot_ends_the_watch(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "look", raising(KeyboardInterrupt))

    assert command("watch") == (Exit.FINE, "", "")


FAILURES = [
    (client_error("Query", "ThrottlingException"), "ClientError: An error occurred (ThrottlingException)"),
    (EndpointConnectionError(endpoint_url="https://aws.invalid"), "EndpointConnectionError: Could not"),
    (CommandFailed(Exit.FAILED, "DynamoDB: left rows unread"), "DynamoDB: left rows unread"),
    (OSError("no route"), "OSError: no route"),
]


@pytest.mark.parametrize(("failure", "told"), FAILURES)
def test_a_failed_snapshot_is_reported_and_the_watch_continues(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, failure: Exception, told: str
) -> None:
    fails_then_works(desk, monkeypatch, failure)

    code, out, _ = command("watch", "--json")

    failed, good = (json.loads(line) for line in out.splitlines())
    assert (code, failed["at"], good["error"]) == (Exit.FINE, at(0), None)
    assert failed["error"].startswith(told)
    assert failed.keys() == good.keys()
    assert [name for name, value in failed.items() if value is None] == ["in_flight", "limbo", "circuit"]


@pytest.mark.parametrize(
    ("failures", "snapshots"), [((None, OSError("no route")), 2), ((OSError("x"), OSError("no route")), 0)]
)
def test_a_terminal_shows_a_failure_below_the_last_snapshot(
    desk: Desk,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    terminal: io.StringIO,
    failures: tuple[Exception | None, ...],
    snapshots: int,
) -> None:
    """The snapshot appears twice: when taken, and again above the error."""
    fails_then_works(desk, monkeypatch, *failures)

    assert command("watch")[0] == Exit.FINE

    before, error, _ = terminal.getvalue().partition("the look failed: OSError: no route")
    assert error
    assert before.count("KYC circuit") == snapshots


def test_without_a_terminal_a_failed_snapshot_is_one_line(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_then_works(desk, monkeypatch, None, OSError("[bold]no route[/]"))

    _, out, _ = command("watch")

    assert out.splitlines()[-1] == f"{at(0)}  the look failed: OSError: [bold]no route[/]"
    assert out.count("KYC circuit") == 1
