from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

_AROUND = Path(__file__).parent.parent.parent
IN_CHECKOUT = (_AROUND / "app.py").is_file()
PROJECT = _AROUND if IN_CHECKOUT else _AROUND / "settlement_saga" / "data"
"""The checkout, or an installed wheel's copies of its files."""

CONSTRUCTS = "infra" if IN_CHECKOUT else "settlement_saga"
CONSTRUCTS_FOLDER = _AROUND / CONSTRUCTS

STACK_NAME = "settlement-local"
ACCOUNT = "000000000000"
REGION = "eu-west-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The embedded account's root. Functions run under their enforced roles."""

_ADDRESSES = {
    "SETTLEMENT_EXPRESS_ARN": "SettlementExpressArn",
    "SETTLEMENT_STANDARD_ARN": "SettlementStandardArn",
    "START_QUEUE_URL": "StartQueueUrl",
}
_APIS = {"SETTLEMENTS_API_URL": "SettlementsApiUrl", "ORDERS_URL": "OrdersUrl"}
"""Variables of the examples in docs/calling, each with the stack's output."""


@dataclass(frozen=True)
class Running:
    pid: int
    port: int
    kyc_port: int
    bank_port: int = 0
    sources: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    ledger_url: str = ""
    """The URL of finance's books, with its password; empty if PostgreSQL does not run."""

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def kyc_url(self) -> str:
        return f"http://127.0.0.1:{self.kyc_port}"

    @property
    def bank_url(self) -> str:
        return f"http://127.0.0.1:{self.bank_port}"

    @property
    def webhook_url(self) -> str:
        """The webhook's local address; the outputs have AWS's address."""
        return reached_at(self.outputs["KycWebhookUrl"], self.endpoint_url)

    def describe(self) -> dict[str, object]:
        return {
            "endpoint_url": self.endpoint_url,
            "region": REGION,
            "kyc_url": self.kyc_url,
            "bank_url": self.bank_url,
            "outputs": self.outputs,
        }

    def variables(self) -> dict[str, str]:
        """Return variables by which AWS's SDKs and the examples reach the embedded AWS.

        All services share one address, so no SDK may add a prefix such as `sync-`.
        """
        named = {name: self.outputs[output] for name, output in _ADDRESSES.items() if output in self.outputs}
        apis = {
            name: reached_at(self.outputs[output], self.endpoint_url).rstrip("/")
            for name, output in _APIS.items()
            if output in self.outputs
        }
        ledger = {"LEDGER_URL": self.ledger_url} if self.ledger_url else {}
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
            "AWS_DEFAULT_REGION": REGION,
            **CREDENTIALS,
            **named,
            **apis,
            **ledger,
        }


def reached_at(url: str, endpoint_url: str) -> str:
    """Return the embedded AWS's address for the root of an API Gateway or Lambda URL."""
    name, kind, *_ = (urlsplit(url).hostname or "").split(".")
    if kind == "execute-api":
        return f"{endpoint_url}/_aws/execute-api/{name}/$default/"
    return f"{endpoint_url}/_aws/lambda-url/{name}/"
