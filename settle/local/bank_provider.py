from settle.local import processes, simulated
from settle.local.record import Running, reached_at

_TOLD = "the simulated bank"


def runs() -> bool:
    return processes.run(processes.BANK_SIMULATOR)


def start(running: Running) -> None:
    simulated.start(processes.BANK_SIMULATOR, running.bank_port, "bank-log", _TOLD)


def share_secrets(running: Running) -> None:
    """Give the bank the webhook's address and the stage's secrets."""
    outputs = running.outputs
    given = {
        "tokens": [simulated.secret(running, outputs["BankCredentialsArn"])["api_key"]],
        "signing_secret": simulated.secret(running, outputs["BankSigningArn"])["current"],
        "webhook_url": reached_at(outputs["BankWebhookUrl"], running.endpoint_url),
    }
    simulated.control(running.bank_url, given, _TOLD)
