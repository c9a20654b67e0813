import base64
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import urllib3

from settle.exit_codes import Exit
from settle.local import deployment, embedded_aws, kyc_provider, ports, presence, processes, simulated, state
from settle.local.record import Running
from settlement.kyc.webhook_signature import verify
from tests.settle.conftest import Starts, failing, fake_cdk
from tests.settle.test_embedded_aws import recorded as content_of
from tests.settle.test_embedded_aws import silent, write
from tests.settle.wire import PAYMENT, Receiver
from tests.world.constants import KEY

API_KEY, SIGNING = (
    "canary-api-key",
    "whsec_" + base64.b64encode(b"canary-signing-secret, long enough").decode(),
)
OTHERS_KEY, BANK_TOKEN = "canary-key-of-another-saga", "canary-token-of-the-bank"
SECRETS = {
    "credentials-arn": {"api_key": API_KEY},
    "others-arn": {"api_key": OTHERS_KEY},
    "signing-arn": {"current": SIGNING, "previous": ""},
    "bank-arn": {"api_key": BANK_TOKEN},
    "bank-signing-arn": {"current": SIGNING, "previous": ""},
}
OUTPUTS = {
    "TableName": "t",
    "KycCredentialsArn": "credentials-arn",
    "KycSigningArn": "signing-arn",
    "KycWebhookUrl": "https://abc123.lambda-url.eu-west-1.on.aws/",
    "BankCredentialsArn": "bank-arn",
    "BankSigningArn": "bank-signing-arn",
    "BankWebhookUrl": "https://def456.lambda-url.eu-west-1.on.aws/",
}
FAKE_CDK = """printf '%s\\n' "$@" > {told}
echo '{{"settlement-local": {outputs}}}' > {home}/embedded/outputs.json
"""


