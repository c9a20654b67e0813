"""Fixtures of the tests that go to a provider over HTTP."""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import base
from aws_lambda_powertools.utilities.circuit_breaker.persistence import base as persistence
from aws_lambda_powertools.utilities.circuit_breaker.persistence import dynamodb

from settle.local.kyc_simulator import Server
from settlement.adapters.telemetry import logger
from tests.kyc.environments import Clock

Said = Callable[[], str]


class Counting(Server):
    """The simulated provider, which also counts its connections, and sends no webhook."""

    connections = 0

    def decide(
        self, key: str, decision: str = "APPROVED", reference: str = "", event: str = ""
    ) -> dict[str, str]:
        return {}

    def get_request(self):  # type: ignore[no-untyped-def]
        self.connections += 1
        return super().get_request()


@pytest.fixture
def simulator() -> Iterator[Counting]:
    """The simulated provider, on a free port."""
    server = Counting(0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.stopped.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    """Return the text of all later log records, of any level and logger, with their fields and errors."""
    caplog.set_level(logging.DEBUG)
    logger.addHandler(caplog.handler)
    yield lambda: "\n".join(map(_everything, caplog.records))
    logger.removeHandler(caplog.handler)


def url(simulator: Server) -> str:
    return f"http://127.0.0.1:{simulator.server_address[1]}"


def _everything(record: logging.LogRecord) -> str:
    trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
    return f"{record.getMessage()} {record.__dict__} {trace}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the circuit, which only the test moves."""
    clock = Clock()
    for module in (base, persistence, dynamodb):
        monkeypatch.setattr(module, "dt", clock)
    return clock
