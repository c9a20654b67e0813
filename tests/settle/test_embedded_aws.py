import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.local import deployment, embedded_aws, processes, record
from settle.local.record import Running
from tests.settle.conftest import WAIT, Ended, Starts


def silent(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def any_port_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server answers on any recorded port, which by itself does not make it ours."""
    monkeypatch.setattr(embedded_aws, "_answers", lambda started: True)


STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
"""Heeds no polite request to end, as a function in the middle of its work may not."""


def recorded(process: subprocess.Popen[bytes], **other: Any) -> dict[str, Any]:
    return asdict(Running(process.pid, port=1, kyc_port=2, outputs={"TableName": "t"})) | other


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has, or is about to: a process that was sent a signal takes a moment."""
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return True


def write(content: bytes | dict[str, Any]) -> None:
    record.STATE.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


@pytest.mark.parametrize(
    "name", ["app.py", "cdk.json", "infra/table.py", "lambdas/handlers/a.py", "statemachines/a.asl.json"]
)
def test_a_changed_source_is_deployed_again(project: Path, name: str) -> None:
    before = deployment.digest()

    (project / name).write_text("something else")

    assert deployment.digest() != before


def _new(project: Path) -> None:
    (project / "lambdas" / "handlers" / "b.py").touch()


def _removed(project: Path) -> None:
    (project / "lambdas" / "handlers" / "a.py").unlink()


def _renamed(project: Path) -> None:
    (project / "lambdas" / "handlers" / "a.py").rename(project / "lambdas" / "handlers" / "c.py")


@pytest.mark.parametrize("alter", [_new, _removed, _renamed])
def test_a_source_that_comes_or_goes_is_deployed_again(project: Path, alter: Callable[[Path], None]) -> None:
    before = deployment.digest()

    alter(project)

    assert deployment.digest() != before


@pytest.mark.parametrize(
    "name",
    ["lambdas/__pycache__/a.pyc", "infra/deep/__pycache__/b.pyc", "README.md", "settle/cli.py", "cdk.out/x"],
)
def test_what_no_deployment_depends_on_is_not_deployed_again(project: Path, name: str) -> None:
    before = deployment.digest()

    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("new")

    assert deployment.digest() == before


def test_the_digest_of_the_same_sources_is_the_same(project: Path) -> None:
    assert deployment.digest() == deployment.digest()


def test_without_a_record_nothing_is_running(home: Path) -> None:
    assert embedded_aws.running() is None
    assert embedded_aws.down() is False


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"null",
        b"[]",
        b"17",
        b"{}",
        b'{"pid": 1}',
        b'{"pid": 1, "port": 1}',
        b'{"pid": 1, "port": 1, "kyc_port": 2, "version": 2}',
        b'{"pid": "x", "port": 1, "kyc_port": 2}',
        b'{"pid": null, "port": 1, "kyc_port": 2}',
        b'{"pid": -1, "port": 1, "kyc_port": 2}',
        b'{"pid": 1.5, "port": 1, "kyc_port": 2}',
        b'{"pid": 1, "port": 1, "kyc_port": 2}',
        b'{"pid": 100000000000000000000, "port": 1, "kyc_port": 2}',
    ],
)
def test_a_record_that_is_garbage_counts_as_not_running_and_is_cleaned_up(home: Path, content: bytes) -> None:
    write(content)

    assert embedded_aws.running() is None
    assert embedded_aws.down() is False
    assert not record.STATE.exists()


def test_a_record_of_another_version_counts_as_not_running(starts: Starts) -> None:
    write(recorded(starts("ministack"), created=1.0))

    assert embedded_aws.running() is None


def test_a_record_of_a_process_that_has_ended_counts_as_not_running(starts: Starts) -> None:
    ended = starts("ministack", code="print(flush=True)")
    ended.wait()
    write(recorded(ended))

    assert embedded_aws.running() is None
    assert embedded_aws.down() is False
    assert not record.STATE.exists()


def test_a_process_that_has_not_been_waited_for_counts_as_not_running(starts: Starts) -> None:
    zombie = starts("ministack", code="print(flush=True)")
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    write(recorded(zombie))

    assert embedded_aws.running() is None
    assert embedded_aws.down() is False


@pytest.mark.parametrize(
    ("program", "folder"),
    [
        ("an-editor", "embedded"),
        ("ministack", "elsewhere"),
        ("awslambdaric", "elsewhere"),
        ("settle.local.kyc_simulator", "elsewhere"),
        ("ministack", "embedded2"),
    ],
)
def test_a_process_that_is_none_of_ours_is_never_killed_even_under_the_recorded_id(
    starts: Starts, home: Path, program: str, folder: str
) -> None:
    """The recorded process has ended long ago, and its id was given to another one."""
    (home / folder).mkdir(exist_ok=True)
    bystander = starts(program, home / folder)
    write(recorded(bystander))

    assert embedded_aws.running() is None
    assert embedded_aws.down() is False
    assert bystander.poll() is None