@pytest.fixture(autouse=True)
def embedded(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An embedded AWS that answers, with the stage's two secrets."""

    def read(*, SecretId: str) -> dict[str, str]:  # noqa: N803
        return {"SecretString": json.dumps(SECRETS[SecretId])}

    def paginator(operation: str) -> Any:
        assert operation == "describe_stacks"
        arns = {"KycCredentialsArn": "credentials-arn", "EuKycCredentialsArn": "others-arn"}
        stacks = [{"Outputs": [{"OutputKey": key, "OutputValue": arn}]} for key, arn in arns.items()]
        return SimpleNamespace(paginate=lambda: [{"Stacks": stacks[:1]}, {"Stacks": [*stacks[1:], {}]}])

    def client(service: str, *, endpoint_url: str, **_: str) -> Any:
        assert endpoint_url.startswith("http://127.0.0.1:")
        return {
            "secretsmanager": SimpleNamespace(get_secret_value=read),
            "cloudformation": SimpleNamespace(get_paginator=paginator),
        }[service]

    started: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        """A process that `up` leaves running and the test must wait for."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(simulated, "boto3", SimpleNamespace(client=client))
    monkeypatch.setattr(presence, "answers", lambda started: True)
    monkeypatch.setattr(subprocess, "Popen", Kept)
    yield
    embedded_aws.down()
    for process in started:
        process.wait(10)


@pytest.fixture
def running(starts: Starts, receiver: Receiver) -> Running:
    """A recorded, deployed AWS whose gateway is the webhook receiver."""
    return recorded(starts, receiver, sources=deployment.digest())


def recorded(starts: Starts, receiver: Receiver, **changed: Any) -> Running:
    kyc_port, bank_port = ports.free_ports(2)
    given = {"port": receiver.port, "kyc_port": kyc_port, "bank_port": bank_port, "outputs": OUTPUTS}
    about = {**given, **changed}
    content = content_of(starts("ministack"), **about)
    write(content)
    return Running(**content)


def providers() -> list[psutil.Process]:
    return [process for process in processes.ours() if "settle.local.kyc_simulator" in process.cmdline()]


def asked(running: Running, api_key: str, payee: str = "bob") -> int:
    headers = {"Authorization": f"Bearer {api_key}", "Idempotency-Key": f"{KEY}:verify"}
    answer = urllib3.request(
        "POST", f"{running.kyc_url}/verifications", json=PAYMENT | {"payee": payee}, headers=headers
    )
    return answer.status


def calls(running: Running) -> int:
    counted: int = urllib3.request("GET", f"{running.kyc_url}/control").json()["calls"]
    return counted


def test_up_starts_one_configured_provider_and_down_stops_it(running: Running, receiver: Receiver) -> None:
    """Secrets are neither in files nor on its command line, which other users can list."""
    reported: list[str] = []

    assert embedded_aws.up(silent) == running

    (provider,) = providers()
    listening = [s.laddr for s in provider.net_connections("inet") if s.status == psutil.CONN_LISTEN]
    assert listening == [("127.0.0.1", running.kyc_port)]
    assert (asked(running, API_KEY, payee="kyc-review-approve"), asked(running, "another-key")) == (200, 401)
    assert asked(running, OTHERS_KEY, payee="kyc-review-approve") == 200
    told = receiver.received()
    assert told.path == "/_aws/lambda-url/abc123/"
    assert verify(told.headers, told.body, [SIGNING], datetime.now(UTC)) == f"evt_ver_{KEY}"
    seen = " ".join(provider.cmdline()) + (state.SCRATCH / "kyc-log").read_text() + state.STATE.read_text()
    assert (API_KEY in seen, SIGNING in seen) == (False, False)

    counted = calls(running)
    embedded_aws.up(reported.append)

    assert ([one.pid for one in providers()], calls(running), reported) == ([provider.pid], counted, [])
    assert running.describe() == {
        "endpoint_url": f"http://127.0.0.1:{running.port}",
        "region": "eu-west-1",
        "kyc_url": f"http://127.0.0.1:{running.kyc_port}",
        "bank_url": f"http://127.0.0.1:{running.bank_port}",
        "outputs": OUTPUTS,
    }

    assert embedded_aws.down() is True

    assert not provider.is_running()
    assert list(processes.ours()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", running.kyc_port)) != 0
    assert embedded_aws.down() is False


def test_up_restarts_a_dead_provider_at_the_same_address(running: Running, receiver: Receiver) -> None:
    embedded_aws.up(silent)
    (dead,) = providers()
    dead.kill()
    dead.wait(10)

    assert embedded_aws.up(silent) == running

    (provider,) = providers()
    assert provider.pid != dead.pid
    assert (asked(running, API_KEY, payee="kyc-early-approve"), asked(running, "another-key")) == (200, 401)
    assert receiver.received().path == "/_aws/lambda-url/abc123/"


def test_up_configures_a_provider_left_unconfigured_by_a_kill(running: Running) -> None:
    """The first `up` was killed before it set the provider's key and webhook."""
    kyc_provider.start(running)
    assert asked(running, "another-key") == 200

    embedded_aws.up(silent)

    assert (asked(running, API_KEY), asked(running, "another-key")) == (200, 401)


@pytest.mark.parametrize("ran_before", [False, True])
def test_a_failed_up_stops_only_a_provider_it_started(
    running: Running, monkeypatch: pytest.MonkeyPatch, ran_before: bool
) -> None:
    if ran_before:
        embedded_aws.up(silent)
    monkeypatch.setattr(simulated, "boto3", SimpleNamespace(client=None))

    with pytest.raises(TypeError):
        embedded_aws.up(silent)

    assert len(providers()) == ran_before
    assert presence.running() == running


def test_up_is_refused_if_another_process_takes_the_providers_port(
    starts: Starts, receiver: Receiver
) -> None:
    running = recorded(starts, receiver, kyc_port=receiver.port, sources=deployment.digest())

    with failing(Exit.CONFLICT, f"{running.kyc_port} is taken .* `settle local down`"):
        embedded_aws.up(silent)
    assert providers() == []


def test_a_provider_that_does_not_start_fails_the_command(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "START_SECONDS_MAX", -1)

    with failing(Exit.FAILED, "the simulated KYC provider did not start"):
        embedded_aws.up(silent)


def test_a_deployment_gets_the_address_of_its_provider(
    starts: Starts, receiver: Receiver, home: Path, project: Path
) -> None:
    outdated = recorded(starts, receiver, sources="of another day")
    told = home / "told"
    fake_cdk(project, FAKE_CDK.format(told=told, home=home, outputs=json.dumps(OUTPUTS)))

    running = embedded_aws.up(silent)

    options = told.read_text().splitlines()
    assert options[0] == "deploy"
    assert f"kyc_url=http://127.0.0.1:{outdated.kyc_port}" in options
    assert f"bank_url=http://127.0.0.1:{outdated.bank_port}" in options
    assert (running.kyc_port, running.outputs) == (outdated.kyc_port, OUTPUTS)
    assert presence.running() == running


def test_the_providers_hold_their_ports_during_the_deployment(
    starts: Starts, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment takes long enough for another process to take a port that is only recorded."""
    recorded(starts, receiver, sources="of another day")

    def deploy(running: Running, sources: str) -> Running:
        assert all(ports.is_taken(port) for port in (running.kyc_port, running.bank_port))
        return replace(running, sources=sources)

    monkeypatch.setattr(deployment, "deploy", deploy)

    embedded_aws.up(silent)


def paid_out(running: Running, token: str) -> int:
    """Return the bank's HTTP status for an unknown payout."""
    headers = {"Authorization": f"Bearer {token}"}
    return urllib3.request("GET", f"{running.bank_url}/payouts/{'A' * 32}", headers=headers).status


def test_up_starts_one_configured_bank_and_down_stops_it(running: Running) -> None:
    embedded_aws.up(silent)

    assert (paid_out(running, BANK_TOKEN), paid_out(running, "another-token")) == (404, 401)
    seen = (state.SCRATCH / "bank-log").read_text() + state.STATE.read_text()
    assert BANK_TOKEN not in seen
    (bank,) = (one for one in processes.ours() if processes.BANK_SIMULATOR in one.cmdline())
    assert BANK_TOKEN not in " ".join(bank.cmdline())

    bank.kill()
    bank.wait(10)
    embedded_aws.up(silent)
    assert paid_out(running, BANK_TOKEN) == 404

    embedded_aws.down()
    assert not processes.run(processes.BANK_SIMULATOR)


def test_up_starts_the_bank_missing_from_an_older_state_file(
    starts: Starts, receiver: Receiver, home: Path, project: Path
) -> None:
    recorded(starts, receiver, bank_port=0, sources="of another day")
    fake_cdk(project, FAKE_CDK.format(told=home / "told", home=home, outputs=json.dumps(OUTPUTS)))

    running = embedded_aws.up(silent)

    assert running.bank_port
    assert presence.running() == running
    assert paid_out(running, BANK_TOKEN) == 404
