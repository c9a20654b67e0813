import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.local import deployment, embedded_aws, ports, presence, processes, record, simulated, state
from settle.local.endings import undoable
from settle.local.record import PROJECT, Running
from tests.settle.conftest import Command, Starts, fake_cdk, raising

REFUSED = CommandFailed(Exit.FAILED, "cdk bootstrap failed:", details="no such account")


def silent(text: str) -> None:
    pass


def kill(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def a_kill_ends_the_test_alone() -> Iterator[None]:
    """As in a shell, no handler is set: only `up`'s handler keeps the test process alive."""
    earlier = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    assert signal.signal(signal.SIGTERM, earlier) is signal.SIG_DFL


@pytest.fixture
def server(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Answering processes in place of the servers that `up` starts."""
    started: list[subprocess.Popen[bytes]] = []

    def start(module: str, **_: Any) -> int:
        started.append(starts(module))
        return started[-1].pid

    monkeypatch.setattr(processes, "start", start)
    monkeypatch.setattr(simulated, "start", lambda module, *_: start(module))
    monkeypatch.setattr(presence, "answers", lambda started: True)
    return started


@pytest.mark.parametrize(
    ("step", "ending", "seen"),
    [
        ("bootstrap", raising(REFUSED), CommandFailed),
        ("deploy", raising(REFUSED), CommandFailed),
        ("bootstrap", raising(KeyboardInterrupt()), KeyboardInterrupt),
        ("deploy", kill, SystemExit),
    ],
)
def test_a_failed_up_stops_what_it_started(
    server: list[subprocess.Popen[bytes]],
    settle: Command,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    ending: Callable[..., Any],
    seen: type[BaseException],
) -> None:
    for each in ("bootstrap", "deploy"):
        monkeypatch.setattr(deployment, each, ending if each == step else lambda *_: Running(1, 1, 2))

    with pytest.raises(seen):
        embedded_aws.up(silent)

    assert [process.wait(timeout=60) is not None for process in server] == [True] * (
        1 if step == "bootstrap" else 3
    )
    assert not state.STATE.exists()
    assert not state.SCRATCH.exists()
    told = "settle: the embedded AWS is not running; start it with `settle local up`\n"
    assert settle("local", "status") == (Exit.NOT_FOUND, "", told)


def test_a_failed_up_shows_the_failing_commands_error(
    server: list[subprocess.Popen[bytes]], settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "bootstrap", raising(REFUSED))

    code, out, err = settle("local", "up")

    assert (code, out) == (Exit.FAILED, "")
    assert err.splitlines()[-2:] == ["settle: cdk bootstrap failed:", "no such account"]


def test_a_failed_update_leaves_the_running_stage_unchanged(
    server: list[subprocess.Popen[bytes]], starts: Starts, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kyc, bank = ports.free_ports(2)
    before = Running(starts("ministack").pid, 1, kyc, bank, "of another day", {"TableName": "t"})
    state.write(before)
    monkeypatch.setattr(deployment, "deploy", raising(REFUSED))

    with pytest.raises(CommandFailed, match="cdk bootstrap failed"):
        embedded_aws.up(silent)

    assert presence.running() == before
    assert [process.wait(timeout=60) is not None for process in server] == [True, True]


@pytest.mark.parametrize("recorded", [True, False])
def test_status_names_the_processes_that_a_killed_up_left(
    starts: Starts, settle: Command, recorded: bool
) -> None:
    left = starts("ministack")
    if recorded:
        state.write(Running(left.pid, 1, 2))

    for command in (("local", "status"), ("local", "env"), ("status", "order-2026-000101")):
        code, out, err = settle(*command)

        assert (code, out) == (Exit.NOT_FOUND, "")
        assert f"has processes ({left.pid}): `settle local up` is at work, or was killed" in err
        assert "is not running" not in err


def test_a_signal_that_was_ignored_before_stays_ignored() -> None:
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with undoable():
        os.kill(os.getpid(), signal.SIGHUP)

    assert signal.signal(signal.SIGHUP, earlier) is signal.SIG_IGN


def until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or processes.has_ended(pid)


@pytest.mark.parametrize("seen", [CommandFailed, KeyboardInterrupt])
def test_an_aborted_deployment_leaves_no_cdk_process(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, seen: type[BaseException]
) -> None:
    state.SCRATCH.mkdir()
    child = home / "child"
    fake_cdk(project, f"sleep 600 &\necho $! > {child}.new\nmv {child}.new {child}\nwait")
    monkeypatch.setattr(deployment, "DEPLOY_SECONDS_MAX", 2)

    def interrupted(*_: Any, **__: Any) -> None:
        until(child.exists)
        raise KeyboardInterrupt

    if seen is KeyboardInterrupt:
        monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)

    with pytest.raises(seen):
        deployment.bootstrap(Running(1, 1, 2))

    until(lambda: has_ended(int(child.read_text())))


def test_without_the_cdk_up_is_refused_before_it_starts_anything(
    server: list[subprocess.Popen[bytes]], project: Path
) -> None:
    with pytest.raises(CommandFailed, match=r"the CDK CLI is not installed in .*: run `make setup` there"):
        embedded_aws.up(silent)

    assert server == []


@pytest.fixture
def installed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    data, ran = tmp_path / "data", list[list[str]]()
    data.mkdir()
    for file in ("package.json", "package-lock.json"):
        (data / file).write_text("{}")
    monkeypatch.setattr(record, "IN_CHECKOUT", False)
    monkeypatch.setattr(record, "PROJECT", data)
    monkeypatch.setattr(deployment, "_run", lambda words, folder, variables: ran.append(words))
    return ran


def test_outside_a_checkout_the_cdk_is_installed_once_per_lockfile(
    installed: list[list[str]], home: Path
) -> None:
    told = list[str]()

    for _ in range(2):
        assert deployment.ensure_cdk(told.append) == home / "node/node_modules/.bin/cdk"
    (record.PROJECT / "package-lock.json").write_text("[]")
    deployment.ensure_cdk(told.append)

    assert [words[:2] for words in installed] == [["npm", "ci"]] * 2
    assert told == ["installing the CDK CLI from npm, once"] * 2
    assert (home / "node/package-lock.json").read_text() == "[]"


def test_a_failed_installation_of_the_cdk_is_tried_again(
    installed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as offline:
        offline.setattr(deployment, "_run", raising(CommandFailed(Exit.FAILED, "npm ci failed:")))
        with pytest.raises(CommandFailed, match=r"^npm ci failed"):
            deployment.ensure_cdk(silent)

    deployment.ensure_cdk(silent)
    assert len(installed) == 1


def test_local_deploy_deploys_an_app_without_assuming_bootstrap_roles(
    installed: list[list[str]], home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assembly = {"artifacts": {"s": {"properties": {"assumeRoleArn": "arn", "templateFile": "t"}}}}
    written = list[dict[str, Any]]()

    def run(words: list[str], folder: Path, variables: dict[str, str]) -> None:
        installed.append(words)
        out = state.SCRATCH / "app.out"
        if words[1] == "synth":
            out.mkdir(parents=True)
            (out / "manifest.json").write_text(json.dumps(assembly))
        if words[1] == "deploy":
            written.append(json.loads((out / "manifest.json").read_text()))
            (state.SCRATCH / "app.json").write_text('{"Payments": {"SagaStageConfig": "{}"}}')

    monkeypatch.setattr(deployment, "_run", run)
    found = deployment.deploy_app(Running(1, 4566, 8081), "python3 app.py", tmp_path)

    assert found == {"Payments": {"SagaStageConfig": "{}"}}
    assert written == [{"artifacts": {"s": {"properties": {"templateFile": "t"}}}}]
    (synth,) = (words for words in installed if words[1] == "synth")
    (context,) = (word for word in synth if word.startswith("settlement-saga:embedded="))
    place = json.loads(context.partition("=")[2])
    assert place == {"python": sys.executable, "kyc_url": Running(1, 4566, 8081).kyc_url}


def test_an_app_that_fails_to_synthesise_shows_its_last_error(project: Path, home: Path) -> None:
    state.SCRATCH.mkdir()
    told = "Traceback\\nValueError: stage: must be\\npython3 app.py: Subprocess exited with error 1"
    fake_cdk(project, f"printf '{told}'\nexit 1")

    with pytest.raises(CommandFailed, match=r"^cdk synth failed: ValueError: stage: must be$") as refused:
        deployment.deploy_app(Running(1, 4566, 8081), "python3 app.py", home)

    assert refused.value.details.startswith("Traceback")


def state_folder(code: Path, **environment: str) -> str:
    """Return the state folder of a process with its code elsewhere."""
    (code / "settle").mkdir(parents=True)
    for part in ("settle", "settle/local"):
        (code / part).mkdir(exist_ok=True)
        (code / part / "__init__.py").touch()
    for module in ("settle/exit_codes.py", "settle/local/record.py", "settle/local/state.py"):
        (code / module).write_text((PROJECT / module).read_text())
    return subprocess.run(
        [sys.executable, "-c", "from settle.local.state import HOME; print(HOME)"],
        cwd=code,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(code), **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/nora/.local/state/settle"),
        ({"XDG_STATE_HOME": "/state"}, "/state/settle"),
        ({"SETTLE_HOME": "/named"}, "/named"),
    ],
)
def test_outside_a_checkout_state_is_kept_in_the_users_folder(
    tmp_path: Path, environment: dict[str, str], expected: str
) -> None:
    assert state_folder(tmp_path / "site-packages", HOME="/home/nora", **environment) == expected


def test_in_a_checkout_state_is_kept_inside_it(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone/app.py").touch()

    assert state_folder(tmp_path / "clone") == str(tmp_path / "clone/.settle")
