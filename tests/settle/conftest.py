import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handlers import _dependencies
from handlers.kyc import _provider as _kyc
from settle import cli, stack
from settle.exit_codes import CommandFailed, Exit
from settle.local import record, state
from settle.orders import proposal
from settle.settlements import follow
from settlement.aws import functions as _functions
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.proof import second_look
from tests.proof.client import Readable
from tests.settle.desk import Desk
from tests.settle.wire import Receiver, Simulator, receiving, simulating
from tests.world.environment import NOW
from tests.world.ledger import Ledger, over, signing

Ended = tuple[int, str, str]
"""Exit code, standard output, standard error."""

Command = Callable[..., Ended]

Starts = Callable[..., subprocess.Popen[bytes]]
WAIT = "import time; print(flush=True); time.sleep(600)"


def raising(failure: BaseException | type[BaseException]) -> Callable[..., Any]:
    """A function that always raises this failure."""

    def fail(*_: object, **__: object) -> None:
        raise failure

    return fail


@contextmanager
def failing(code: Exit, match: str) -> Iterator[None]:
    with pytest.raises(CommandFailed, match=match) as failed:
        yield
    assert failed.value.code is code


@pytest.fixture
def ledger(engine: str, ledger: Ledger) -> Ledger:
    """The ledger. If it is in memory, it also has the reads that a proof needs."""
    return over(Readable(ledger.client), ledger.table_name) if engine == "memory" else ledger


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate folder for the embedded AWS's record; no embedded AWS is running."""
    monkeypatch.setattr(state, "HOME", tmp_path)
    monkeypatch.setattr(state, "STATE", tmp_path / "local.json")
    monkeypatch.setattr(state, "SCRATCH", tmp_path / "embedded")
    return tmp_path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree in place of the app's sources."""
    project = tmp_path / "project"
    for name in ("app.py", "cdk.json", "infra/table.py", "lambdas/handlers/a.py", "statemachines/a.asl.json"):
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"the content of {name}")
    monkeypatch.setattr(record, "PROJECT", project)
    return project


def fake_cdk(project: Path, script: str) -> None:
    cdk = project / "node_modules/.bin/cdk"
    cdk.parent.mkdir(parents=True)
    cdk.write_text(f"#!/bin/sh\n{script}\n")
    cdk.chmod(0o755)


@pytest.fixture
def starts(home: Path) -> Iterator[Starts]:
    """Start a process named `program` in `folder`, until the test ends."""
    state.SCRATCH.mkdir()
    started = []

    def start(
        program: str, folder: Path | None = None, *arguments: str, code: str = WAIT
    ) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", code, program, *arguments]
        process = subprocess.Popen(words, cwd=folder or state.SCRATCH, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout
        process.stdout.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def settle(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The whole command with its error handling, in this process."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["settle", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def desk(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A stack with three accounts, instant machines and a clock that advances when read."""
    seconds = count()
    ledger = signing(ledger)
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW + timedelta(seconds=next(seconds)))
    monkeypatch.setattr(follow, "FOLLOW_SECONDS_MAX", -1)  # the machines are at rest at the first look
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    telemetry.metrics.clear_metrics()
    level = telemetry.logger.log_level
    telemetry.logger.setLevel("CRITICAL")  # as the command itself does: a failure's report stays readable
    desk = Desk(ledger)
    monkeypatch.setattr(_step_functions, "_client", desk.machines)
    monkeypatch.setattr(_functions, "_client", desk.recovery)
    monkeypatch.setattr(_kyc, "ask", desk.provider.ask)
    yield desk.open()
    telemetry.logger.setLevel(level)


@pytest.fixture
def command(desk: Desk, settle: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(stack, "find", lambda name: desk.stack)
    return settle


@pytest.fixture
def two_persons(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage needs two persons for a write-off and for a reversal."""
    config = replace(_dependencies.config, approvals={"write-off": 2, "reverse": 2})
    monkeypatch.setattr(_dependencies, "config", config)
    monkeypatch.setitem(desk.stack.__dict__, "config", config)
    monkeypatch.setattr(proposal, "datetime", SimpleNamespace(now=lambda zone: NOW))


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with simulating() as simulator:
        yield simulator


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
