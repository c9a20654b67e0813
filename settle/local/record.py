"""The record of the embedded AWS that runs: its addresses, and the outputs of the stack on it."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PROJECT = Path(__file__).parent.parent.parent
"""The checkout; for an installed wheel, the folder of all packages."""


def in_checkout() -> bool:
    """Return whether this code runs in a checkout: a wheel has no app to deploy."""
    return (PROJECT / "cdk.json").is_file()


def _home() -> Path:
    """Return SETTLE_HOME, else `.settle` of the checkout, else a folder of the user's state."""
    if named := os.environ.get("SETTLE_HOME"):
        return Path(named)
    if in_checkout():
        return PROJECT / ".settle"
    state = os.environ.get("XDG_STATE_HOME", "")
    return Path(state if os.path.isabs(state) else os.path.expanduser("~/.local/state")) / "settle"


HOME = _home().resolve()
"""The folder of the record and of all files of the embedded AWS; tests use one of their own."""

STATE = HOME / "local.json"
SCRATCH = HOME / "embedded"
"""The files that the running embedded AWS writes; removed with it."""

STACK_NAME = "settlement-local"
ACCOUNT = "000000000000"
REGION = "eu-west-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The root of the embedded account. Functions run under their own roles, which are enforced."""

_ADDRESSES = {
    "SETTLEMENT_EXPRESS_ARN": "SettlementExpressArn",
    "SETTLEMENT_STANDARD_ARN": "SettlementStandardArn",
    "START_QUEUE_URL": "StartQueueUrl",
}
_APIS = {"SETTLEMENTS_API_URL": "SettlementsApiUrl", "ORDERS_URL": "OrdersUrl"}
"""The variables that the examples of docs/calling read, and the outputs that belong there."""


@dataclass(frozen=True)
class Running:
    """The embedded AWS that was started, and what has been deployed to it so far."""

    pid: int
    port: int
    kyc_port: int
    sources: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    ledger_url: str = ""
    """The PostgreSQL with finance's books, with its password; empty if none runs."""

    @property
    def endpoint_url(self) -> str:
        """The one address of all its services."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def kyc_url(self) -> str:
        """The address of the simulated KYC provider."""
        return f"http://127.0.0.1:{self.kyc_port}"

    @property
    def webhook_url(self) -> str:
        """The address that answers the provider's webhook; the one in the outputs is AWS's."""
        return reached_at(self.outputs["KycWebhookUrl"], self.endpoint_url)

    def describe(self) -> dict[str, object]:
        """Return what `settle local up --json` prints."""
        return {
            "endpoint_url": self.endpoint_url,
            "region": REGION,
            "kyc_url": self.kyc_url,
            "outputs": self.outputs,
        }

    def variables(self) -> dict[str, str]:
        """Return the environment variables with which AWS's SDKs and the examples reach it.

        It has one address for all services: an SDK must not put a prefix such as `sync-` before it.
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
    """Return the address at which the embedded AWS answers what AWS answers at the root of `url`."""
    name, kind, *_ = (urlsplit(url).hostname or "").split(".")
    if kind == "execute-api":
        return f"{endpoint_url}/_aws/execute-api/{name}/$default/"
    return f"{endpoint_url}/_aws/lambda-url/{name}/"


def read() -> Running | None:
    """Return the record; None if there is none, or an unreadable one."""
    try:
        return Running(**json.loads(STATE.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError, OverflowError):
        return None


def write(running: Running) -> None:
    """Replace the record as a whole, so that a crash leaves the old one. It may have a password."""
    unfinished = STATE.with_suffix(".new")
    unfinished.touch(mode=0o600)
    unfinished.write_text(json.dumps(asdict(running)))
    unfinished.replace(STATE)
