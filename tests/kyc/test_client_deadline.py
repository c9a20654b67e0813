"""One time limit covers lookup, addresses, handshake, question and answer together."""

import socket
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from settlement.core.model.verdict import Verdict
from settlement.http import connection as http_connection
from settlement.http.connection import LOOKUP_SECONDS_MAX, LOOKUPS_MAX, Cutoff, first_to_accept
from tests.kyc.conftest import Ask
from tests.kyc.network import Resolver, dripping_handshake, silent_ports
from tests.kyc.raw import (
    HEAD_AND_LENGTH,
    IMPATIENT,
    WAIT_SECONDS_MAX,
    answer,
    be_patient,
    client,
    dripping,
    raw,
    says,
    silent,
)

HOST = "kyc.test"
NAMED = f"http://{HOST}"
NOT_LOOKED_UP = "kyc: the provider's name was not looked up in time"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(http_connection, "socket", resolver.socket)
    return resolver


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(seconds=1_800_000_000.0)
    told = SimpleNamespace(**vars(time) | {"time": lambda: clock.seconds})
    monkeypatch.setattr(http_connection, "time", told)
    return clock


def in_time(act: Callable[[], Any]) -> Any:
    """Return the action's result. Fail if it took as long as 64 timeouts of a second in a row."""
    began = time.monotonic()
    result = act()
    assert time.monotonic() - began < WAIT_SECONDS_MAX
    return result


# Addresses


@pytest.mark.parametrize("count", [0, 1, 2, 8, 64])
def test_a_good_address_is_found_behind_silent_ones(ask: Ask, resolver: Resolver, count: int) -> None:
    with silent_ports(count) as ports, raw(answer()) as server:
        resolver.ports = [*ports, server.port]

        assert isinstance(in_time(lambda: ask(client(NAMED, (20, 20)))), Verdict)


