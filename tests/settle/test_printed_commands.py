import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import infra
import settle as package
import settlement
from settle import cli
from settle.exit_codes import Exit
from settle.orders.limbo import Which
from settle.orders.selection import Verb, Wanted
from settlement.core.model.command import command
from settlement.core.model.orders import Decision
from settlement.core.model.request import ACCOUNT, KEY
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.rooms import there

KEYS = st.from_regex(KEY, fullmatch=True) | st.from_regex(r"-[A-Za-z0-9_-]{15,63}", fullmatch=True)
ACCOUNTS = st.from_regex(ACCOUNT, fullmatch=True) | st.from_regex(r"-[A-Za-z0-9_.-]{0,63}", fullmatch=True)
LIKE_OPTIONS = ("--yes-this-is-prod", "-o-is-an-option-of-report", "-" * 16, "--stack-and-so-on")
REASONS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1)
OF_A_KEY = (
    *("status", "wait", "recover", "reverse", "report", "limbo show", "limbo resolve", "limbo approve"),
    *("payout status", "payout ask"),
)
OF_AN_ACCOUNT = ("account show", "account freeze", "account close", *there("merchants", "account sweep"))
CHECKED = settings(max_examples=30, deadline=None)
CLICK: Any = cli.command()
SOURCES = [Path(str(one.__file__)).parent for one in (package, settlement, infra)]


def parsed(line: str) -> dict[str, Any]:
    """Return a command line's parameters, parsed by the shell and the command."""
    first, *words = shlex.split(line)
    assert first == "settle"
    found = CLICK
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    params: dict[str, Any] = found.make_context("settle", words).params
    return params


@pytest.mark.parametrize("verb", OF_A_KEY)
@CHECKED
@given(key=KEYS, reason=REASONS)
@example(key=LIKE_OPTIONS[0], reason="-x")
@example(key=LIKE_OPTIONS[1], reason="--json")
@example(key=LIKE_OPTIONS[2], reason='it\'s "late"; $(rm) `x`')
@example(key=LIKE_OPTIONS[3], reason="--")
def test_a_printed_command_parses_again_whatever_the_key(verb: str, key: str, reason: str) -> None:
    wants = verb in ("reverse", "limbo resolve")
    words = (key, "retry") if verb == "limbo resolve" else (key,)

    found = parsed(command(verb, *words, reason=reason if wants else None, stack="settlement-prod"))

    assert found["stack"] == "settlement-prod"
    assert found.get("reason", reason) == reason
    assert key in (found.get("key"), found.get("word"), *(found.get("words") or ()))


@pytest.mark.parametrize("verb", OF_AN_ACCOUNT)
@CHECKED
@given(account=ACCOUNTS)
@example(account="-5")
@example(account="--help")
@example(account="-")
@example(account="--")
def test_a_printed_command_parses_again_whatever_the_account(verb: str, account: str) -> None:
    reason = "moved out" if verb in ("account freeze", "account close") else None

    found = parsed(command(verb, account, reason=reason, stack=None))

    assert account in (found.get("account"), found.get("merchant"))
    assert found["stack"] is None


@CHECKED
@given(account=ACCOUNTS, error=REASONS)
def test_the_command_printed_by_a_dry_run_parses_again(account: str, error: str) -> None:
    wanted = Wanted(Verb.RESOLVE, Decision.RETRY, Which(account, error), "it's paid")

    line = command(f"limbo {wanted.verb}", wanted.decision, **wanted.which.options, reason=wanted.reason)

    found = parsed(line)
    assert (found["account"], found["error"], found["reason"]) == (account, error, "it's paid")


@pytest.mark.parametrize("key", ["-Xk2_fP0qR9sT1uV3wY5z", "-5.00".replace(".", "0") * 4, "-" + "e" * 20])
def test_a_key_with_a_leading_hyphen_is_not_an_option(command: Command, key: str) -> None:
    for words in (("status", key), ("status", "--", key), ("limbo", "show", key)):
        code, _, err = command(*words)

        assert (code, err) == (Exit.NOT_FOUND, f"settle: key: no request has claimed {key} in under-test\n")


def test_a_key_that_looks_like_an_option_follows_two_hyphens(command: Command) -> None:
    code, _, err = command("report", "--", LIKE_OPTIONS[1])

    assert (code, LIKE_OPTIONS[1] in err) == (Exit.NOT_FOUND, True)


@pytest.mark.parametrize("verb", ["deposit", "withdraw"])
def test_a_negative_amount_is_refused_as_amount_not_as_option(
    desk: Desk, command: Command, verb: str
) -> None:
    moved = ("--currency", "EUR", "--reference", "bank-1", "--reason", "paid in")

    code, out, err = command("account", verb, "alice", "-5.00", *moved)

    assert (code, out) == (Exit.USAGE, "")
    assert "settle: amount: must be a decimal string with at most 2 decimals" in err


def test_an_unknown_option_is_named(settle: Command) -> None:
    code, _, err = settle("status", "order-2026-000101", "--jsn")

    assert (code, "No such option: --jsn" in err) == (Exit.USAGE, True)


def test_a_pasted_decision_works_once_its_placeholder_is_replaced(desk: Desk, command: Command) -> None:
    """The key has a leading hyphen."""
    key = "-Xk2_fP0qR9sT1uV3wY5z"
    desk.stuck(key=key)
    _, out, _ = command("limbo", "show", key)
    (line,) = (line.strip() for line in out.splitlines() if "resolve" in line and "write-off" in line)

    first, *pasted = shlex.split(line.removesuffix(" --stack under-test"))
    assert (first, command(*pasted)[0], desk.row(key)["status"]) == ("settle", Exit.USAGE, "LIMBO")
    _, *replaced = shlex.split(line.replace("<why>", "the payee is insolvent"))
    assert (command(*replaced)[0], desk.row(key)["status"]) == (Exit.FINE, "COMPENSATED")


def test_one_function_composes_every_printed_command() -> None:
    """Another function might forget the quotes, or the two hyphens."""
    groups = {name for name, one in CLICK.commands.items() if hasattr(one, "commands")}
    verbs = "|".join([*(CLICK.commands.keys() - groups), *(f"{name} [a-z]+" for name in groups)])
    by_hand = re.compile(rf"settle (?:{verbs}) (?:--[a-z]+ )?\{{")

    found = [
        f"{path.name}: {line.strip()}"
        for source in SOURCES
        for path in sorted(source.rglob("*"))
        if path.suffix in (".py", ".html", ".toml")
        for line in path.read_text("utf-8").splitlines()
        if by_hand.search(line)
    ]

    assert found == []
