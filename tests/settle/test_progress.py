import io
from itertools import count
from types import SimpleNamespace

import pytest
from rich.console import Console

from settle.exit_codes import Exit
from settle.output import progress
from settlement.proof.watch import READING
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk
from tests.world.step_functions import client_error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(0, 4)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


def console(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> io.StringIO:
    file = io.StringIO()
    monkeypatch.setattr(progress, "err", Console(file=file, force_terminal=is_terminal, width=120))
    return file


@pytest.mark.parametrize(
    ("done", "seconds", "total", "text"),
    [
        (0, 0, None, "0, 0/s"),
        (0, 0, 1000, "0 of some 1,000, 0/s"),
        (12_000, 3, 52_000, "12,000 of some 52,000, 4,000/s, some 0:00:10 left"),
        (12_000, 3, None, "12,000, 4,000/s"),
        (60_000, 3, 52_000, "60,000, 20,000/s"),
        (52_000, 3, 52_000, "52,000, 17,333/s"),
    ],
)
def test_an_exceeded_estimate_is_not_shown(done: int, seconds: float, total: int | None, text: str) -> None:
    assert progress.paced(done, seconds, total) == text


def test_progress_into_a_pipe_is_a_line_each_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, clock: None
) -> None:
    file = console(monkeypatch, is_terminal=False)

    with progress.counting({READING: 9_000}) as told:
        for number in range(1, 7):
            told(READING, number * 1000)

    first, second = file.getvalue().splitlines()
    assert first == f"{READING}: 3,000 of some 9,000, 375/s, some 0:00:16 left"
    assert second == f"{READING}: 6,000 of some 9,000, 300/s, some 0:00:10 left"


def test_a_terminal_shows_one_progress_bar_and_erases_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, is_terminal=True)

    with progress.counting({READING: 9_000}) as told:
        told(READING, 3_000)
        told("judging", 10)

    shown = file.getvalue()
    assert "judging" in shown
    assert shown.endswith("\x1b[2K"), "the bar is erased"


def test_a_short_proof_shows_no_progress(desk: Desk, command: Command) -> None:
    desk.pay()

    code, out, err = command("reconcile", "--json")

    assert (code, err) == (Exit.FINE, "")
    assert out.startswith('{"conserved": true')


def test_the_proof_runs_without_permission_to_ask_the_size(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pay()

    monkeypatch.setattr(
        desk.ledger.client, "describe_table", raising(client_error("DescribeTable", "AccessDeniedException"))
    )

    assert command("reconcile")[0] == Exit.FINE
