"""The test cases on a Step Functions: the embedded AWS, or the one whose endpoint the environment names."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from settle.local.record import CREDENTIALS, REGION
from tests.statemachines.cases import INPUTS, MACHINES, MOCK_FILE, MOCKED
from tests.statemachines.definitions import DEFINITIONS
from tests.world.contracts import checked_outcome
from tests.world.templates import PROJECT

ENDPOINT = os.environ.get("STEPFUNCTIONS_LOCAL_ENDPOINT")
"""The address of Step Functions Local (compose.yaml); without one, the embedded AWS is started."""

ARN = "arn:aws:states:eu-west-1:123456789012"
START_SECONDS_MAX = 60
RUN_SECONDS_MAX = 120


@dataclass(frozen=True)
class Ended:
    """The end of an execution, and its states, each with the number of calls that it made."""

    status: str
    error: str | None
    cause: str
    output: Any
    trail: str

    @property
    def ends(self) -> str:
        """The outcome's status, or the error of an execution that failed."""
        return str(self.output["status"] if self.status == "SUCCEEDED" else self.error)


def definition(machine: str) -> str:
    """Return a machine's definition as deployed, with names of resources that do not exist."""
    name, start = MACHINES[machine]
    text = json.dumps(DEFINITIONS[name] if ENDPOINT is None else _hastened(DEFINITIONS[name]))
    compensation = f"{ARN}:stateMachine:Compensation"
    replaced = {"StartCompensation": start, "Compensation": compensation, "EventBus": "pages"}
    function = "arn:aws:lambda:eu-west-1:123456789012:function"
    return re.sub(r"\$\{(\w+)\}", lambda found: replaced.get(found[1], f"{function}:{found[1]}"), text)


def run_all(client: Any) -> dict[tuple[str, str], Ended]:
    """Run every test case at the same time, and wait until each has ended."""
    arns = {
        machine: client.create_state_machine(
            name=machine, definition=definition(machine), roleArn="arn:aws:iam::123456789012:role/machines"
        )["stateMachineArn"]
        for machine in MACHINES
    }
    started = {
        (machine, case): client.start_execution(
            stateMachineArn=f"{arns[machine]}#{case}", input=json.dumps(INPUTS[MACHINES[machine][0]])
        )["executionArn"]
        for machine, case in MOCKED
    }
    give_up_at = time.monotonic() + RUN_SECONDS_MAX
    return {each: _ended(client, execution, give_up_at) for each, execution in started.items()}


@contextmanager
def step_functions(scratch: Path) -> Iterator[Any]:
    """Yield a client of a Step Functions that has read the mock file; end its server afterwards."""
    if ENDPOINT:
        yield _client(ENDPOINT)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {
        "PYTHONPATH": str(PROJECT),
        "SFN_MOCK_CONFIG": str(MOCK_FILE),
        "SFN_WAIT_SCALE": "0",
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",  # else its MQTT broker listens on every interface
        "MINISTACK_REGION": REGION,
        "TMPDIR": str(scratch),
        "STATE_DIR": str(scratch / "state"),
        "S3_DATA_DIR": str(scratch / "s3"),
    }
    with (scratch / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.statemachines.mocked_ministack"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=scratch,
        )
    try:
        client = _client(f"http://127.0.0.1:{port}")
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not _answers(client):
            alive = server.poll() is None and time.monotonic() < give_up_at
            assert alive, (scratch / "log").read_text()
            time.sleep(0.1)
        yield client
    finally:
        server.kill()
        server.wait(timeout=10)


def _client(endpoint: str) -> Any:
    return boto3.client(
        "stepfunctions",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )


def _answers(client: Any) -> bool:
    try:
        client.list_state_machines()
    except (BotoCoreError, ClientError):
        return False
    return True


def _hastened(definition: Any) -> Any:
    """Return the definition with at most a second before each retry: Step Functions Local really waits."""
    hastened = json.loads(json.dumps(definition))
    for state in hastened["States"].values():
        for retry in state.get("Retry", ()):
            retry |= {"IntervalSeconds": 1, "BackoffRate": 1}
            retry.pop("MaxDelaySeconds", None)
    return hastened


def _ended(client: Any, execution: str, give_up_at: float) -> Ended:
    while (described := client.describe_execution(executionArn=execution))["status"] == "RUNNING":
        assert time.monotonic() < give_up_at, f"{execution} has not ended"
        time.sleep(0.1)
    pages = client.get_paginator("get_execution_history").paginate(executionArn=execution)
    events = [event for page in pages for event in page["events"]]
    failed = events[-1].get("executionFailedEventDetails", {})
    return Ended(
        described["status"],
        failed.get("error"),
        failed.get("cause", ""),
        checked_outcome(json.loads(described["output"])) if described["status"] == "SUCCEEDED" else None,
        _trail(events),
    )


def _trail(events: list[Any]) -> str:
    entered: list[str] = []
    calls: Counter[int] = Counter()
    for event in events:
        if event["type"].endswith("StateEntered"):
            entered.append(event["stateEnteredEventDetails"]["name"])
        elif event["type"] == "TaskScheduled":
            calls[len(entered) - 1] += 1
    return " ".join(
        name + (f"*{calls[number]}" if calls[number] > 1 else "") for number, name in enumerate(entered)
    )
