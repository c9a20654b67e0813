import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

from settle import cli, stack
from settle.exit_codes import CommandFailed, Exit
from settle.output import console
from settle.settlements import start as starting
from settle.settlements.machines import Machine
from settle.settlements.request_file import key_of
from settle.settlements.start import Ended
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.constants import KEY

KEYS = [f"order-2026-00010{number}" for number in range(1, 5)]


@contextmanager
def writing(target: int | str) -> Iterator[TextIO]:
    stream = open(target, "w", encoding="utf-8")  # noqa: SIM115 - to close it fails, too
    yield stream
    with suppress(OSError):
        stream.close()


def closed_pipe() -> AbstractContextManager[TextIO]:
    read, write = os.pipe()
    os.close(read)
    return writing(write)


def full_disk() -> AbstractContextManager[TextIO]:
    return writing("/dev/full")


each_break = pytest.mark.parametrize("broken", [closed_pipe, full_disk], ids=["closed pipe", "full disk"])


@pytest.fixture(autouse=True)
def fresh_consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use new consoles, because a console keeps text that it could not write."""
    monkeypatch.setattr(console, "out", type(console.out)())
    monkeypatch.setattr(console, "err", type(console.err)(stderr=True))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    file = tmp_path / "payments.jsonl"
    file.write_text("".join(f"{json.dumps({'key': key})}\n" for key in KEYS))
    return file


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    keys: list[str] = []

    def start(_: Any, machine: Machine, request: str) -> Ended:
        keys.append(key_of(request))
        return Ended(keys[-1], "an-execution", {"key": keys[-1], "status": "SETTLED", "payee": "Zoë →"})

    monkeypatch.setattr(starting, "start", start)
    monkeypatch.setattr(stack, "find", lambda name: None)
    return keys


def run(monkeypatch: pytest.MonkeyPatch, out: TextIO, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["settle", *arguments])
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@each_break
def test_lost_output_does_not_stop_the_payments_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    batch: Path,
    started: list[str],
    broken: Callable[[], Any],
    options: tuple[str, ...],
) -> None:
    with broken() as out:
        code = run(monkeypatch, out, "start", str(batch), *options)

    told = capsys.readouterr().err.splitlines()
    assert (code, started) == (Exit.FAILED, KEYS)
    assert told[0].startswith("settle: output: ")
    assert told[1:] == [*(f"{key}: SETTLED" for key in KEYS), "settle: 4 of 4 requests are answered"]


@each_break
def test_lost_standard_error_does_not_stop_the_payments(
    monkeypatch: pytest.MonkeyPatch, batch: Path, started: list[str], broken: Callable[[], Any]
) -> None:
    with broken() as err, broken() as out:
        monkeypatch.setattr(sys, "stderr", err)
        code = run(monkeypatch, out, "start", str(batch))

    assert (code, started) == (Exit.FAILED, KEYS)


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp437"])
def test_characters_that_the_locale_lacks_are_escaped(
    monkeypatch: pytest.MonkeyPatch, batch: Path, started: list[str], encoding: str
) -> None:
    written = io.BytesIO()

    code = run(monkeypatch, io.TextIOWrapper(written, encoding=encoding), "start", str(batch))

    assert (code, started) == (Exit.FINE, KEYS)
    assert written.getvalue().count("Zoë \u2192".encode(encoding, "backslashreplace")) == len(KEYS)


@pytest.mark.parametrize(
    "words",
    [("status", KEY), ("account", "show", "alice"), ("account", "show", "alice", "--csv")],
    ids=" ".join,
)
def test_symbols_of_our_own_output_are_escaped_where_unsupported(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(stack, "find", lambda name: desk.stack)
    desk.pay()

    assert run(monkeypatch, io.TextIOWrapper(io.BytesIO(), encoding="ascii"), *words) == Exit.FINE


def test_a_batch_that_stops_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch, settle: Command, batch: Path, started: list[str]
) -> None:
    start = starting.start

    def stop(*arguments: Any) -> Ended:
        if len(started) == 2:
            raise CommandFailed(Exit.FAILED, "its outcome is unknown")
        return start(*arguments)

    monkeypatch.setattr(starting, "start", stop)

    code, _, err = settle("start", str(batch))

    told = "settle: 2 of 4 requests are answered\nsettle: its outcome is unknown\n"
    assert (code, err) == (Exit.FAILED, told)


def test_request_files_are_read_as_utf_8_in_each_locale(tmp_path: Path) -> None:
    """Runs the whole program in the C locale, with Python's own UTF-8 remedies off."""
    file = tmp_path / "request.json"
    file.write_text(f'{{"key": "{KEY}", "reference": "Zoë"}}', "utf-8")
    program = "from settle.settlements.request_file import read_requests; print(ascii(read_requests('-')))"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    with file.open("rb") as standard_input:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=standard_input,
            capture_output=True,
            check=True,
            env={**os.environ, **locale},
        )

    assert done.stdout.decode().strip() == ascii([file.read_text("utf-8")])
