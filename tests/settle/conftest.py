import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from settle import cli, local

Ended = tuple[int, str, str]
"""Exit code, standard output, standard error."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of its own for the record of the embedded AWS, of which none is up."""
    monkeypatch.setattr(local, "HOME", tmp_path)
    monkeypatch.setattr(local, "STATE", tmp_path / "local.json")
    monkeypatch.setattr(local, "SCRATCH", tmp_path / "embedded")
    return tmp_path


@pytest.fixture
def settle(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """The whole command, error handling included, without the price of a process."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["settle", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run
