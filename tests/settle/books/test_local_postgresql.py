"""Obstacles to a PostgreSQL beside the embedded AWS; `tests/e2e/books/test_ledger.py` runs one."""

import os
from pathlib import Path

import pytest

from settle.exit_codes import CommandFailed
from settle.local import postgresql


def test_without_the_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(CommandFailed, match="PostgreSQL is not installed; run `make setup`"):
        postgresql._installed()


def test_root_learns_of_a_folder_closed_to_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.chown", lambda *given: None)
    folder = tmp_path / "closed/embedded/postgresql"
    folder.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)

    with pytest.raises(CommandFailed, match="runs as nobody, who may not enter /"):
        postgresql._account(folder)


def test_another_user_runs_it_as_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert postgresql._account(tmp_path) == {}


def test_a_failed_setup_shows_what_the_program_said(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as failed:
        postgresql._run(["ls", "not-there"], tmp_path, {})

    assert "not-there" in str(failed.value.details)
