import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from settle.door import Answer
from settle.exit_codes import Exit
from tests.settle.conftest import Command, Ended
from tests.settle.desk import Desk
from tests.settle.flight import at, claimed, finished, key_of, stuck
from tests.world.constants import NONCE

KEY = key_of(1)


@dataclass
class Recovery:
    """The orders API with a scripted recovery."""

    action: str = "settle"
    execution: str | None = f"{KEY}-r1-{NONCE}"
    answer: Answer | None = None
    effect: Callable[[], object] = lambda: None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def send(self, decision: str, order: dict[str, Any]) -> Answer:
        self.asked.append((decision, order))
        self.effect()
        return self.answer or Answer(200, {"key": KEY, "action": self.action, "execution": self.execution})

    def nothing(self) -> "Recovery":
        self.action, self.execution = "none", None
        return self


@pytest.fixture
def recovery(desk: Desk) -> Recovery:
    recovery = Recovery()
    desk.door.send = recovery.send  # type: ignore[method-assign]
    return recovery


def told(ended: Ended) -> tuple[int, dict[str, Any], str]:
    code, out, err = ended
    return code, json.loads(out), err


def test_recover_gives_one_order_and_writes_nothing_itself(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    claimed(desk, due=600)  # long before it is due
    before = desk.ledger.rows()

    code, out, err = command("recover", KEY)

    assert (recovery.asked, desk.ledger.rows()) == ([("recover", {"key": KEY})], before)
    assert (code, err) == (Exit.FINE, "")
    assert [line.split() for line in out.splitlines()] == [
        ["key", KEY],
        ["status", "PROCESSING"],
        ["action", "settle"],
        ["execution", f"{KEY}-r1-{NONCE}"],
    ]


@pytest.mark.parametrize("action", ["settle", "compensate"])
@pytest.mark.parametrize("status", ["COMPENSATING", "SETTLED", "REJECTED", "COMPENSATED"])
def test_recover_succeeds_once_the_settlement_is_taken_over(
    desk: Desk, command: Command, recovery: Recovery, action: str, status: str
) -> None:
    claimed(desk)
    recovery.action, recovery.execution = action, "an-execution"
    recovery.effect = lambda: claimed(desk, status=status)

    assert told(command("recover", KEY, "--json")) == (
        Exit.FINE,
        {"key": KEY, "status": status, "action": action, "execution": "an-execution"},
        "",
    )


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize(
    ("status", "code"), [("SETTLED", Exit.FINE), ("REJECTED", Exit.REFUSED), ("COMPENSATED", Exit.REFUSED)]
)
def test_recover_does_nothing_for_a_finished_settlement(
    desk: Desk, command: Command, recovery: Recovery, status: str, code: Exit, meanwhile: bool
) -> None:
    claimed(desk) if meanwhile else finished(desk, status=status)
    recovery.nothing().effect = lambda: finished(desk, status=status)

    assert told(command("recover", KEY, "--json")) == (
        code,
        {"key": KEY, "status": status, "action": "none", "execution": None},
        f"{KEY} is {status}: there is nothing to recover\n",
    )
    assert len(recovery.asked) == meanwhile


REVIEW = {"review": "a-reference"}


@pytest.mark.parametrize(
    ("extra", "why_not"),
    [
        (
            {**REVIEW, "deadline_at": at(86_400)},
            f"{KEY} is in review until {at(86_400)}, unless the provider decides before\n",
        ),
        ({}, f"{KEY} needs no recovery: its execution {KEY}-1 runs\n"),
        # A reversal is not in review, even with a review left on its row.
        ({**REVIEW, "status": "COMPENSATING"}, f"{KEY} needs no recovery: its execution {KEY}-1 runs\n"),
    ],
    ids=["in review", "processing", "compensating"],
)
def test_recover_says_why_a_settlement_is_left_alone(
    desk: Desk, command: Command, recovery: Recovery, extra: dict[str, Any], why_not: str
) -> None:
    claimed(desk, **extra)
    recovery.nothing()

    code, result, err = told(command("recover", KEY, "--json"))

    assert (code, result["action"], err) == (Exit.IN_FLIGHT, "none", why_not)


@pytest.mark.parametrize("alerted", [True, False])
def test_recover_in_limbo_exits_with_the_code_of_limbo(
    desk: Desk, command: Command, recovery: Recovery, alerted: bool
) -> None:
    stuck(desk)
    recovery.action = "alert" if alerted else "none"

    code, result, err = told(command("recover", KEY, "--json"))

    assert (code, result["status"], result["action"]) == (Exit.LIMBO, "LIMBO", recovery.action)
    show = f"`settle limbo show {KEY} --stack under-test`"
    waits = f"{KEY} waits for a person's decision, and so does its execution; see {show}\n"
    assert err == ("" if alerted else waits)
