import socket

import pytest

from settle.local import ports


def test_a_port_with_a_listener_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ports.free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        drawn = iter([other.getsockname()[1], free])
        monkeypatch.setattr("secrets.choice", lambda _: next(drawn))

        assert ports.free_port() == free


def test_two_ports_drawn_together_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ports.free_ports(2)
    drawn = iter([one, one, other])
    monkeypatch.setattr("secrets.choice", lambda _: next(drawn))

    assert ports.free_ports(2) == [one, other]
