"""The commands of the person on call: exit codes, JSON for scripts, and text that says what was written."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settle.actions.start import Ended
from settle.exit_codes import CommandFailed, Exit
from settle.local import embedded_aws
from settle.local.demo import cost, outage, settlements, stuck_reversal, tour
from settle.local.demo.settlements import Settled
from settle.local.record import Running
from settle.machines import Machine
from tests.settle.conftest import Ended as Finished
from tests.settle.desk import KEY, REASON, Desk

# What the commands do is tested on both engines; here it is what they print.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Command = Callable[..., Finished]
Make = Callable[[Desk], object]
NASTY = "[bold]not[/bold] paid [/] :warning: [red]"
UNCLAIMED = "order-unclaimed-01"
LONGEST = "order-" + "k" * 58


def resolve(decision: str, reason: str = REASON) -> tuple[str, ...]:
    return ("limbo", "resolve", KEY, decision, "--reason", reason)


def reverse(reason: str = REASON) -> tuple[str, ...]:
    return ("reverse", KEY, "--reason", reason)


def nothing(desk: Desk) -> None:
    pass


def settled(desk: Desk) -> None:
    desk.pay()


def spent(desk: Desk) -> None:
    desk.pay()
    desk.spend()


def compensated(desk: Desk) -> None:
    desk.compensate(desk.pay(until="release"))


def stuck(desk: Desk) -> None:
    desk.stuck()


def died(desk: Desk) -> None:
    desk.half_reversed().abort()


FINE: list[tuple[Make, tuple[str, ...], Exit]] = [
    (settled, ("status", KEY), Exit.FINE),
    (compensated, ("status", KEY), Exit.REFUSED),
    (stuck, ("status", KEY), Exit.LIMBO),
    (nothing, ("limbo", "list"), Exit.FINE),
    (stuck, ("limbo", "list"), Exit.FINE),
    (stuck, ("limbo", "show", KEY), Exit.FINE),
    (stuck, resolve("write-off"), Exit.FINE),
    (stuck, resolve("complete"), Exit.FINE),
    (stuck, resolve("retry"), Exit.LIMBO),
    (settled, reverse(), Exit.FINE),
    (compensated, reverse(), Exit.FINE),
    (spent, reverse(), Exit.LIMBO),
    (stuck, reverse(), Exit.LIMBO),
    (died, reverse(), Exit.FINE),
    (stuck, ("account", "show", "bob"), Exit.FINE),
    (nothing, ("account", "open", "carla", "--currency", "EUR"), Exit.FINE),
    (stuck, ("reconcile",), Exit.FINE),
]


def noted(make: Make, arguments: tuple[str, ...]) -> str:
    """What standard error has besides the answer: that the person's reason came too late, where it did."""
    too_late = arguments == reverse() and make in (compensated, stuck, died)
    return f"{KEY} was being reversed already; your reason is not on record\n" if too_late else ""


@pytest.mark.parametrize(("make", "arguments", "code"), FINE)
def test_a_command_prints_one_json_value_and_ends_with_its_code(
    desk: Desk, command: Command, make: Make, arguments: tuple[str, ...], code: Exit
) -> None:
    make(desk)

    ended, out, err = command(*arguments, "--json")

    assert (ended, err) == (code, noted(make, arguments))
    assert len(out.splitlines()) == 1
    assert isinstance(json.loads(out), dict | list)


@pytest.mark.parametrize(("make", "arguments", "code"), FINE[:14])
def test_a_command_tells_a_person_the_same_with_the_same_code(
    desk: Desk, command: Command, make: Make, arguments: tuple[str, ...], code: Exit
) -> None:
    make(desk)

    ended, out, err = command(*arguments)

    assert (ended, err) == (code, noted(make, arguments))
    assert KEY in out or "no settlement is in LIMBO" in out


