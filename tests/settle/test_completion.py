import pytest
from typer.testing import CliRunner

from settle import cli, stack
from settle.exit_codes import CommandFailed, Exit
from settle.orders import limbo
from settle.orders.completion import CASES_MAX
from tests.settle.conftest import raising

CASES = [
    {"key": "order-2026-000101", "amount_at_risk": "48.20", "currency": "EUR", "error": "InsufficientFunds"},
    {"key": "payout-7", "amount_at_risk": "950", "currency": "JPY", "error": "AccountNotFound"},
]
DECISIONS = ["retry", "write-off", "complete"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    found: list[str | None] = []

    def find(name: str | None) -> str:
        found.append(name)
        return name or "embedded"

    monkeypatch.setattr(stack, "find", find)
    monkeypatch.setattr(limbo, "open_cases", lambda target, limit: (CASES[:limit], False))
    return found


def completed(line: str, shell: str = "bash") -> str:
    asking = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_ARGS": line}
    environment = {"_SETTLE_COMPLETE": f"complete_{shell}", **asking}
    ended = CliRunner().invoke(cli.app, [], prog_name="settle", env=environment)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.output


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("limbo show ", ["order-2026-000101", "payout-7"]),
        ("status pay", ["payout-7"]),
        ("status other", []),
        ("limbo resolve ", ["order-2026-000101", "payout-7", *DECISIONS]),
        ("limbo resolve payout-7 ", DECISIONS),
        ("limbo propose payout-7 wr", ["write-off"]),
        ("limbo approve pay", ["payout-7"]),
    ],
)
def test_completion_offers_the_keys_in_limbo_and_the_decisions(
    asked: list[str | None], line: str, offered: list[str]
) -> None:
    assert completed(f"settle {line}").split() == offered


def test_completion_in_zsh_shows_the_amount_at_risk(asked: list[str | None]) -> None:
    assert '"payout-7":"950 JPY, AccountNotFound"' in completed("settle limbo show ", shell="zsh")


def test_completion_asks_the_stack_named_before_the_key(asked: list[str | None]) -> None:
    completed("settle limbo show --stack settlement-prod pay")
    completed("settle limbo show pay")

    assert asked == ["settlement-prod", None]


@pytest.mark.parametrize(
    "failure", [CommandFailed(Exit.NOT_FOUND, "no such stack"), OSError("no network"), ValueError("a row")]
)
def test_completion_offers_nothing_if_the_stack_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    monkeypatch.setattr(stack, "find", raising(failure))

    assert completed("settle limbo show ").split() == []
    assert completed("settle limbo resolve ").split() == DECISIONS


def test_completion_of_a_long_queue_is_cut(asked: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    many = [CASES[0] | {"key": f"payout-{number}"} for number in range(CASES_MAX * 2)]
    monkeypatch.setattr(limbo, "open_cases", lambda target, limit: (many[:limit], True))

    assert len(completed("settle limbo show ").split()) == CASES_MAX
