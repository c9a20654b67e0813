import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from settle.exit_codes import Exit
from settle.settlements import follow
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.flight import claimed, finished, key_of, stuck

KEY = key_of(1)


class Clock:
    """A clock that only pauses advance. The third pause calls `then`."""

    def __init__(self) -> None:
        self.seconds, self.pauses = 0.0, 0
        self.then: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds, self.pauses = self.seconds + seconds, self.pauses + 1
        if self.pauses == 3:
            self.then()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(follow, "_POLL_SECONDS", 10)
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    return clock


AT_REST = [
    (lambda desk: finished(desk, status="SETTLED"), Exit.FINE),
    (lambda desk: finished(desk, status="REJECTED"), Exit.REFUSED),
    (lambda desk: finished(desk, status="COMPENSATED"), Exit.REFUSED),
    (stuck, Exit.LIMBO),
]
at_rest = pytest.mark.parametrize(
    ("end", "code"), AT_REST, ids=["SETTLED", "REJECTED", "COMPENSATED", "LIMBO"]
)


@pytest.mark.parametrize("in_flight", [None, "PROCESSING", "COMPENSATING"])
@at_rest
def test_wait_ends_at_rest_and_prints_what_status_prints(
    desk: Desk,
    command: Command,
    clock: Clock,
    in_flight: str | None,
    end: Callable[[Desk], object],
    code: Exit,
) -> None:
    if in_flight:
        claimed(desk, status=in_flight)
        clock.then = lambda: end(desk)
    else:
        end(desk)

    ended, out, err = command("wait", KEY, "--json")

    assert (ended, err, clock.pauses) == (code, "", 3 if in_flight else 0)
    assert json.loads(command("status", KEY, "--json")[1]) == json.loads(out)


@pytest.mark.parametrize(
    ("status", "options", "seconds"),
    [
        ("PROCESSING", (), 600),
        ("COMPENSATING", ("--timeout", "60"), 60),
        ("PROCESSING", ("--timeout", "0"), 0),
    ],
)
def test_a_wait_that_times_out_exits_as_in_flight(
    desk: Desk,
    command: Command,
    clock: Clock,
    status: str,
    options: tuple[str, ...],
    seconds: int,
) -> None:
    claimed(desk, status=status)

    code, out, err = command("wait", KEY, *options, "--json")

    assert (code, json.loads(out)["status"]) == (Exit.IN_FLIGHT, status)
    assert err == f"{KEY} is still in flight after {seconds} s\n"
    assert seconds <= clock.seconds <= seconds + 10


def test_waiting_for_an_unclaimed_key_ends_at_once(command: Command, clock: Clock) -> None:
    assert command("wait", KEY) == (
        Exit.NOT_FOUND,
        "",
        f"settle: key: no request has claimed {KEY} in under-test\n",
    )
    assert clock.pauses == 0
