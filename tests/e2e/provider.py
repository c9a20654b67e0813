import json
import secrets
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3
from standardwebhooks.webhooks import Webhook

from settle.kyc.circuit import status
from settle.settlements.machines import Machine
from settle.settlements.start import start
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import REVIEW
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, new_account, new_key

CREDENTIALS, SIGNING = "KycCredentialsArn", "KycSigningArn"

GIVING_BACK = {"COMPENSATING", "COMPENSATED"}
"""Statuses of a reversed payment, two because Express does not await the reversal's end."""

WAITING = ("PROCESSING", "COMPENSATING")


@dataclass(frozen=True)
class Payment:
    """A payment of 48.20 EUR (0.48 of it the fee) by a payer who has 100.00."""

    embedded: Embedded
    request: dict[str, str]

    @property
    def key(self) -> str:
        return self.request["key"]

    def start(self, machine: Machine = Machine.EXPRESS) -> dict[str, Any]:
        ended = start(self.embedded.sharing_one_client, machine, json.dumps(self.request))
        assert ended.outcome is not None, ended
        return ended.outcome

    def row(self) -> Row:
        return self.embedded.settlement(self.key)

    def over(self) -> Row:
        """Wait until the payment is neither in process nor in reversal; return its row."""

        def is_over() -> bool:
            row = self.embedded.stack.store.read(keys.settlement(self.key))
            return row is not None and row["status"] not in WAITING

        self.embedded.wait_for(is_over)
        return self.row()

    def verdict(self) -> Row | None:
        """Return the verdict's evidence: the webhook's, else the provider's answer."""
        kinds = (self.embedded.stack.store.read(keys.evidence(self.key, kind)) for kind in (REVIEW, "verify"))
        return next((found for found in kinds if found), None)

    def balances(self) -> tuple[str, str]:
        payer, payee = (self.embedded.available(self.request[party]) for party in ("payer", "payee"))
        return payer, payee


def payment(embedded: Embedded, behaviour: str = "", name: str = "") -> Payment:
    payer = new_account(embedded, f"kyc-{behaviour}{name}" if behaviour else f"alice{name}", "100.00")
    payee = new_account(embedded, f"bob{name}")
    request = {"key": new_key("kyc"), "payer": payer, "payee": payee, "amount": "48.20", "currency": "EUR"}
    return Payment(embedded, request)


def in_review(embedded: Embedded, name: str = "") -> Payment:
    one = payment(embedded, "review", name)
    assert one.start()["status"] == "PROCESSING"
    return one


def control(embedded: Embedded, **told: Any) -> dict[str, Any]:
    """Change the provider's settings, if any are given; return them with its number of calls."""
    answer = urllib3.request(
        "PUT" if told else "GET", f"{embedded.running().kyc_url}/control", json=told or None
    )
    assert answer.status == 200, answer.data
    described: dict[str, Any] = answer.json()
    return described


def calls(embedded: Embedded) -> int:
    found: int = control(embedded)["calls"]
    return found


def circuit(embedded: Embedded) -> str:
    state: str = status(embedded.stack)["state"]
    return state


def secret(embedded: Embedded, output: str) -> dict[str, Any]:
    answer = embedded.stack.client("secretsmanager").get_secret_value(SecretId=embedded.stack.outputs[output])
    found: dict[str, Any] = json.loads(answer["SecretString"])
    return found


def put_secret(embedded: Embedded, output: str, content: dict[str, Any]) -> None:
    embedded.stack.client("secretsmanager").put_secret_value(
        SecretId=embedded.stack.outputs[output], SecretString=json.dumps(content)
    )


def new_signing_secret() -> str:
    return b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True, kw_only=True)
class Call:
    """A webhook call. `signed` is the signed text, if it differs from the body."""

    body: bytes
    secret: str
    event: str
    age: timedelta = timedelta()
    signed: str | None = None

    def headers(self) -> dict[str, str]:
        sent_at = datetime.now(UTC) - self.age
        signed = self.body.decode() if self.signed is None else self.signed
        return {
            "content-type": "application/json",
            "webhook-id": self.event,
            "webhook-timestamp": str(int(sent_at.timestamp())),
            "webhook-signature": Webhook(self.secret).sign(self.event, sent_at, signed),
        }


def decision(one: Payment, says: str = "APPROVED", **change: Any) -> bytes:
    content = {
        "idempotency_key": f"{one.key}:verify",
        "decision": says,
        "reference": f"ver_{one.key}",
        "reason": "a person has looked at it",
    }
    return json.dumps(content | change).encode()


def call(embedded: Embedded, body: bytes, **change: Any) -> Call:
    signing_secret = change.pop("secret", None) or secret(embedded, SIGNING)["current"]
    event = change.pop("event", None) or f"evt_{secrets.token_hex(8)}"
    return Call(body=body, secret=signing_secret, event=event, **change)


def send(embedded: Embedded, sent: Call, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    answer = urllib3.request(
        "POST",
        embedded.running().webhook_url,
        body=sent.body,
        headers=sent.headers() if headers is None else headers,
        timeout=COMMAND_SECONDS_MAX,
        retries=False,
    )
    content: dict[str, Any] = answer.json()
    return answer.status, content
