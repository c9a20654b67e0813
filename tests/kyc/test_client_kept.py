"""The reuse of connections: how long one is kept, and that no old answer is left on it."""

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from urllib3.util import connection as urllib3_connection

from settlement.adapters import kyc_client
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import Verdict
from tests.kyc.raw import IMPATIENT, WAIT_SECONDS_MAX, answer, client, raw, says

PATIENT = {"read_timeout_seconds": 20}
IDLE = kyc_client.IDLE_SECONDS_MAX


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The client's clock, which only the test moves."""
    clock = SimpleNamespace(seconds=1_800_000_000)
    monkeypatch.setattr(kyc_client, "time", SimpleNamespace(time=lambda: clock.seconds))
    return clock


@pytest.mark.parametrize(
    ("waits", "connections"),
    [
        pytest.param([IDLE], 1, id="idle for as long as it may be"),
        pytest.param([IDLE + 1], 2, id="idle for longer"),
        pytest.param([IDLE - 1] * 5, 1, id="old, but in use"),
        pytest.param([IDLE + 1] * 2, 3, id="idle for longer, twice"),
        pytest.param([IDLE + 1, IDLE, IDLE], 2, id="idle for longer, and then in use"),
    ],
)
def test_a_connection_is_kept_while_it_is_in_use_and_not_for_longer(
    settlement: Settlement, config: StageConfig, clock: SimpleNamespace, waits: list[int], connections: int
) -> None:
    with raw(says(answer(), hang_up=False)) as server:
        asking = client(server.url, config, **PATIENT)
        asking.ask(settlement, "secret")
        for seconds in waits:
            clock.seconds += seconds
            assert isinstance(asking.ask(settlement, "secret"), Verdict)

        assert (len(server.requests), server.connections) == (len(waits) + 1, connections)


def test_an_outage_is_a_use_of_the_connection_too(
    settlement: Settlement, config: StageConfig, clock: SimpleNamespace
) -> None:
    with raw(says(answer(status=503), hang_up=False)) as server:
        asking = client(server.url, config, **PATIENT)
        for _ in range(3):
            with pytest.raises(KycUnavailable):
                asking.ask(settlement, "secret")
            clock.seconds += IDLE - 1

        assert server.connections == 1


def test_a_connection_that_a_gateway_has_forgotten_is_no_failure_of_the_provider(
    settlement: Settlement, config: StageConfig, clock: SimpleNamespace
) -> None:
    """Such a gateway swallows the bytes on the connection, and answers nothing."""
    known: set[socket.socket] = set()

    def talk(connection: socket.socket) -> bool:
        if connection in known:
            return True
        known.add(connection)
        connection.sendall(answer())
        return True

    with raw(talk) as server:
        asking = client(server.url, config, connect_timeout_seconds=5, read_timeout_seconds=5)
        asking.ask(settlement, "secret")
        clock.seconds += IDLE + 1

        assert isinstance(asking.ask(settlement, "secret"), Verdict)


@pytest.mark.parametrize(
    "said", [b"[]", b"{", b'{"decision": "APPROVED"}', b"[" * 60_000], ids=lambda said: said[:20].decode()
)
def test_a_connection_that_brought_no_verdict_is_not_used_again(
    settlement: Settlement, config: StageConfig, said: bytes
) -> None:
    answers = iter([answer(said), answer()])

    with raw(lambda connection: connection.sendall(next(answers))) as server:
        asking = client(server.url, config, **PATIENT)
        with pytest.raises(KycUnavailable, match="not what its contract says"):
            asking.ask(settlement, "secret")

        assert isinstance(asking.ask(settlement, "secret"), Verdict)
        assert server.connections == 2


def test_a_connection_that_comes_too_late_is_not_used(
    settlement: Settlement, config: StageConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timeout bounds the lookup of the provider's name."""
    hung_up = threading.Event()

    class Cut(kyc_client.Client):
        def _hang_up(self) -> None:
            super()._hang_up()
            hung_up.set()

    def slow(*arguments: Any) -> Any:
        assert hung_up.wait(WAIT_SECONDS_MAX)
        return socket.getaddrinfo(*arguments)

    monkeypatch.setattr(kyc_client, "Client", Cut)
    with raw(says(answer(), hang_up=False)) as server:
        asking = client(server.url, config, **IMPATIENT)
        with monkeypatch.context() as patched:
            looked_up = SimpleNamespace(**vars(socket) | {"getaddrinfo": slow})
            patched.setattr(urllib3_connection, "socket", looked_up)
            with pytest.raises(KycUnavailable, match=r"^kyc: ConnectTimeoutError$"):
                asking.ask(settlement, "secret")

        assert server.requests == []
        assert isinstance(asking.ask(settlement, "secret"), Verdict)
        assert len(server.requests) == 1


def test_an_answer_that_is_complete_when_the_time_is_over_is_none(
    settlement: Settlement, config: StageConfig
) -> None:
    """If the answer ends with the connection, the client's own close looks the same."""
    asking_of: list[kyc_client.Client] = []

    def talk(connection: socket.socket) -> bool:
        asking_of[0]._hang_up()
        connection.sendall(answer())
        return False

    with raw(talk) as server:
        asking_of.append(client(server.url, config, **PATIENT))
        with pytest.raises(KycUnavailable):
            asking_of[0].ask(settlement, "secret")
