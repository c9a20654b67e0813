import pytest

from settle import stack
from settle.exit_codes import Exit
from settle.output.printable import is_printable, printable
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.flight import claimed, key_of, stuck
from tests.world.constants import KEY

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028\x7f"


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
    if "command" not in request.fixturenames:
        monkeypatch.setattr(stack, "find", lambda name: pytest.fail("a stack was looked for"))


def with_argument(command: tuple[str, ...], value: str) -> tuple[str, ...]:
    return tuple(word.replace("<>", value) for word in command)


PLACEHOLDER = "reason: replace <why> with your reason; it goes on record"
KEYS = ["", " ", "k" * 15, "k" * 65, "k" * 3_000, "order 2026 000101", "order-2026-000101ä", "a/b" * 6]
ACCOUNTS = ["", " ", "a" * 65, "a" * 3_000, "dora/emil", "dora emil", "ä", "cash:EUR"]
CONTROLS = ["\x1b[31mred", "a\nb", "a\rb", "\x9b31m", "\u202ebackwards", "\u2028", "\x7f"]
INTERNAL = ["fees:", "fees:eur", "fees:EU", "fees:POINTS_OF_OURS", "losses:EUR#1", "fees:EUR:JPY"]
KEY_RULE = "key: must match ^[A-Za-z0-9_-]{16,64}$"
ACCOUNT_RULE = "account: must match ^[A-Za-z0-9_.-]{1,64}$"
OR_INTERNAL = ", or be fees:CURRENCY or losses:CURRENCY"
ELSEWHERE = (
    "account: escrow is shown by `settle status KEY`, external, transit and suspense by `settle reconcile`"
)
NO_CONTROLS = "arguments: must have no control characters"


@pytest.mark.parametrize(
    ("words", "values", "message"),
    [
        (OF_A_KEY[0], KEYS, KEY_RULE),
        *((words, KEYS[:1], KEY_RULE) for words in OF_A_KEY[1:]),
        (OF_AN_ACCOUNT[0], [*ACCOUNTS, *INTERNAL], ACCOUNT_RULE + OR_INTERNAL),
        (
            OF_AN_ACCOUNT[0],
            ["escrow:order-2026-000101", "external:EUR", "transit:EUR", "suspense:EUR"],
            ELSEWHERE,
        ),
        (OF_AN_ACCOUNT[1], [*ACCOUNTS, *INTERNAL, "fees:EUR"], ACCOUNT_RULE),
        (OF_A_KEY[0], CONTROLS, NO_CONTROLS),
        *((words, CONTROLS[:1], NO_CONTROLS) for words in OF_A_KEY[1:] + OF_AN_ACCOUNT),
        (("<>",), CONTROLS[:1], NO_CONTROLS),
        (("--<>",), CONTROLS[:1], NO_CONTROLS),
        (("status", KEY, "--stack", "<>"), CONTROLS[:1], NO_CONTROLS),
        (("list", "--since", "<>"), CONTROLS[:1], NO_CONTROLS),
        (("start", "<>"), CONTROLS[:1], NO_CONTROLS),
        *(
            ((*with_argument(words[:-1], KEY), "<>"), ["<why>", " <why> "], PLACEHOLDER)
            for words in OF_A_KEY
            if "--reason" in words
        ),
    ],
    ids=str,
)
def test_a_malformed_argument_is_not_repeated_in_its_usage_error(
    settle: Command, words: tuple[str, ...], values: list[str], message: str
) -> None:
    for value in values:
        assert settle(*with_argument(words, value)) == (Exit.USAGE, "", f"settle: {message}\n")


def test_a_well_formed_account_name_is_looked_up(command: Command) -> None:
    for account in ["fees:EUR", "losses:JPY", "dora", "a" * 64, "DORA.4f0b_-"]:
        message = f"settle: account: there is no {account} in under-test\n"
        assert command("account", "show", account) == (Exit.NOT_FOUND, "", message)


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
def test_control_characters_in_a_row_are_not_printed(
    desk: Desk, command: Command, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """A row may hold any text: a provider's reason, or an attacker's."""
    failure = {"step": "compensate:release", "error": f"E{ESCAPES}", "cause": f"C{ESCAPES}"}
    posted_at = f"2026-11-20T12:00:00.000Z{ESCAPES}"
    claimed(desk, 1, owner=f"o{ESCAPES}", claimed_at="2026-11-20T12:00:00.000Z", hold_at=posted_at)
    desk.ledger.put(
        {
            **keys.entry("alice", posted_at, key_of(1), "hold"),
            "step": f"hold{ESCAPES}",
            "posted_at": posted_at,
            "debit": f"alice{ESCAPES}",
            "credit": f"escrow:{key_of(1)}",
            "side": "debit",
            "amount": 1,
            "currency": "EUR",
        }
    )
    evidence = {"step": f"reverse{ESCAPES}", "posted_at": posted_at, "reason": ESCAPES}
    desk.ledger.put({**keys.evidence(key_of(1), "reverse"), **evidence})
    stuck(desk, 2, failure=failure, reversed_for=failure, payer=f"p{ESCAPES}", owner=f"o{ESCAPES}")
    desk.ledger.open("alice", 1, limbo_cases=1)
    desk.ledger.put({**keys.circuit("kyc"), "state": f"OPEN{ESCAPES}"})

    code, out, err = command(*words, *options)

    is_named = words[0] == "account"  # its entry cannot be read
    assert code in ((Exit.FAILED,) if is_named else (Exit.FINE, Exit.LIMBO, Exit.IN_FLIGHT))
    assert {char for char in out + err if char in ESCAPES and not char.isprintable()} == set()


@pytest.mark.parametrize("words", [("limbo", "show", KEY), ("status", KEY)], ids=" ".join)
@pytest.mark.parametrize("status", [{}, {"status": "FORGED"}], ids=str)
def test_a_malformed_proposal_is_a_failure_in_one_line(
    desk: Desk, command: Command, words: tuple[str, ...], status: dict[str, str]
) -> None:
    desk.stuck()
    desk.ledger.put({**keys.proposal(KEY), "persons": {"ada"}, **status})

    code, out, err = command(*words)

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert err.startswith(f"settle: MalformedRow: PROPOSAL#{KEY}: has no attribute ")


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
