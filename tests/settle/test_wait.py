"""`settle wait`: until a settlement is finished or in LIMBO, or until the time is over."""

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from settle.exit_codes import Exit
from settle.queries import follow
from tests.settle.conftest import Ended
from tests.settle.desk import Desk
from tests.settle.flight import claimed, finished, key_of, stuck

# What the steps write is tested on both engines; here it is how long the command waits.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Command = Callable[..., Ended]
KEY = key_of(1)


class Clock:
    """A clock that only a pause moves on; `then` happens in the third pause."""

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


@at_rest
def test_a_settlement_at_rest_is_not_waited_for(
    desk: Desk, command: Command, clock: Clock, end: Callable[[Desk], object], code: Exit
) -> None:
    end(desk)

    assert command("wait", KEY, "--json") == command("status", KEY, "--json")
    assert command("wait", KEY, "--json")[0] == code
    assert clock.pauses == 0


@pytest.mark.parametrize("status", ["PROCESSING", "COMPENSATING"])
@at_rest
def test_a_settlement_in_flight_is_waited_for_and_shown_as_status_shows_it(
    desk: Desk, command: Command, clock: Clock, status: str, end: Callable[[Desk], object], code: Exit
) -> None:
    claimed(desk, status=status)
    clock.then = lambda: end(desk)

    ended, out, err = command("wait", KEY, "--json")

    assert (ended, err, clock.pauses) == (code, "", 3)
    assert command("status", KEY, "--json") == (code, out, "")


@pytest.mark.parametrize(("options", "seconds"), [((), 600), (("--timeout", "60"), 60)])
@pytest.mark.parametrize("status", ["PROCESSING", "COMPENSATING"])
def test_at_the_time_out_the_exit_code_says_that_it_is_in_flight(
    desk: Desk, command: Command, clock: Clock, status: str, options: tuple[str, ...], seconds: int
) -> None:
    claimed(desk, status=status)

    code, out, err = command("wait", KEY, *options, "--json")

    assert (code, json.loads(out)["status"]) == (Exit.IN_FLIGHT, status)
    assert err == f"{KEY} is still in flight after {seconds} s\n"
    assert seconds <= clock.seconds <= seconds + 1


def test_a_time_out_of_nothing_looks_once(desk: Desk, command: Command, clock: Clock) -> None:
    claimed(desk)

    assert command("wait", KEY, "--timeout", "0")[0] == Exit.IN_FLIGHT
    assert clock.pauses <= 1


def test_a_key_that_no_request_has_claimed_is_not_waited_for(command: Command, clock: Clock) -> None:
    assert command("wait", KEY) == (
        Exit.NOT_FOUND,
        "",
        f"settle: key: no request has claimed {KEY} in under-test\n",
    )
    assert clock.pauses == 0
