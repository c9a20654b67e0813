import socket
from types import SimpleNamespace

import pytest

from settlement.core.model.errors import KycUnavailable
from settlement.core.model.verdict import Verdict
from settlement.http import exchange
from settlement.http.exchange import IDLE_SECONDS_MAX as IDLE
from settlement.kyc import client as kyc_client
from tests.kyc.conftest import Ask
from tests.kyc.raw import WAIT_SECONDS_MAX, answer, client, raw, says


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(seconds=1_800_000_000)
    monkeypatch.setattr(exchange, "time", SimpleNamespace(time=lambda: clock.seconds))
    return clock


@pytest.mark.parametrize("status", [200, 503], ids=["verdicts", "outages"])
@pytest.mark.parametrize(
    ("waits", "connections"),
    [
        pytest.param([IDLE], 1, id="idle for as long as it may be"),
        pytest.param([IDLE + 1], 2, id="idle for longer"),
        pytest.param([IDLE - 1] * 5, 1, id="old, but in use"),
        pytest.param([IDLE + 1, IDLE, IDLE], 2, id="idle for longer, and then in use"),
    ],
)
def test_an_idle_connection_is_not_used_again(
    ask: Ask, clock: SimpleNamespace, status: int, waits: list[int], connections: int
) -> None:
    """Gateways forget an idle connection silently: a question on it would count as an outage."""
    with raw(says(answer(status=status), hang_up=False)) as server:
        asking = client(server.url)
        for seconds in [0, *waits]:
            clock.seconds += seconds
            assert isinstance(ask(asking), Verdict) == (status == 200)

    assert (len(server.requests), server.connections) == (len(waits) + 1, connections)


def test_a_connection_that_was_closed_in_between_is_replaced(ask: Ask) -> None:
    with raw(says(answer(), hang_up=True)) as server:
        asking = client(server.url)
        for number in range(3):
            server.closed.clear()
            assert isinstance(ask(asking), Verdict)
            assert server.closed.wait(WAIT_SECONDS_MAX)
            assert server.connections == number + 1


@pytest.mark.parametrize("said", [b"{", b'{"decision": "APPROVED"}', b"[" * 60_000], ids=["{", "{}", "[[["])
def test_a_connection_that_brought_no_verdict_is_not_used_again(ask: Ask, said: bytes) -> None:
    answers = iter([answer(said), answer()])

    with raw(lambda connection: connection.sendall(next(answers))) as server:
        asking = client(server.url)
        assert str(ask(asking)) == "kyc: the provider's answer is not what its contract says"

        assert isinstance(ask(asking), Verdict)
        assert server.connections == 2


def test_an_answer_that_completes_as_the_time_ends_is_discarded(ask: Ask) -> None:
    """The client's own close would look like the answer's end."""
    asking_of: list[kyc_client.Client] = []

    def talk(connection: socket.socket) -> bool:
        asking_of[0]._exchanger._cutoff._end()
        connection.sendall(answer())
        return False

    with raw(talk) as server:
        asking_of.append(client(server.url))

        assert isinstance(ask(asking_of[0]), KycUnavailable)
