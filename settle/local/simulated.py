"""The simulated KYC provider and bank: processes that listen on a port, and share secrets with the sagas."""

import json
import time
from collections.abc import Mapping
from typing import Any

import boto3
import urllib3

from settle.exit_codes import CommandFailed, Exit
from settle.local import ports, processes, record
from settle.local.record import Running

START_SECONDS_MAX = 180


def start(program: str, port: int, log: str, told: str) -> None:
    pid = processes.start(program, "--port", str(port), log=log)
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while not ports.is_taken(port):
        if time.monotonic() > give_up_at or processes.has_ended(pid):
            raise CommandFailed(Exit.FAILED, f"{told} did not start")
        time.sleep(0.1)


def control(url: str, given: Mapping[str, Any], told: str) -> None:
    answer = urllib3.request("PUT", f"{url}/control", json=given)
    if answer.status != 200:
        raise CommandFailed(Exit.FAILED, f"{told} answers with status {answer.status}")


def secret(running: Running, arn: str) -> Any:
    found = client(running, "secretsmanager").get_secret_value(SecretId=arn)
    return json.loads(found["SecretString"])


def client(running: Running, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=running.endpoint_url,
        region_name=record.REGION,
        aws_access_key_id=record.CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=record.CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