def test_an_address_that_refuses_does_not_delay_the_next_one(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed, raw(answer()) as server:
        closed.bind(("127.0.0.1", 0))  # and never listens
        resolver.ports = [*[closed.getsockname()[1]] * 8, server.port]
        monkeypatch.setattr(http_connection, "PAUSE_SECONDS", 3)  # less than each address's share
        began = time.monotonic()

        place, connected = first_to_accept(resolver.getaddrinfo(HOST, 80), WAIT_SECONDS_MAX)

        connected.close()
        assert place == ("127.0.0.1", server.port)
        assert time.monotonic() - began < 8 * http_connection.PAUSE_SECONDS


def test_an_address_of_an_unsupported_family_is_passed_over() -> None:
    with raw(answer()) as server:
        lacking = (9_999, socket.SOCK_STREAM, 0, "", ("::1", 1))
        good = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", server.port))

        place, connected = first_to_accept([lacking, good], 20)

        connected.close()
    assert place == good[-1]


def test_connection_attempts_that_lose_are_closed(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[socket.socket | None] = []
    begin = http_connection._begin

    def noted(address: http_connection.Address) -> socket.socket | None:
        begun.append(begin(address))
        return begun[-1]

    monkeypatch.setattr(http_connection, "_begin", noted)
    with silent_ports(3) as ports, raw(answer()) as server:
        resolver.ports = [*ports, server.port]
        _, connected = first_to_accept(resolver.getaddrinfo(HOST, 80), 20)
        with pytest.raises(OSError, match="no address"):
            first_to_accept(resolver.getaddrinfo(HOST, 80)[:3], 0.1)

    assert [each for each in begun if each and each.fileno() != -1] == [connected]
    connected.close()


def test_an_address_that_never_answers_is_tried_last(ask: Ask, resolver: Resolver) -> None:
    with raw(silent) as bad, raw(says(answer(), hang_up=True)) as good:
        resolver.ports = [bad.port, good.port]
        asking = client(NAMED, (20, 2))
        assert str(ask(asking)) == "kyc: ReadTimeoutError"
        be_patient(asking)

        for connections in (1, 2, 3):
            good.closed.clear()
            assert isinstance(ask(asking), Verdict)
            assert good.closed.wait(WAIT_SECONDS_MAX)
            assert (bad.connections, good.connections) == (1, connections)


# The lookup


def test_an_endless_lookup_is_abandoned_and_later_questions_join_it(ask: Ask, resolver: Resolver) -> None:
    """A lookup cannot be interrupted: its thread stays, and its answer serves a later question."""
    resolver.may_answer.clear()
    with raw(says(answer(), hang_up=False)) as server:
        resolver.ports = [server.port]
        asking = client(NAMED, (0.2, 0.2))
        assert [str(in_time(lambda: ask(asking))) for _ in range(3)] == [NOT_LOOKED_UP] * 3
        assert (resolver.lookups, server.connections) == (1, 0)

        resolver.may_answer.set()
        asking = asking_patiently(asking)

        assert isinstance(ask(asking), Verdict)
        assert (resolver.lookups, server.connections) == (1, 1)


def asking_patiently(asking: Any) -> Any:
    """Return a patient client that shares the lookups."""
    patient = client(NAMED)
    patient._exchanger._addresses = asking._exchanger._addresses
    return patient


def test_old_lookups_are_not_shared_and_at_most_four_hang(
    ask: Ask, resolver: Resolver, clock: SimpleNamespace
) -> None:
    resolver.may_answer.clear()
    with raw(answer()) as server:
        resolver.ports = [server.port]
        asking = client(NAMED, (0.2, 0.2))
        for begun in range(1, LOOKUPS_MAX + 1):
            assert str(ask(asking)) == NOT_LOOKED_UP
            clock.seconds += LOOKUP_SECONDS_MAX
            assert str(ask(asking)) == NOT_LOOKED_UP
            assert resolver.lookups == begun
            clock.seconds += 1

        assert str(ask(asking)) == "kyc: 4 lookups of the provider's name hang"

        resolver.may_answer.set()
        for lookup in asking._exchanger._addresses._running:
            lookup.thread.join(WAIT_SECONDS_MAX)
        assert isinstance(ask(asking_patiently(asking)), Verdict)
        assert resolver.lookups == LOOKUPS_MAX + 1


def test_a_clock_going_back_does_not_extend_the_lookup_cache(
    ask: Ask, resolver: Resolver, clock: SimpleNamespace
) -> None:
    with raw(answer()) as server:
        resolver.ports = [server.port]
        asking = client(NAMED)
        for seconds in (0, LOOKUP_SECONDS_MAX, -3_600):
            clock.seconds += seconds
            server.closed.clear()
            assert isinstance(ask(asking), Verdict)
            assert server.closed.wait(WAIT_SECONDS_MAX)

    assert resolver.lookups == 2


def test_a_name_is_looked_up_again_after_a_failure(ask: Ask, resolver: Resolver) -> None:
    resolver.fails = True
    with raw(answer()) as server:
        asking = client(NAMED)
        assert str(ask(asking)) == "kyc: the provider's name is not known: gaierror"
        resolver.fails = False
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            resolver.ports = [closed.getsockname()[1]]
            assert str(ask(asking)) == "kyc: no connection to any of 1 addresses"
        resolver.ports = [server.port]  # the provider has moved

        assert isinstance(ask(asking), Verdict)


def test_an_invalid_host_name_is_an_outage(ask: Ask) -> None:
    assert (
        str(ask(client(f"http://{'a' * 70}.test"))) == "kyc: the provider's name is not known: UnicodeError"
    )


# Handshake, question and answer


@pytest.mark.parametrize(
    ("lookup_seconds", "timeouts", "said"),
    [
        (0, (1, 20), "kyc: ReadTimeoutError"),
        (2, (4, 0.1), "kyc: the exchange took longer than 4.1 s"),
    ],
    ids=["alone", "after a slow lookup"],
)
def test_a_slow_dripping_handshake_ends_within_the_limit(
    ask: Ask, resolver: Resolver, lookup_seconds: int, timeouts: tuple[float, float], said: str
) -> None:
    """Each silence in the handshake is shorter than a timeout, so the timeouts do not end it."""
    resolver.may_answer.clear()
    asking = client(f"https://{HOST}", timeouts)
    threading.Timer(lookup_seconds, resolver.may_answer.set).start()
    with dripping_handshake() as port:
        resolver.ports = [port]

        assert str(in_time(lambda: ask(asking))) == said


def test_a_slow_answer_on_a_kept_connection_is_cut_off(ask: Ask) -> None:
    talks = iter([says(answer(), hang_up=False), dripping(HEAD_AND_LENGTH, b"x")])

    def talk(connection: socket.socket) -> object:
        return next(talks)(connection)

    with raw(talk) as server:
        asking = client(server.url, (1, 1))
        asking._exchanger._pool.timeout = urllib3.Timeout(20)  # of a silence
        assert isinstance(ask(asking), Verdict)

        outage = in_time(lambda: ask(asking))

    assert str(outage) == "kyc: the exchange took longer than 2 s"
    assert server.connections == 1


def test_a_connection_made_after_the_limit_is_not_used(
    ask: Ask, resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = http_connection.first_to_accept

    def late(*arguments: Any) -> Any:
        found = first(*arguments)
        asking._exchanger._cutoff._end()
        return found

    monkeypatch.setattr(http_connection, "first_to_accept", late)
    with raw(answer()) as server:
        resolver.ports = [server.port]
        asking = client(NAMED)

        assert str(ask(asking)) == "kyc: the exchange took longer than 40 s"
        assert server.requests == []


def test_a_late_timer_does_not_cut_off_the_next_exchange(ask: Ask) -> None:
    """An environment may freeze between the answer and the timer, and thaw in the next exchange."""
    earlier: list[Cutoff] = []

    def talk(connection: socket.socket) -> bool:
        for cutoff in earlier:
            cutoff._end()
        connection.sendall(answer())
        return True

    with raw(talk) as server:
        asking = client(server.url)
        for _ in range(2):
            assert isinstance(ask(asking), Verdict)
            earlier.append(asking._exchanger._cutoff)

    assert server.connections == 1


def test_an_exchange_leaves_no_thread_and_no_descriptor(ask: Ask) -> None:
    with raw(says(answer(), hang_up=False)) as server:
        asking = client(server.url, IMPATIENT)
        ask(asking)
        threads = threading.active_count()
        cutoff = asking._exchanger._cutoff
        cutoff._timer.join(WAIT_SECONDS_MAX)

    assert cutoff._watched is None
    assert not cutoff._timer.is_alive()
    assert threading.active_count() <= threads
