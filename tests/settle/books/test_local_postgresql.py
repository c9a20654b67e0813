"""Obstacles to starting PostgreSQL; `tests/e2e/books/test_ledger.py` starts it beside the embedded AWS."""

import os
from pathlib import Path

import pytest

from settle.exit_codes import CommandFailed
from settle.local import postgresql


def test_without_postgresql_installed_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(CommandFailed, match="PostgreSQL is not installed; run `make setup`"):
        postgresql._installed()


def test_a_folder_closed_to_the_server_is_reported_to_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.chown", lambda *given: None)
    folder = tmp_path / "closed/embedded/postgresql"
    folder.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)

    with pytest.raises(CommandFailed, match="runs as nobody, who may not enter /"):
        postgresql._account(folder)


def test_a_user_other_than_root_runs_postgresql_under_their_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert postgresql._account(tmp_path) == {}


def test_a_failed_postgresql_setup_shows_the_programs_output(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as failed:
        postgresql._run(["ls", "not-there"], tmp_path, {})

    assert "not-there" in str(failed.value.details)
