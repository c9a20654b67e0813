"""Arguments are checked before anything is looked up, and nothing that is printed moves a terminal."""

import shlex
from collections.abc import Callable

import pytest

from settle import stack
from settle.exit_codes import Exit
from settle.output.printable import is_printable, printable
from settlement.ledger import keys
from tests.settle.conftest import Ended
from tests.settle.desk import KEY, Desk
from tests.settle.flight import claimed, key_of, stuck

Settle = Callable[..., Ended]
Command = Callable[..., Ended]
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028\x7f"

moto = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

OF_A_KEY: list[tuple[str, ...]] = [
    ("status", "<>"),
    ("wait", "<>"),
    ("recover", "<>"),
    ("reverse", "<>", "--reason", "sent back"),
    ("limbo", "show", "<>"),
    ("limbo", "resolve", "<>", "retry", "--reason", "paid in"),
]
OF_AN_ACCOUNT: list[tuple[str, ...]] = [
    ("account", "show", "<>"),
    ("account", "open", "<>", "--currency", "EUR"),
]


@pytest.fixture(autouse=True)
def nothing_is_looked_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused argument must not get as far as a stack."""
    if "command" not in request.fixturenames:
        monkeypatch.setattr(stack, "find", lambda name: pytest.fail("a stack was looked for"))


def with_argument(command: tuple[str, ...], value: str) -> tuple[str, ...]:
    return tuple(value if word == "<>" else word for word in command)


@pytest.mark.parametrize(
    "key",
    ["", " ", "short", "k" * 15, "k" * 65, "k" * 3_000, "order 2026 000101", "order-2026-000101ä", "a/b" * 6],
)
@pytest.mark.parametrize("command", OF_A_KEY, ids=lambda command: " ".join(command[:2]))
def test_a_malformed_key_is_a_usage_error_in_one_line_that_does_not_repeat_it(
    settle: Settle, command: tuple[str, ...], key: str
) -> None:
    assert settle(*with_argument(command, key)) == (
        Exit.USAGE,
        "",
        "settle: key: must match ^[A-Za-z0-9_-]{16,64}$\n",
    )


@pytest.mark.parametrize(
    "account", ["", " ", "a" * 65, "a" * 3_000, "dora/emil", "dora emil", "ä", "cash:EUR"]
)
@pytest.mark.parametrize("command", OF_AN_ACCOUNT, ids=" ".join)
def test_a_malformed_account_is_a_usage_error_in_one_line(
    settle: Settle, command: tuple[str, ...], account: str
) -> None:
    code, out, err = settle(*with_argument(command, account))

    assert (code, out, len(err.splitlines())) == (Exit.USAGE, "", 1)
    assert err.startswith("settle: account: must match ^[A-Za-z0-9_.-]{1,64}$")


@pytest.mark.parametrize("account", ["fees:", "fees:eur", "fees:EURO", "losses:EUR#1", "fees:EUR:JPY"])
def test_an_internal_account_is_one_of_a_currency(settle: Settle, account: str) -> None:
    code, out, err = settle("account", "show", account)

    assert (code, out) == (Exit.USAGE, "")
    assert "or be fees:CURRENCY or losses:CURRENCY" in err


@pytest.mark.parametrize("account", ["escrow:order-2026-000101", "external:EUR"])
def test_an_account_without_a_statement_is_refused_with_where_to_look(settle: Settle, account: str) -> None:
    assert settle("account", "show", account) == (
        Exit.USAGE,
        "",
        "settle: account: escrow is shown by `settle status KEY`, external by `settle reconcile`\n",
    )


@pytest.mark.parametrize("account", ["fees:EUR", "losses:JPY", "dora", "a" * 64, "DORA.4f0b_-"])
@moto
def test_a_good_account_is_looked_up(command: Command, account: str) -> None:
    assert command("account", "show", account) == (
        Exit.NOT_FOUND,
        "",
        f"settle: account: there is no {account} in under-test\n",
    )


@moto
def test_a_customer_s_account_is_the_only_kind_that_is_opened(command: Command) -> None:
    assert command("account", "open", "fees:EUR", "--currency", "EUR")[0] == Exit.USAGE


@pytest.mark.parametrize("words", [*OF_A_KEY, *OF_AN_ACCOUNT], ids=lambda words: " ".join(words[:2]))
@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "a\nb", "a\rb", "\x9b31m", "\u202ebackwards", "\u2028", "\x7f"]
)
def test_an_argument_with_a_control_character_is_refused_and_not_repeated(
    settle: Settle, words: tuple[str, ...], text: str
) -> None:
    assert settle(*with_argument(words, text)) == (
        Exit.USAGE,
        "",
        "settle: arguments: must have no control characters\n",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("\x1b[31m",),
        ("--\x1b[31m",),
        ("status", KEY, "\x1b[31m"),
        ("status", KEY, "--stack", "\x1b[31m"),
        ("list", "--since", "\x1b[31m"),
        ("limbo", "resolve", KEY, "\x1b[31m", "--reason", "x"),
        ("start", "\x1b[31m"),
    ],
    ids=ascii,
)
def test_no_argument_at_all_reaches_the_terminal_as_an_escape(
    settle: Settle, arguments: tuple[str, ...]
) -> None:
    code, out, err = settle(*arguments)

    assert (code, out, "\x1b" in err) == (Exit.USAGE, "", False)


@pytest.mark.parametrize(("placeholder", "code"), [("<why>", 2), (" <why> ", 2)])
@pytest.mark.parametrize("command", [words for words in OF_A_KEY if "--reason" in words], ids=" ".join)
def test_the_placeholder_of_a_printed_command_must_be_replaced(
    settle: Settle, command: tuple[str, ...], placeholder: str, code: int
) -> None:
    words = with_argument(command[:-1], KEY)

    assert settle(*words, placeholder) == (
        code,
        "",
        "settle: reason: replace <why> with your reason; it goes on record\n",
    )


@moto
def test_a_printed_decision_works_once_its_placeholder_is_replaced(desk: Desk, command: Command) -> None:
    desk.stuck()
    _, out, _ = command("limbo", "show", KEY)
    (line,) = (line.strip() for line in out.splitlines() if "resolve" in line and "write-off" in line)

    as_printed = shlex.split(line.removesuffix(" --stack under-test"))
    with_a_reason = shlex.split(line.replace("<why>", "the payee is insolvent"))

    assert as_printed[0] == "settle"
    assert command(*as_printed[1:])[0] == Exit.USAGE
    assert desk.row()["status"] == "LIMBO"
    assert command(*with_a_reason[1:])[0] == Exit.FINE
    assert desk.row()["status"] == "COMPENSATED"


READING = [
    ("status", key_of(1)),
    ("status", key_of(2)),
    ("limbo", "show", key_of(2)),
    ("limbo", "list"),
    ("list", "--in-flight"),
    ("list", "--limbo"),
    ("list", "--since", "9d"),
    ("watch", "--once"),
    ("account", "show", "alice"),
    ("kyc", "status"),
]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("words", READING, ids=" ".join)
@moto
def test_what_stands_in_a_row_is_shown_without_control_characters(
    desk: Desk, command: Command, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """A row may hold any text: a provider's reason, or an attacker's."""
    failure = {"step": "compensate:release", "error": f"E{ESCAPES}", "cause": f"C{ESCAPES}"}
    claimed(desk, 1, owner=f"o{ESCAPES}", currency="EUR", claimed_at="2026-11-20T12:00:00.000Z")
    desk.ledger.put(
        {
            **keys.entry(key_of(1), "hold"),
            "step": f"hold{ESCAPES}",
            "posted_at": f"2026{ESCAPES}",
            "debit": f"alice{ESCAPES}",
            "credit": f"escrow:{key_of(1)}",
            "amount": 1,
            "reason": ESCAPES,
        }
    )
    stuck(desk, 2, failure=failure, reversed_for=failure, payer=f"p{ESCAPES}", owner=f"o{ESCAPES}")
    desk.ledger.open("alice", 1, limbo_keys={f"k{ESCAPES}"})
    desk.ledger.put({**keys.circuit("kyc"), "state": f"OPEN{ESCAPES}"})

    code, out, err = command(*words, *options)

    assert code in (Exit.FINE, Exit.LIMBO, Exit.IN_FLIGHT)
    assert {char for char in out + err if char in ESCAPES and not char.isprintable()} == set()


@pytest.mark.parametrize(
    "words", [("status", key_of(1)), ("limbo", "show", key_of(1)), ("recover", key_of(1))], ids=" ".join
)
@moto
def test_a_malformed_row_is_a_failure_in_one_line(
    desk: Desk, command: Command, words: tuple[str, ...]
) -> None:
    row = claimed(desk, 1)
    desk.ledger.put({name: value for name, value in row.items() if name != "amount"})

    assert command(*words) == (
        Exit.FAILED,
        "",
        f"settle: MalformedRow: SETTLEMENT#{key_of(1)}: has no attribute 'amount'\n",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ä → 48.20\u00a0€ 👩\u200d💻", "ä → 48.20\u00a0€ 👩\u200d💻"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u202e\u2066\u200f", "\\u202e\\u2066\\u200f"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
    ids=ascii,
)
def test_only_characters_that_a_terminal_would_obey_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert is_printable(text) is (text == shown)
    assert is_printable(shown)
