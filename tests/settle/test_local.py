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

from settle import local
from settle.failures import CommandFailed, Exit
from settle.local import Running
from tests.settle.conftest import WAIT, Starts


def silent(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def somebody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever port is recorded, a server answers there, which by itself does not make it ours."""
    monkeypatch.setattr(local, "_answers", lambda started: True)


STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
"""Heeds no polite request to end, as a function in the middle of its work may not."""


def record(process: subprocess.Popen[bytes], **other: Any) -> dict[str, Any]:
    return asdict(Running(process.pid, port=1, kyc_port=2, outputs={"TableName": "t"})) | other


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has, or is about to: a process that was sent a signal takes a moment."""
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return True


def write(content: bytes | dict[str, Any]) -> None:
    local.STATE.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


@pytest.mark.parametrize(
    "name", ["app.py", "cdk.json", "infra/table.py", "lambdas/handlers/a.py", "statemachines/a.asl.json"]
)
def test_a_changed_source_is_deployed_again(project: Path, name: str) -> None:
    before = local._digest()

    (project / name).write_text("something else")

    assert local._digest() != before


def _new(project: Path) -> None:
    (project / "lambdas" / "handlers" / "b.py").touch()


def _removed(project: Path) -> None:
    (project / "lambdas" / "handlers" / "a.py").unlink()


def _renamed(project: Path) -> None:
    (project / "lambdas" / "handlers" / "a.py").rename(project / "lambdas" / "handlers" / "c.py")


@pytest.mark.parametrize("alter", [_new, _removed, _renamed])
def test_a_source_that_comes_or_goes_is_deployed_again(project: Path, alter: Callable[[Path], None]) -> None:
    before = local._digest()

    alter(project)

    assert local._digest() != before


@pytest.mark.parametrize(
    "name",
    ["lambdas/__pycache__/a.pyc", "infra/deep/__pycache__/b.pyc", "README.md", "settle/cli.py", "cdk.out/x"],
)
def test_what_no_deployment_depends_on_is_not_deployed_again(project: Path, name: str) -> None:
    before = local._digest()

    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("new")

    assert local._digest() == before


def test_the_digest_of_the_same_sources_is_the_same(project: Path) -> None:
    assert local._digest() == local._digest()


def test_without_a_record_nothing_is_running(home: Path) -> None:
    assert local.running() is None
    assert local.down() is False


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

    assert local.running() is None
    assert local.down() is False
    assert not local.STATE.exists()


def test_a_record_of_another_version_counts_as_not_running(starts: Starts) -> None:
    write(record(starts("ministack"), created=1.0))

    assert local.running() is None


def test_a_record_of_a_process_that_has_ended_counts_as_not_running(starts: Starts) -> None:
    ended = starts("ministack", code="print(flush=True)")
    ended.wait()
    write(record(ended))

    assert local.running() is None
    assert local.down() is False
    assert not local.STATE.exists()


def test_a_process_that_nobody_has_waited_for_counts_as_not_running(starts: Starts) -> None:
    zombie = starts("ministack", code="print(flush=True)")
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    write(record(zombie))

    assert local.running() is None
    assert local.down() is False


@pytest.mark.parametrize(
    ("program", "folder"),
    [
        ("an-editor", "embedded"),
        ("ministack", "elsewhere"),
        ("awslambdaric", "elsewhere"),
        ("settle.kyc_simulator", "elsewhere"),
        ("ministack", "embedded2"),
    ],
)
def test_a_process_that_is_none_of_ours_is_never_killed_even_under_the_recorded_id(
    starts: Starts, home: Path, program: str, folder: str
) -> None:
    """The recorded process has ended long ago, and its id was given to somebody else's."""
    (home / folder).mkdir(exist_ok=True)
    bystander = starts(program, home / folder)
    write(record(bystander))

    assert local.running() is None
    assert local.down() is False
    assert bystander.poll() is None


@pytest.mark.parametrize("recorded", [True, False])
def test_down_stops_the_processes_of_this_home_and_removes_their_files(
    starts: Starts, recorded: bool
) -> None:
    """Also where the server was killed before it could be recorded, or its functions were left behind."""
    server, function, provider = starts("ministack"), starts("awslambdaric"), starts("settle.kyc_simulator")
    if recorded:
        write(record(server))

    assert local.down() is True

    assert has_ended(server)
    assert has_ended(function)
    assert has_ended(provider)
    assert not local.SCRATCH.exists()
    assert not local.STATE.exists()


@pytest.mark.parametrize("program", ["awslambdaric", "settle.kyc_simulator"])
def test_what_is_left_without_its_server_is_no_embedded_aws_and_is_stopped(
    starts: Starts, program: str
) -> None:
    server, function = starts("ministack", code="print(flush=True)"), starts(program)
    server.wait()
    write(record(server))

    assert local.running() is None
    assert local.down() is True
    assert has_ended(function)


def test_a_process_is_asked_politely_first(starts: Starts, home: Path) -> None:
    bye = "import pathlib, signal, sys; bye = lambda *_: (pathlib.Path('../bye').touch(), sys.exit())"
    server = starts("ministack", code=f"{bye}; signal.signal(15, bye); {WAIT}")

    local.down()

    assert has_ended(server)
    assert (home / "bye").exists()


def test_a_process_that_does_not_heed_a_polite_request_is_killed(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "STOP_SECONDS_MAX", 0.5)
    stubborn = starts("awslambdaric", code=STUBBORN)

    assert local.down() is True

    assert has_ended(stubborn)


@pytest.mark.parametrize(
    ("outputs", "answers", "found"),
    [({"TableName": "t"}, True, True), ({}, True, False), ({"TableName": "t"}, False, False)],
    ids=["up", "the app is not on it yet", "it does not answer"],
)
def test_an_embedded_aws_is_running_once_the_app_is_on_it_and_it_answers(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str], answers: bool, found: bool
) -> None:
    monkeypatch.setattr(local, "_answers", lambda started: answers)
    server = starts("ministack")
    write(record(server, outputs=outputs))

    assert local.running() == (Running(server.pid, 1, 2, outputs=outputs) if found else None)


def test_a_port_that_somebody_else_has_taken_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]

        with pytest.raises(CommandFailed, match=f"port: {port} is taken by another process") as refused:
            local.up(silent, port)

    assert refused.value.code == Exit.CONFLICT == 6
    assert local.running() is None


def test_files_that_could_not_be_removed_do_not_keep_up_from_starting(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CDK whose `up` was killed writes on, and puts new files where the old ones are being removed."""
    (local.SCRATCH / "cdk.out").mkdir()
    monkeypatch.setattr(local, "shutil", SimpleNamespace(rmtree=lambda *_, **__: None))

    def started(*_: Any, **__: Any) -> None:
        raise CommandFailed(Exit.FAILED, "got as far as starting")

    monkeypatch.setattr(local.subprocess, "Popen", started)

    with pytest.raises(CommandFailed, match="got as far as starting"):
        local.up(silent)
