import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from settle import instants
from settle.accounts import accounts
from settle.output import live
from settle.settlements import snapshot
from tests.settle.conftest import Command
from tests.settle.desk import Desk

STUCK, FLYING, SPENT = ("order-" + letter * 58 for letter in "sfp")
PAYER, PAYEE = ("payer." + "a" * 58, "payee." + "b" * 58)
TOLD_OTHERWISE = {
    "status": {"executions", "new_key_safe"},
    "list": {"since", "recover_at", "deadline_at", "claimed_at", "finished_at", "owner", "steps"},
    "watch": {"at", "since", "circuit", "behind_seconds"},
}
"""JSON fields that a table shows in another form, such as an age in place of a time."""


@pytest.fixture(autouse=True)
def longest(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settlement in LIMBO and one in flight, with the longest key and accounts."""
    monkeypatch.setenv("COLUMNS", "80")
    for account, deposit in ((PAYER, "500.00"), (PAYEE, "0")):
        accounts.open_account(desk.stack, account, "EUR", deposit)
    wire = desk.pay(STUCK, payer=PAYER, payee=PAYEE)
    desk.pay(SPENT, payer=PAYEE, payee="shop", amount="40.00", fee="0.00")
    desk.reverse("sent back", wire["key"])
    desk.pay(FLYING, until="hold", payer=PAYER, payee=PAYEE)


def leaves(value: Any, left_out: set[str]) -> Iterator[str]:
    """Yield a JSON value's texts and numbers, without the excluded fields."""
    if isinstance(value, dict):
        for name, field in value.items():
            if name not in left_out:
                yield from leaves(field, left_out)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, left_out)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--in-flight"),
        ("list", "--limbo"),
        ("list", "--since", "2020-01-01T00:00:00Z"),
        ("limbo", "list"),
        ("limbo", "show", STUCK),
        ("status", STUCK),
        ("status", FLYING),
        ("account", "show", PAYEE),
        ("kyc", "status"),
        ("reconcile",),
        ("watch", "--once"),
    ],
    ids=" ".join,
)
def test_every_value_of_a_table_is_printed_uncut(command: Command, arguments: tuple[str, ...]) -> None:
    left_out = TOLD_OTHERWISE.get(arguments[0], set())
    values = set(leaves(json.loads(command(*arguments, "--json")[1]), left_out))

    lines = command(*arguments)[1].splitlines()

    assert values
    assert [value for value in sorted(values) if not any(value in line for line in lines)] == []


def test_the_live_view_shows_the_longest_keys_uncut(desk: Desk) -> None:
    sent = io.StringIO()

    Console(file=sent, force_terminal=True, width=80).print(
        live.render(snapshot.look(desk.stack, instants.now()))
    )

    assert all(len(line) <= 80 for line in sent.getvalue().splitlines())
    assert all(key in sent.getvalue() for key in (STUCK, FLYING))
