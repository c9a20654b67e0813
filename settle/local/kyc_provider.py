import json
import time
from collections.abc import Mapping
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
    """Start the provider on its recorded port. Raises CommandFailed."""
    processes.start(processes.KYC_SIMULATOR, "--port", str(running.kyc_port), log="kyc-log")
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while not ports.is_taken(running.kyc_port):
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, "the simulated KYC provider did not start")
        time.sleep(0.1)


def share_secrets(running: Running, *others: Mapping[str, str]) -> None:
    """Give the provider the stage's secrets and the webhook's address, in place of earlier ones.

    `others` are the outputs of further sagas, whose questions it answers, too.
    """
    secrets = boto3.client(
        "secretsmanager",
        endpoint_url=running.endpoint_url,
        region_name=record.REGION,
        aws_access_key_id=record.CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=record.CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )

    def read(arn: str) -> Any:
        return json.loads(secrets.get_secret_value(SecretId=arn)["SecretString"])

    given = {
        "api_keys": [read(one["KycCredentialsArn"])["api_key"] for one in (running.outputs, *others)],
        "signing_secret": read(running.outputs["KycSigningArn"])["current"],
        "webhook_url": running.webhook_url,
    }
    answer = urllib3.request("PUT", f"{running.kyc_url}/control", json=given)
    if answer.status != 200:
        raise CommandFailed(Exit.FAILED, f"the simulated KYC provider answers with status {answer.status}")
