"""Engines for the mock file: embedded AWS, LocalEmu, or a given endpoint."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settle.local.ports import free_port
from settle.local.record import REGION
from tests.statemachines.cases import MOCK_FILE
from tests.world.templates import PROJECT

ENDPOINT = os.environ.get("STEPFUNCTIONS_LOCAL_ENDPOINT")
"""A Step Functions with the mock file; if unset, the embedded AWS starts."""

LOCALEMU = PROJECT / ".venv-localemu"
"""LocalEmu's environment; `make test-all` creates it with Python 3.13, `.ready` last."""

START_SECONDS_MAX = 300


@contextmanager
def step_functions(scratch: Path) -> Iterator[Any]:
    if ENDPOINT:
        yield client("stepfunctions", ENDPOINT)
        return
    with ministack(scratch) as machines:
        yield machines


@contextmanager
def ministack(scratch: Path) -> Iterator[Any]:
    port = free_port()
    environment = {
        "PYTHONPATH": str(PROJECT),
        "SFN_MOCK_CONFIG": str(MOCK_FILE),
        "SFN_WAIT_SCALE": "0",
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",  # else its MQTT broker listens on every interface
        "MINISTACK_REGION": REGION,
        "STATE_DIR": str(scratch / "state"),
        "S3_DATA_DIR": str(scratch / "s3"),
    }
    with _served(
        [sys.executable, "-m", "tests.statemachines.mocked_ministack"], environment, scratch, port
    ) as machines:
        yield machines


@contextmanager
def localemu(scratch: Path, mock_file: Path) -> Iterator[Any]:
    port = free_port()
    environment = {
        "SFN_MOCK_CONFIG": str(mock_file),
        "SERVICES": "stepfunctions,sts,sqs,events",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "FILESYSTEM_ROOT": str(scratch),
    }
    program = Path(__file__).with_name("mocked_localemu.py")
    with _served([str(LOCALEMU / "bin/python"), str(program)], environment, scratch, port) as machines:
        yield machines


@contextmanager
def _served(command: list[str], settings: dict[str, str], scratch: Path, port: int) -> Iterator[Any]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    with (scratch / "log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=inherited | {"TMPDIR": str(scratch)} | settings,
            cwd=scratch,
        )
    try:
        machines = client("stepfunctions", f"http://127.0.0.1:{port}")
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not _answers(machines):
            alive = server.poll() is None and time.monotonic() < give_up_at
            assert alive, (scratch / "log").read_text()
            time.sleep(0.1)
        yield machines
    finally:
        server.kill()
        server.wait(timeout=10)


def client(service: str, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        config=Config(inject_host_prefix=False),  # TestState's host name on AWS begins with sync-
        region_name=REGION,
        aws_access_key_id="123456789012",  # the local engines read the tests' account from it
        aws_secret_access_key="local",
    )


def _answers(machines: Any) -> bool:
    try:
        machines.list_state_machines()
    except (BotoCoreError, ClientError):
        return False
    return True
