"""The simulated KYC provider at the wire: how it answers, and how it fails to."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import psutil
import pytest
import urllib3

from settle.local import kyc_simulator
from settle.local.kyc_behaviour import Behaviour
from settle.local.kyc_simulator import Server
from tests.settle.wire import KEY, SECONDS_MAX, Simulator, raw_verification

Choose = Callable[[Simulator, Behaviour], dict[str, str]]


def by_payee(simulator: Simulator, behaviour: Behaviour) -> dict[str, str]:
    return {"payee": f"kyc-{behaviour}"}


def by_payer_of_a_run(simulator: Simulator, behaviour: Behaviour) -> dict[str, str]:
    return {"payer": f"kyc-{behaviour}.4f0b2c9e"}


def by_control(simulator: Simulator, behaviour: Behaviour) -> dict[str, str]:
    assert simulator.tell({"behaviour": behaviour}).status == 200
    return {}


choosing = pytest.mark.parametrize("choose", [by_payee, by_payer_of_a_run, by_control])


class Watch(threading.Event):
    """The provider's patience, without the wait: for how long it would have waited each time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return False


@pytest.fixture
def watch(simulator: Simulator) -> Watch:
    watch = Watch()
    simulator.server.stopped = watch
    return watch


@choosing
@pytest.mark.parametrize(
    ("behaviour", "decision"),
    [
        (Behaviour.APPROVE, "APPROVED"),
        (Behaviour.REJECT, "REJECTED"),
        (Behaviour.REVIEW, "REVIEW"),
    ],
)
def test_a_decision_is_answered_as_the_contract_has_it(
    simulator: Simulator, choose: Choose, behaviour: Behaviour, decision: str
) -> None:
    answer = simulator.verify(**choose(simulator, behaviour))

    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {
        "decision": decision,
        "reference": f"ver_{KEY}",
        "reason": f"simulated: {behaviour}",
    }


@choosing
@pytest.mark.parametrize(
    ("behaviour", "status"),
    [(Behaviour.REFUSE, 400), (Behaviour.BUSY, 429), (Behaviour.ERROR, 500), (Behaviour.REDIRECT, 307)],
)
def test_a_status_is_answered_with_an_error_and_without_a_decision(
    simulator: Simulator, choose: Choose, behaviour: Behaviour, status: int
) -> None:
    answer = simulator.verify(**choose(simulator, behaviour))

    assert answer.status == status
    assert answer.json().keys() == {"error", "message"}


def test_a_redirect_leads_back_to_the_provider(simulator: Simulator) -> None:
    answer = simulator.verify(payee="kyc-redirect")

    assert answer.headers["Location"] == "/verifications"


@choosing
def test_garbage_is_a_whole_answer_that_is_no_json(simulator: Simulator, choose: Choose) -> None:
    answer = simulator.verify(**choose(simulator, Behaviour.GARBAGE))

    assert (answer.status, answer.data) == (200, b"<p>hello</p>")


@choosing
def test_a_huge_answer_is_sent_whole(simulator: Simulator, choose: Choose) -> None:
    head, _, body = simulator.raw(**choose(simulator, Behaviour.HUGE)).partition(b"\r\n\r\n")

    assert head == b"HTTP/1.1 200 OK\r\nContent-Length: 10000000"
    assert (len(body), body.strip()) == (10_000_000, b"")


@choosing
@pytest.mark.parametrize(("behaviour", "seconds"), [(Behaviour.CLOSE, 0), (Behaviour.HANG, 60)])
def test_the_connection_is_closed_without_a_byte_at_once_or_after_a_long_while(
    simulator: Simulator, watch: Watch, choose: Choose, behaviour: Behaviour, seconds: int
) -> None:
    assert simulator.raw(**choose(simulator, behaviour)) == b""
    assert watch.waits == [seconds]


def test_a_caller_who_gives_up_on_a_provider_that_hangs_has_had_no_answer(simulator: Simulator) -> None:
    with socket.create_connection(("127.0.0.1", simulator.server.server_port)) as wire:
        wire.sendall(raw_verification(payee="kyc-hang"))
        wire.settimeout(0.3)

        with pytest.raises(TimeoutError):
            wire.recv(1)

    assert simulator.verify().status == 200  # it hangs for that caller alone


