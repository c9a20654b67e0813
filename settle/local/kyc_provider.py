import json
import time
from typing import Any

import boto3
import urllib3

from settle.exit_codes import CommandFailed, Exit
from settle.local import ports, processes, record
from settle.local.record import Running

START_SECONDS_MAX = 60


def runs() -> bool:
    return processes.run(processes.KYC_SIMULATOR)


def start(running: Running) -> None:
    processes.start(processes.KYC_SIMULATOR, "--port", str(running.kyc_port), log="kyc-log")
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while not ports.is_taken(running.kyc_port):
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, "the simulated KYC provider did not start")
        time.sleep(0.1)


def share_secrets(running: Running) -> None:
    """Give the provider the webhook's address, and each saga's secrets."""
    secrets, cloudformation = (_client(running, service) for service in ("secretsmanager", "cloudformation"))

    def read(arn: str) -> Any:
        return json.loads(secrets.get_secret_value(SecretId=arn)["SecretString"])

    credentials = [
        output["OutputValue"]
        for page in cloudformation.get_paginator("describe_stacks").paginate()
        for stack in page["Stacks"]
        for output in stack.get("Outputs", ())
        if output["OutputKey"].endswith("KycCredentialsArn")
    ]
    given = {
        "api_keys": [read(arn)["api_key"] for arn in credentials],
        "signing_secret": read(running.outputs["KycSigningArn"])["current"],
        "webhook_url": running.webhook_url,
    }
    answer = urllib3.request("PUT", f"{running.kyc_url}/control", json=given)
    if answer.status != 200:
        raise CommandFailed(Exit.FAILED, f"the simulated KYC provider answers with status {answer.status}")


def _client(running: Running, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=running.endpoint_url,
        region_name=record.REGION,
        aws_access_key_id=record.CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=record.CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