@pytest.mark.parametrize("is_recorded", [True, False])
def test_down_stops_the_processes_of_this_home_and_removes_their_files(
    starts: Starts, is_recorded: bool
) -> None:
    """Also where the server was killed before it could be recorded, or its functions were left behind."""
    server, function, provider = (
        starts("ministack"),
        starts("awslambdaric"),
        starts("settle.local.kyc_simulator"),
    )
    if is_recorded:
        write(recorded(server))

    assert embedded_aws.down() is True

    assert has_ended(server)
    assert has_ended(function)
    assert has_ended(provider)
    assert not record.SCRATCH.exists()
    assert not record.STATE.exists()


@pytest.mark.parametrize("program", ["awslambdaric", "settle.local.kyc_simulator"])
def test_what_is_left_without_its_server_is_no_embedded_aws_and_is_stopped(
    starts: Starts, program: str
) -> None:
    server, function = starts("ministack", code="print(flush=True)"), starts(program)
    server.wait()
    write(recorded(server))

    assert embedded_aws.running() is None
    assert embedded_aws.down() is True
    assert has_ended(function)


def test_a_process_is_asked_politely_first(starts: Starts, home: Path) -> None:
    bye = "import pathlib, signal, sys; bye = lambda *_: (pathlib.Path('../bye').touch(), sys.exit())"
    server = starts("ministack", code=f"{bye}; signal.signal(15, bye); {WAIT}")

    embedded_aws.down()

    assert has_ended(server)
    assert (home / "bye").exists()


def test_a_process_that_does_not_heed_a_polite_request_is_killed(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS_MAX", 0.5)
    stubborn = starts("awslambdaric", code=STUBBORN)

    assert embedded_aws.down() is True

    assert has_ended(stubborn)


@pytest.mark.parametrize(
    ("outputs", "found"),
    [({"TableName": "t"}, True), ({}, False)],
    ids=["up", "the app is not on it yet"],
)
def test_an_embedded_aws_is_running_once_the_app_is_on_it_and_it_answers(
    starts: Starts, outputs: dict[str, str], found: bool
) -> None:
    server = starts("ministack")
    write(recorded(server, outputs=outputs))

    assert embedded_aws.running() == (Running(server.pid, 1, 2, outputs=outputs) if found else None)


class Busy:
    """An embedded AWS that leaves the first questions unanswered, and may end meanwhile."""

    def __init__(self, silent: int, end: Callable[[], object] = lambda: None) -> None:
        self.silent, self.end, self.asked = silent, end, 0

    def __call__(self, started: Running) -> bool:
        self.asked += 1
        if self.asked == 2:
            self.end()
        return self.asked > self.silent


def test_an_embedded_aws_that_is_busy_is_waited_for(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server, busy = starts("ministack"), Busy(silent=3)
    write(recorded(server))
    monkeypatch.setattr(embedded_aws, "_answers", busy)

    assert embedded_aws.running() == Running(server.pid, 1, 2, outputs={"TableName": "t"})

    assert busy.asked == 4
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "the embedded AWS is running, but busy; waiting for it for 60 s at most\n",
    )


def test_an_embedded_aws_that_stays_silent_is_told_as_busy_and_not_as_absent(
    starts: Starts, settle: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(recorded(starts("ministack")))
    monkeypatch.setattr(embedded_aws, "BUSY_SECONDS_MAX", -1)
    monkeypatch.setattr(embedded_aws, "_answers", lambda started: False)

    for command in (("status", "order-2026-000101"), ("local", "status")):
        code, out, err = settle(*command)

        assert (code, out) == (Exit.FAILED, "")
        assert err.splitlines()[-1].startswith("settle: the embedded AWS is running, but has not answered")
        assert "settle local up" not in err


def test_an_embedded_aws_that_ends_while_it_is_waited_for_is_not_running(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = starts("ministack")
    write(recorded(server))
    monkeypatch.setattr(embedded_aws, "_answers", Busy(silent=99, end=lambda: (server.kill(), server.wait())))

    assert embedded_aws.running() is None


def test_the_environment_of_the_embedded_aws_is_printed_for_a_shell(
    starts: Starts, settle: Callable[..., Ended]
) -> None:
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

        with pytest.raises(CommandFailed, match=f"port: {port} is taken by another process") as refused:
            embedded_aws.up(silent, port)

    assert refused.value.code == Exit.CONFLICT == 6
    assert embedded_aws.running() is None


def test_files_that_could_not_be_removed_do_not_keep_up_from_starting(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CDK whose `up` was killed writes on, and puts new files where the old ones are being removed."""
    (record.SCRATCH / "cdk.out").mkdir()
    monkeypatch.setattr(embedded_aws, "shutil", SimpleNamespace(rmtree=lambda *_, **__: None))

    def started(*_: Any, **__: Any) -> None:
        raise CommandFailed(Exit.FAILED, "got as far as starting")

    monkeypatch.setattr(processes.subprocess, "Popen", started)

    with pytest.raises(CommandFailed, match="got as far as starting"):
        embedded_aws.up(silent)
