import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.local import deployment, embedded_aws, presence, processes, state
from settle.local.record import Running
from tests.settle.conftest import WAIT, Command, Starts, raising


def silent(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def any_port_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server answers on any recorded port, which does not prove that it is ours."""
    monkeypatch.setattr(presence, "answers", lambda started: True)


STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
"""Program that ignores SIGTERM, like a busy function."""


def recorded(process: subprocess.Popen[bytes], **other: Any) -> dict[str, Any]:
    return asdict(Running(process.pid, port=1, kyc_port=2, outputs={"TableName": "t"})) | other


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return True


def write(content: bytes | dict[str, Any]) -> None:
    state.STATE.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


SOURCE = "lambdas/handlers/a.py"
SOURCES = ["app.py", "cdk.json", "infra/table.py", "statemachines/a.asl.json"]
IGNORED = ["infra/deep/__pycache__/b.pyc", "README.md", "settle/cli.py", "cdk.out/x"]


def rewrite(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("new")


def rename(path: Path) -> None:
    path.rename(path.with_name("c.py"))


@pytest.mark.parametrize(
    ("name", "alter", "is_deployed_again"),
    [
        *((name, rewrite, True) for name in [SOURCE, *SOURCES, "lambdas/handlers/b.py"]),
        (SOURCE, Path.unlink, True),
        (SOURCE, rename, True),
        *((name, rewrite, False) for name in IGNORED),
    ],
)
def test_only_a_change_of_the_sources_deploys_again(
    project: Path, name: str, alter: Callable[[Path], object], is_deployed_again: bool
) -> None:
    before = deployment.digest()
    assert deployment.digest() == before

    alter(project / name)

    assert (deployment.digest() != before) is is_deployed_again


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\xff\xfe",
        b"null",
        b"{}",
        b'{"pid": 1, "port": 1}',
        b'{"pid": 1, "port": 1, "kyc_port": 2, "version": 2}',
        b'{"pid": "x", "port": 1, "kyc_port": 2}',
        b'{"pid": -1, "port": 1, "kyc_port": 2}',
        b'{"pid": 1.5, "port": 1, "kyc_port": 2}',
        b'{"pid": 1, "port": 1, "kyc_port": 2}',
        b'{"pid": 100000000000000000000, "port": 1, "kyc_port": 2}',
    ],
)
def test_an_invalid_state_file_counts_as_not_running(home: Path, content: bytes | None) -> None:
    if content is not None:
        write(content)

    assert presence.running() is None
    assert embedded_aws.down() is False
    assert not state.STATE.exists()


def test_a_state_file_of_another_version_counts_as_not_running(starts: Starts) -> None:
    write(recorded(starts("ministack"), created=1.0))

    assert presence.running() is None


@pytest.mark.parametrize(
    ("is_a_zombie", "left_behind"),
    [(True, None), (False, None), (False, "awslambdaric"), (True, "settle.local.kyc_simulator")],
)
def test_down_stops_the_leftovers_of_a_server_that_ended(
    starts: Starts, is_a_zombie: bool, left_behind: str | None
) -> None:
    ended = starts("ministack", code="print(flush=True)")
    if is_a_zombie:  # nothing has waited for it yet
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    else:
        ended.wait()
    process = starts(left_behind) if left_behind else ended
    write(recorded(ended))

    assert presence.running() is None
    assert embedded_aws.down() is bool(left_behind)
    assert has_ended(process)
    assert not state.STATE.exists()


def test_a_process_is_terminated_before_it_is_killed(
    starts: Starts, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS_MAX", 0.5)
    bye = "import pathlib, signal, sys; bye = lambda *_: (pathlib.Path('../bye').touch(), sys.exit())"
    polite = starts("ministack", code=f"{bye}; signal.signal(15, bye); {WAIT}")
    stubborn = starts("awslambdaric", code=STUBBORN)

    assert embedded_aws.down() is True

    assert has_ended(polite)
    assert has_ended(stubborn)
    assert (home / "bye").exists()


@pytest.mark.parametrize(
    ("program", "folder"),
    [
        ("an-editor", "embedded"),
        ("ministack", "elsewhere"),
        ("awslambdaric", "elsewhere"),
        ("settle.local.kyc_simulator", "elsewhere"),
        ("ministack", "embedded2"),
        ("/node_modules/.bin/cdk", "elsewhere"),
    ],
)
def test_a_foreign_process_with_the_recorded_id_is_never_killed(
    starts: Starts, home: Path, program: str, folder: str
) -> None:
    """The recorded process ended long ago, and its id was reused."""
    (home / folder).mkdir(exist_ok=True)
    bystander = starts(program, home / folder)
    write(recorded(bystander))

    assert presence.running() is None
    assert embedded_aws.down() is False
    assert bystander.poll() is None


@pytest.mark.parametrize("is_recorded", [True, False])
def test_down_stops_this_homes_processes_and_removes_their_files(starts: Starts, is_recorded: bool) -> None:
    """The record is missing if the server was killed before it was written."""
    simulators = ("settle.local.kyc_simulator", "settle.local.bank_simulator")
    programs = ("ministack", "awslambdaric", *simulators)
    processes = [starts(program) for program in programs]
    if is_recorded:
        write(recorded(processes[0]))

    assert embedded_aws.down() is True

    assert all(has_ended(process) for process in processes)
    assert not state.SCRATCH.exists()
    assert not state.STATE.exists()


def test_stopping_a_killed_commands_cdk_also_stops_its_synthesis(starts: Starts, home: Path) -> None:
    """The synthesis works in the app's folder, and would write into the next deployment's output."""
    synthesise = "import subprocess; subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL)"
    options = ("deploy", "-o", str(state.SCRATCH / "cdk.out"))
    cdk = starts("/node_modules/.bin/cdk", home, *options, code=f"{synthesise}; {WAIT}")
    (child,) = psutil.Process(cdk.pid).children()

    processes.stop(processes.CDK)

    assert has_ended(cdk)
    assert not child.is_running()


@pytest.mark.parametrize("program", ["an-editor", "ministack", "postgres"])
def test_down_leaves_a_foreign_process_that_reads_our_files_running(
    starts: Starts, home: Path, program: str
) -> None:
    reader = starts(program, home, str(state.SCRATCH / "postgres"))

    assert embedded_aws.down() is False
    assert reader.poll() is None


@pytest.mark.parametrize(
    ("outputs", "found"),
    [({"TableName": "t"}, True), ({}, False)],
    ids=["up", "the app is not on it yet"],
)
def test_embedded_aws_counts_as_running_once_the_app_is_deployed(
    starts: Starts, outputs: dict[str, str], found: bool
) -> None:
    server = starts("ministack")
    write(recorded(server, outputs=outputs))

    assert presence.running() == (Running(server.pid, 1, 2, outputs=outputs) if found else None)


class Busy:
    """An embedded AWS that ignores the first questions, and may end meanwhile."""

    def __init__(self, silent: int, end: Callable[[], object] = lambda: None) -> None:
        self.silent, self.end, self.asked = silent, end, 0

    def __call__(self, started: Running) -> bool:
        self.asked += 1
        if self.asked == 2:
            self.end()
        return self.asked > self.silent


def test_the_command_waits_for_a_busy_embedded_aws(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, busy = starts("ministack"), Busy(silent=3)
    write(recorded(server))
    monkeypatch.setattr(presence, "answers", busy)

    assert presence.running() == Running(server.pid, 1, 2, outputs={"TableName": "t"})

    assert busy.asked == 4
    told = "the embedded AWS is running, but busy; waiting for it for 60 s at most\n"
    assert capsys.readouterr() == ("", told)


def test_a_silent_embedded_aws_is_reported_as_busy(
    starts: Starts, settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(recorded(starts("ministack")))
    monkeypatch.setattr(presence, "BUSY_SECONDS_MAX", -1)
    monkeypatch.setattr(presence, "answers", lambda started: False)

    for command in (("status", "order-2026-000101"), ("local", "status")):
        code, out, err = settle(*command)

        assert (code, out) == (Exit.FAILED, "")
        assert err.splitlines()[-1].startswith("settle: the embedded AWS is running, but has not answered")
        assert "settle local up" not in err


def test_an_embedded_aws_ending_during_the_wait_counts_as_stopped(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = starts("ministack")
    write(recorded(server))

    def killed() -> None:
        server.kill()
        server.wait()

    monkeypatch.setattr(presence, "answers", Busy(silent=99, end=killed))

    assert presence.running() is None


def test_local_env_prints_variables_quoted_for_a_shell(starts: Starts, settle: Command) -> None:
    outputs = {"TableName": "t", "SettlementExpressArn": "arn:express", "StartQueueUrl": "http://queue/a b"}
    write(recorded(starts("ministack"), port=4566, outputs=outputs))

    code, out, err = settle("local", "env")

    assert (code, err) == (Exit.FINE, "")
    assert out.splitlines() == [
        "export AWS_ENDPOINT_URL=http://127.0.0.1:4566",
        "export AWS_DISABLE_HOST_PREFIX_INJECTION=true",
        "export AWS_DEFAULT_REGION=eu-west-1",
        "export AWS_ACCESS_KEY_ID=test",
        "export AWS_SECRET_ACCESS_KEY=test",
        "export SETTLEMENT_EXPRESS_ARN=arn:express",
        "export START_QUEUE_URL='http://queue/a b'",
    ]


def test_a_port_that_another_process_has_taken_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(
            CommandFailed, match=f"port: {port} is taken by another process; .* --port$"
        ) as refused:
            embedded_aws.up(silent, port)

    assert refused.value.code == Exit.CONFLICT
    assert presence.running() is None


def test_up_starts_although_old_files_cannot_be_removed(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CDK whose `up` was killed keeps writing into the folder being removed."""
    (state.SCRATCH / "cdk.out").mkdir()
    monkeypatch.setattr(embedded_aws, "shutil", SimpleNamespace(rmtree=lambda *_, **__: None))

    monkeypatch.setattr(subprocess, "Popen", raising(CommandFailed(Exit.FAILED, "got as far as starting")))

    with pytest.raises(CommandFailed, match="got as far as starting"):
        embedded_aws.up(silent)
