"""A third party's check in its own app: proven, deployed, called back, and shown in the report."""

import json
import shlex
import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3
from standardwebhooks.webhooks import Webhook

from settle.exit_codes import Exit
from settle.local.record import reached_at
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, embedded_aws, new_key
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

FILES = [str(PROJECT / f"examples/checks/{name}.py") for name in ("sanctions", "delivered")]
SAGA = ("--stack", "Payments/Saga")
APP = f"""
import aws_cdk as cdk
from infra import Check, SettlementSaga, dev

app = cdk.App()
stack = cdk.Stack(app, "Payments")
settings = dev(stage="shop", currencies=["EUR"], kyc_url="https://kyc.example.com")
SettlementSaga(stack, "Saga", settings=settings, checks=[Check(file=one) for one in {FILES!r}])
app.synth()
"""


class Shop:
    """A deployed saga with the check."""

    def __init__(self, embedded: Embedded, folder: Path) -> None:
        self.embedded = embedded
        told = embedded.settle("local", "env").stdout.splitlines()
        self.environment = dict(shlex.split(line)[1].split("=", 1) for line in told)
        self.environment["PYTHONPATH"] = f"{PROJECT}:{PROJECT / 'lambdas'}"
        (folder / "app.py").write_text(APP)
        self.run("local", "deploy", f"{sys.executable} {folder / 'app.py'}", saga=())
        for account, deposit in (("alice", "100.00"), ("mallory", "100.00"), ("bob", "0")):
            self.run("account", "open", account, "--currency", "EUR", "--deposit", deposit)
        described = embedded.stack.client("cloudformation").describe_stacks(StackName="Payments")["Stacks"]
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in described[0]["Outputs"]}

    def run(
        self, *words: str, saga: tuple[str, ...] = SAGA, stdin: str = "", codes: Collection[int] = (0,)
    ) -> str:
        finished = self.embedded.settle(*words, *saga, stdin=stdin, **self.environment)
        assert finished.returncode in codes, finished
        return finished.stdout

    def pay(self, payer: str = "alice", codes: Collection[int] = (Exit.IN_FLIGHT,)) -> str:
        """Start a payment; return its key once it waits for the carrier, or is being reversed."""
        request = {"key": new_key("shop"), "payer": payer, "payee": "bob"}
        request |= {"amount": "10.00", "currency": "EUR"}
        self.run("start", "-", stdin=json.dumps(request), codes=codes)
        return str(request["key"])

    def call_back(self, key: str, **decision: str) -> tuple[int, Any]:
        body = json.dumps({"token": f"{key}:check:delivered", **decision})
        secret = self.embedded.stack.client("secretsmanager").get_secret_value(
            SecretId=self.output("CheckSigningDeliveredArn")
        )
        signing, now = Webhook(json.loads(secret["SecretString"])["current"]), datetime.now(UTC)
        event = f"evt-{key}-{decision['decision']}"
        headers = {
            "content-type": "application/json",
            "webhook-id": event,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signing.sign(event, now, body),
        }
        url = reached_at(self.output("CheckCallbackUrl"), str(self.embedded.stack.endpoint_url))
        answer = urllib3.request(
            "POST", f"{url.rstrip('/')}/delivered", body=body, headers=headers, timeout=COMMAND_SECONDS_MAX
        )
        return answer.status, answer.json()

    def output(self, name: str) -> str:
        (found,) = (str(value) for key, value in self.outputs.items() if key.endswith(name))
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with embedded_aws() as embedded:
        embedded.up()
        yield Shop(embedded, tmp_path_factory.mktemp("app"))


def test_a_payment_is_released_after_its_delivery_is_confirmed(shop: Shop) -> None:
    listed = json.loads(shop.run("check", "list", "--json"))
    assert [one["name"] for one in listed] == ["sanctions", "delivered"]
    key = shop.pay()
    waiting, _ = json.loads(shop.run("check", "status", key, "--json"))
    assert (waiting["decision"], waiting["waits_until"] is not None) == (None, True)

    status, told = shop.call_back(key, decision="approve")

    assert (status, told["decision"]) == (200, "APPROVED")
    assert json.loads(shop.run("wait", key, "--json"))["status"] == "SETTLED"
    assert shop.call_back(key, decision="approve")[0] == 200
    assert shop.call_back(key, decision="refuse", reason="lost")[0] == 409
    assert "conserved" in shop.run("reconcile")


def test_a_payment_with_a_lost_delivery_is_reversed_with_reason(shop: Shop, tmp_path: Path) -> None:
    key = shop.pay()

    assert shop.call_back(key, decision="refuse", reason="lost")[0] == 200

    outcome = json.loads(shop.run("wait", key, "--json", codes=(4,)))
    assert (outcome["status"], outcome["failure"]["error"]) == ("COMPENSATED", "CheckRefused")
    report = tmp_path / "report.html"
    shop.run("report", key, "--output", str(report))
    assert "check delivered: lost" in report.read_text()
    answered, _ = json.loads(shop.run("check", "status", key, "--json"))
    assert (answered["decision"], answered["reason"], answered["by_way"]) == ("REFUSED", "lost", "callback")


def test_a_payment_from_a_blocklisted_payer_is_refused_at_once(shop: Shop) -> None:
    key = shop.pay("mallory", codes=(Exit.IN_FLIGHT, Exit.REFUSED))

    outcome = json.loads(shop.run("wait", key, "--json", codes=(4,)))
    assert outcome["failure"]["cause"].startswith("check sanctions: listed")
    _, refused = json.loads(shop.run("check", "status", key, "--json"))
    assert (refused["decision"], refused["by_way"]) == ("REFUSED", "ask")
    assert json.loads(shop.run("account", "show", "mallory", "--json"))["available"] == "100.00"
    assert "conserved" in shop.run("reconcile")
