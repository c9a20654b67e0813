import signal
import subprocess
import sys
import time

import psutil
import pytest

from settle.local.record import PROJECT
from tools import install

PROGRAM = PROJECT / "tools" / "install.py"
WORK = "import time; print('working on it', flush=True); time.sleep({})"


def test_a_long_installation_shows_its_progress_and_duration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "TELL_EVERY_SECONDS", 0.2)

    code = install.install("Packages", [sys.executable, "-c", WORK.format(3)])

    first, *told, last = capsys.readouterr().out.splitlines()
    assert (code, first, last.endswith("done")) == (0, "Packages ...", True)
    assert any(line.endswith(" s  working on it") for line in told)


def test_a_failed_installation_shows_output_and_ends_with_its_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = install.install("Packages", [sys.executable, "-c", "print('no such package'); exit(3)"])

    out, err = capsys.readouterr()
    assert (code, err) == (3, "no such package\n")
    assert out.splitlines()[-1] == "Packages: failed, see above"


def test_a_program_that_cannot_be_started_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.install("Packages", ["no-such-program"]) == install.NOT_FOUND
    assert "no-such-program" in capsys.readouterr().err


def test_an_installation_stops_if_its_output_pipe_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(text: str) -> None:
        if text != "Packages ...":
            raise BrokenPipeError

    monkeypatch.setattr(install, "TELL_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(install, "_say", closed)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    before = psutil.Process().children()

    with pytest.raises(BrokenPipeError):
        install.install("Packages", [sys.executable, "-c", WORK.format(600)])

    assert [one for one in psutil.Process().children() if one not in before] == []


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_installation_stops_all_its_processes(ending: signal.Signals) -> None:
    spawn = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORK.format(600)!r}])"
    with subprocess.Popen(
        [sys.executable, PROGRAM, "Packages", sys.executable, "-c", spawn],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 (`nohup` ignores it)
    ) as process:
        started = psutil.Process(process.pid)
        while len(children := started.children(recursive=True)) < 2:
            time.sleep(0.05)
        process.send_signal(ending)
        out, _ = process.communicate(timeout=install.STOP_SECONDS_MAX * 3)

    assert (process.returncode, out) == (install.INTERRUPTED, "Packages ...\nPackages: interrupted\n")
    assert psutil.wait_procs(children, timeout=install.STOP_SECONDS_MAX)[1] == []
