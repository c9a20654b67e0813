from settle.local import processes, simulated
from settle.local.record import Running

_TOLD = "the simulated KYC provider"


def runs() -> bool:
    return processes.run(processes.KYC_SIMULATOR)


def start(running: Running) -> None:
    simulated.start(processes.KYC_SIMULATOR, running.kyc_port, "kyc-log", _TOLD)


def share_secrets(running: Running) -> None:
    """Give the provider the webhook's address, and each saga's secrets."""
    credentials = [
        output["OutputValue"]
        for page in simulated.client(running, "cloudformation").get_paginator("describe_stacks").paginate()
        for stack in page["Stacks"]
        for output in stack.get("Outputs", ())
        if output["OutputKey"].endswith("KycCredentialsArn")
    ]
    given = {
        "api_keys": [simulated.secret(running, arn)["api_key"] for arn in credentials],
        "signing_secret": simulated.secret(running, running.outputs["KycSigningArn"])["current"],
        "webhook_url": running.webhook_url,
    }
    simulated.control(running.kyc_url, given, _TOLD)
