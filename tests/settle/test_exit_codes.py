import json
from collections.abc import Callable

import pytest

from settle.exit_codes import Exit
from tests.settle.conftest import Command
from tests.settle.desk import REASON, Desk
from tests.settle.test_settlement import completed, stuck
from tests.settle.ways import in_review, rejected, settled
from tests.world.constants import KEY

# Only the output is tested here; the commands' effects are tested elsewhere.

Make = Callable[[Desk], object]
NASTY = "[bold]not[/bold] paid [/] :warning: [red]"
UNCLAIMED = "order-unclaimed-01"
REVERSE = ("reverse", KEY, "--reason", REASON)


def resolve(decision: str, reason: str = REASON) -> tuple[str, ...]:
    return ("limbo", "resolve", KEY, decision, "--reason", reason)


def nothing(desk: Desk) -> None:
    pass


def spent(desk: Desk) -> None:
    desk.pay()
    desk.spend()


def died(desk: Desk) -> None:
    desk.half_reversed().abort()


@pytest.mark.parametrize(
    ("make", "arguments", "code"),
    [
        (settled, ("status", KEY), Exit.FINE),
        (rejected, ("status", KEY), Exit.REFUSED),
        (stuck, ("status", KEY), Exit.LIMBO),
        (in_review, ("status", KEY), Exit.IN_FLIGHT),
        (nothing, ("limbo", "list"), Exit.FINE),
        (stuck, ("limbo", "list"), Exit.FINE),
        (stuck, ("limbo", "show", KEY), Exit.FINE),
        (stuck, resolve("write-off"), Exit.FINE),
        (stuck, resolve("complete"), Exit.FINE),
        (stuck, resolve("retry"), Exit.LIMBO),
        (settled, REVERSE, Exit.FINE),
        (rejected, REVERSE, Exit.FINE),
        (spent, REVERSE, Exit.LIMBO),
        (stuck, REVERSE, Exit.LIMBO),
        (died, REVERSE, Exit.FINE),
        (stuck, ("account", "show", "bob"), Exit.FINE),
        (nothing, ("account", "open", "carla", "--currency", "EUR"), Exit.FINE),
        (stuck, ("reconcile",), Exit.FINE),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_each_answer_has_its_exit_code_in_text_and_json(
    desk: Desk, command: Command, make: Make, arguments: tuple[str, ...], code: Exit, options: tuple[str, ...]
) -> None:
    make(desk)

    ended, out, err = command(*arguments, *options)

    too_late = arguments == REVERSE and make in (rejected, stuck, died)
    note = f"{KEY}: its reversal had begun before; your reason is not on record\n" if too_late else ""
    assert (ended, err) == (code, note)
    if options:
        assert len(out.splitlines()) == 1
        assert isinstance(json.loads(out), dict | list)
    elif KEY in arguments:
        assert KEY in out
    else:
        assert out.strip()


@pytest.mark.parametrize(
    ("make", "arguments", "code"),
    [
        (nothing, ("status", UNCLAIMED), Exit.NOT_FOUND),
        (nothing, ("recover", UNCLAIMED), Exit.NOT_FOUND),
        (nothing, ("limbo", "show", UNCLAIMED), Exit.NOT_FOUND),
        (nothing, ("limbo", "resolve", UNCLAIMED, "retry", "--reason", REASON), Exit.NOT_FOUND),
        (nothing, ("reverse", UNCLAIMED, "--reason", REASON), Exit.NOT_FOUND),
        (settled, ("limbo", "show", KEY), Exit.CONFLICT),
        (settled, resolve("retry"), Exit.CONFLICT),
        (completed, REVERSE, Exit.CONFLICT),
        (stuck, resolve("retry", ""), Exit.USAGE),
        (settled, ("reverse", KEY, "--reason", " "), Exit.USAGE),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_refused_command_is_one_line_and_writes_nothing(
    desk: Desk, command: Command, make: Make, arguments: tuple[str, ...], code: Exit, options: tuple[str, ...]
) -> None:
    make(desk)
    with desk.writes_nothing():
        ended, out, err = command(*arguments, *options)

    assert (ended, out, len(err.splitlines())) == (code, "", 1)
    assert err.startswith("settle: ")
    assert code != Exit.NOT_FOUND or err == f"settle: key: no request has claimed {UNCLAIMED} in under-test\n"
    assert desk.recovery.sent == []


def squeezed(text: str) -> str:
    """Return a text without whitespace: a table may break it anywhere."""
    return "".join(text.split())


def test_a_reason_is_printed_as_it_was_written(desk: Desk, command: Command) -> None:
    """A person's words are not markup."""
    desk.pay()

    reversed_, status = command("reverse", KEY, "--reason", NASTY), command("status", KEY)

    assert (reversed_[0], status[0]) == (Exit.FINE, Exit.REFUSED)
    assert squeezed(NASTY) in squeezed(reversed_[1])
    # Once as the failure, once as the note of its entry.
    assert squeezed(status[1]).count(squeezed(NASTY)) == 2


def test_the_cause_of_a_stuck_reversal_is_printed_verbatim(desk: Desk, command: Command) -> None:
    desk.stuck("nothing")
    failure = {"step": "compensate:hold", "error": "[bold]Odd[/]", "cause": NASTY}
    desk.alter(failure=failure, reversed_for=failure)

    listed, shown = command("limbo", "list"), command("limbo", "show", KEY)

    assert (listed[0], shown[0], command(*resolve("retry"))[0]) == (Exit.FINE, Exit.FINE, Exit.LIMBO)
    assert "[bold]Odd[/]" in squeezed(listed[1])
    assert squeezed(shown[1]).count(squeezed(NASTY)) == 2


def test_status_says_whether_it_is_safe_to_retry(desk: Desk, command: Command) -> None:
    desk.pay(until="hold")

    _, out, _ = command("status", KEY)

    why = "The payment is in flight: ask again with the same key, or wait for its event."
    assert out.splitlines()[-4:] == [
        "Is it safe to retry this key?",
        "  the same key: safe: it answers PROCESSING again and moves nothing",
        f"  a new key:    NOT safe: {why}",
        f"  evidence:     {desk.entry('hold')['posted_at']} hold: alice → escrow 48.20",
    ]