@pytest.mark.parametrize(
    ("make", "arguments", "code"),
    [
        (nothing, ("limbo", "show", UNCLAIMED), Exit.NOT_FOUND),
        (nothing, ("status", UNCLAIMED), Exit.NOT_FOUND),
        (nothing, resolve("retry"), Exit.NOT_FOUND),
        (nothing, reverse(), Exit.NOT_FOUND),
        (settled, ("limbo", "show", KEY), Exit.CONFLICT),
        (settled, resolve("retry"), Exit.CONFLICT),
        (stuck, resolve("retry", ""), Exit.USAGE),
        (settled, reverse(" "), Exit.USAGE),
        (settled, reverse("one\ntwo"), Exit.USAGE),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_refused_command_is_one_line_and_writes_nothing(
    desk: Desk,
    command: Command,
    make: Make,
    arguments: tuple[str, ...],
    code: Exit,
    options: tuple[str, ...],
) -> None:
    make(desk)
    before = desk.ledger.rows()

    ended, out, err = command(*arguments, *options)

    assert (ended, out, len(err.splitlines())) == (code, "", 1)
    assert err.startswith("settle: ")
    assert desk.ledger.rows() == before


def squeezed(text: str) -> str:
    """A text without its line breaks and blanks: a table may break a long text anywhere."""
    return "".join(text.split())


@pytest.mark.parametrize("reason", [NASTY, "[bold]", "[/bold]", ":warning:"])
def test_a_reason_is_printed_as_it_was_written(desk: Desk, command: Command, reason: str) -> None:
    """A person's words are no markup: nothing in them is lost, and none of them ends the command."""
    desk.pay()

    reversed_ = command(*reverse(reason))
    status = command("status", KEY)

    assert (reversed_[0], status[0]) == (Exit.FINE, Exit.REFUSED)
    assert squeezed(reason) in squeezed(reversed_[1])
    # Once as the failure, once as the note of its entry.
    assert squeezed(status[1]).count(squeezed(reason)) == 2


@pytest.mark.parametrize("cause", [NASTY, "[/bold]"])
def test_why_something_is_stuck_is_printed_as_it_was_written(
    desk: Desk, command: Command, cause: str
) -> None:
    desk.stuck("nothing")
    failure = {"step": "compensate:hold", "error": "[bold]Odd[/]", "cause": cause}
    desk.ledger.put(desk.row() | {"failure": failure, "reversed_for": failure})

    listed, shown, retried = (
        command("limbo", "list"),
        command("limbo", "show", KEY),
        command(*resolve("retry")),
    )

    assert (listed[0], shown[0], retried[0]) == (Exit.FINE, Exit.FINE, Exit.LIMBO)
    assert "[bold]Odd[/]" in squeezed(listed[1])
    assert squeezed(shown[1]).count(squeezed(cause)) == 2


def test_the_longest_key_and_its_commands_are_printed_whole(desk: Desk, command: Command) -> None:
    """They are there to be copied."""
    desk.stuck("nothing", LONGEST)

    listed, shown = command("limbo", "list")[1], command("limbo", "show", LONGEST)[1]

    assert any(LONGEST in line for line in listed.splitlines())
    assert f'settle limbo resolve {LONGEST} retry --case 1 --reason "<why>" --stack under-test' in shown


def test_the_status_tells_a_person_whether_to_try_again_and_why(desk: Desk, command: Command) -> None:
    desk.pay(until="hold")
    entry = desk.entry("hold")
    assert entry is not None

    _, out, _ = command("status", KEY)

    assert out.splitlines()[-4:] == [
        "Is it safe to retry this key?",
        "  the same key: safe: it answers PROCESSING again and moves nothing",
        "  a new key:    NOT safe: it may still go through: the escrow has 48.20 EUR",
        f"  evidence:     {entry['posted_at']} hold: alice → escrow 48.20",
    ]


@pytest.fixture
def demonstrated(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The demo without its embedded AWS: one request, and walks that end as the test says."""
    walked: dict[str, dict[str, Any]] = {"limbo": {"conserved": True}, "outage": {"conserved": True}}
    outcome = {"status": "SETTLED", "replayed": False, "failure": None}
    request = {"key": KEY, "payer": "a.run", "payee": "b.run", "amount": "1.00", "currency": "EUR"}

    def settle_all(*_: object) -> list[Settled]:
        return [Settled(Machine.EXPRESS, request, Ended(KEY, "an-execution", outcome))]

    monkeypatch.setattr(embedded_aws, "up", lambda report: Running(1, 1, 2))
    monkeypatch.setattr(tour, "embedded", lambda running: desk.stack)
    monkeypatch.setattr(settlements, "open_accounts", lambda *_: 0)
    monkeypatch.setattr(settlements, "settle_all", settle_all)
    monkeypatch.setattr(cost, "since", lambda *_: {})
    monkeypatch.setattr(stuck_reversal, "walk", lambda *_: walked["limbo"])
    monkeypatch.setattr(outage, "walk", lambda *_: walked["outage"])
    return walked


@pytest.mark.parametrize("walk", ["limbo", "outage"])
@pytest.mark.parametrize(("conserved", "code"), [(True, Exit.FINE), (False, Exit.FAILED)])
def test_the_demo_fails_where_one_of_its_walks_loses_money(
    command: Command, demonstrated: dict[str, dict[str, Any]], walk: str, conserved: bool, code: Exit
) -> None:
    demonstrated[walk]["conserved"] = conserved

    assert command("demo", "--json")[0] == code


def test_the_demo_too_prints_one_json_value(
    command: Command, demonstrated: dict[str, dict[str, Any]]
) -> None:
    _, out, _ = command("demo", "--json")

    assert json.loads(out)


def test_a_command_that_fails_in_the_middle_prints_no_json(
    command: Command, demonstrated: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CommandFailed(Exit.FAILED, "no alert came")

    monkeypatch.setattr(stuck_reversal, "walk", fail)

    code, out, err = command("demo", "--json")

    assert (code, out) == (Exit.FAILED, "")
    assert err.splitlines()[-1] == "settle: no alert came"
