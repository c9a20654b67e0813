import logging
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest

from settle.local.kyc_simulator import Server
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.kyc.client import Client, Refused
from tests.kyc.environments import PAYMENT, Shared
from tests.kyc.raw import PERSON
from tests.world.ledger import Ledger

API_KEY = "canary-of-the-api-key"
CANARIES = (API_KEY, PERSON.decode(), PAYMENT.payer, PAYMENT.payee, "48.20")
TIMES = ("created", "msecs", "relativeCreated")
"""Log record fields whose digits may match an amount's."""

Ask = Callable[..., Verdict | Refused | KycUnavailable]


class Counting(Server):
    """The simulated provider, which counts its connections and sends no webhook."""

    connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def decide(
        self, key: str, decision: str = "APPROVED", reference: str = "", event: str = ""
    ) -> dict[str, str]:
        return {}

    def get_request(self):  # type: ignore[no-untyped-def]
        self.connections += 1
        return super().get_request()


@pytest.fixture
def engine() -> str:
    """Use a DynamoDB server, because the circuit's promises depend on its conditions."""
    return "server"


@pytest.fixture
def simulator() -> Iterator[Counting]:
    server = Counting(0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.stopped.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def ask(caplog: pytest.LogCaptureFixture) -> Ask:
    """Ask about a payment; return the answer or the outage.

    Check that neither the outage nor any log record contains a secret or a person's name.
    """

    def ask(client: Client, settlement: Settlement = PAYMENT) -> Verdict | Refused | KycUnavailable:
        caplog.clear()
        answer: Verdict | Refused | KycUnavailable
        try:
            answer = client.ask(settlement, API_KEY)
            told = ""
        except KycUnavailable as error:
            answer = error
            told = f"{error} {error!r} {''.join(traceback.format_exception_only(error))}"
        told += "\n".join(map(_everything, caplog.records))
        assert [canary for canary in CANARIES if canary in told] == []
        return answer

    caplog.set_level(logging.DEBUG)
    return ask


def _everything(record: logging.LogRecord) -> str:
    trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
    fields = {name: value for name, value in vars(record).items() if name not in TIMES}
    return f"{record.getMessage()} {fields} {trace}"


@pytest.fixture
def shared(ledger: Ledger) -> Shared:
    """A circuit on a fresh table, with a test-controlled clock."""
    return Shared(ledger)