@choosing
@pytest.mark.parametrize(
    ("behaviour", "head"),
    [
        (Behaviour.DRIP, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
        (Behaviour.DRIP_HEADERS, b"HTTP/1.1 200 OK\r\n"),
    ],
)
def test_a_drip_is_a_byte_every_half_second_and_never_whole(
    simulator: Simulator, watch: Watch, choose: Choose, behaviour: Behaviour, head: bytes
) -> None:
    answer = simulator.raw(**choose(simulator, behaviour))

    dripped = answer.removeprefix(head)
    assert answer.startswith(head + b'{"decision": "APPROVED"')
    assert len(dripped) == 99
    assert b"\n" not in dripped
    assert watch.waits == [0.5] * len(dripped)


def test_a_drip_ends_once_the_provider_is_stopped(simulator: Simulator) -> None:
    simulator.server.stopped.set()

    assert simulator.raw(payee="kyc-drip").endswith(b"\r\n\r\n")


@pytest.mark.parametrize("behaviour", ["drip", "close"])
def test_an_http_client_takes_no_half_answer_for_a_whole_one(
    simulator: Simulator, watch: Watch, behaviour: str
) -> None:
    with pytest.raises(urllib3.exceptions.ProtocolError):
        simulator.verify(payee=f"kyc-{behaviour}")


@pytest.mark.parametrize(
    ("payer", "payee", "decision"),
    [
        ("alice", "bob", "REVIEW"),
        ("kyc-reject", "kyc-approve", "APPROVED"),
        ("kyc-approve", "kyc-reject.x", "REJECTED"),
        ("kyc-reject", "kyc-nonsense", "REJECTED"),
        ("kyc-nonsense", "bob", "REVIEW"),
        ("reject", "approve", "REVIEW"),
        ("kyc-rejected", "my-kyc-reject", "REVIEW"),
        ("kyc-", "kyc", "REVIEW"),
        ("kyc-REJECT", "KYC-reject", "REVIEW"),
    ],
)
def test_an_account_decides_before_the_control_and_the_payee_before_the_payer(
    simulator: Simulator, payer: str, payee: str, decision: str
) -> None:
    simulator.tell({"behaviour": "review"})

    assert simulator.verify(payer=payer, payee=payee).json()["decision"] == decision


def test_no_behaviour_is_left_untested() -> None:
    tested = {
        *(Behaviour.APPROVE, Behaviour.REJECT, Behaviour.REVIEW),
        *(Behaviour.REVIEW_APPROVE, Behaviour.REVIEW_REJECT, Behaviour.EARLY_APPROVE),
        *(Behaviour.REFUSE, Behaviour.BUSY, Behaviour.ERROR, Behaviour.REDIRECT),
        *(Behaviour.GARBAGE, Behaviour.HUGE, Behaviour.CLOSE, Behaviour.HANG),
        *(Behaviour.DRIP, Behaviour.DRIP_HEADERS),
    }

    assert tested == set(Behaviour)


def test_a_delay_comes_before_the_answer(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(kyc_simulator.time, "sleep", slept.append)
    simulator.tell({"delay_seconds": 2.5})

    assert simulator.verify().status == 200
    assert slept == [2.5]


def test_it_listens_on_this_machine_only(simulator: Simulator) -> None:
    assert simulator.server.socket.getsockname()[0] == "127.0.0.1"


def test_the_program_listens_on_the_port_that_it_is_given_on_this_machine_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "settle.local.kyc_simulator", "--port", str(port)])
    try:
        retries = urllib3.Retry(connect=60, backoff_factor=0.1, backoff_max=0.2)
        answer = urllib3.request("GET", f"http://127.0.0.1:{port}/control", retries=retries)
        sockets = psutil.Process(process.pid).net_connections("inet")
    finally:
        process.kill()
        process.wait(SECONDS_MAX)

    assert answer.json() == {"behaviour": "approve", "delay_seconds": 0, "calls": 0}
    assert {s.laddr for s in sockets if s.status == psutil.CONN_LISTEN} == {("127.0.0.1", port)}


def test_a_port_that_is_taken_is_not_shared(simulator: Simulator) -> None:
    with pytest.raises(OSError, match="in use"):
        Server(simulator.server.server_port)
