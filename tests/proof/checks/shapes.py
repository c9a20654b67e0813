"""Shapes of payments with checks. `tests/proof/shapes.py` imports them last, because they import from it."""

from datetime import timedelta

from settlement.checks import waits
from settlement.checks.check import Approve, Check
from settlement.core.ledger import keys
from tests.proof.shapes import HELD, compensated, plays
from tests.proof.town import CONFIG, Payment, Play

CHECK = Check(
    name="delivered", refusals=("lost",), ask=lambda payment, token, tools: Approve(), wait_seconds=7_200
)


def demanding(*checks: str) -> Play:
    def play(payment: Payment) -> None:
        payment.forward(*HELD)
        row = payment.town.row(keys.settlement(payment.settlement.key))
        payment.town.put(row | {"checks": set(checks)})

    return play


def answered(decision: str = "APPROVED", reason: str = "", by_way: str = "ask", name: str = "limits") -> Play:
    def play(payment: Payment) -> None:
        content = {"decision": decision, "reason": reason, "by_way": by_way, "evidence": "{}"}
        check = Check(name=name, refusals=(), ask=CHECK.ask)
        payment.town.store.put(waits.evidence(payment.settlement, check, content, payment.town.tick()))

    return play


def waiting(payment: Payment) -> None:
    now = payment.town.tick()
    until = now + timedelta(hours=2)
    payment.town.store.update(waits.begin(payment.settlement, CHECK, [CHECK.name], until, now))


def ended(payment: Payment) -> None:
    evidence = payment.town.store.evidence(payment.settlement.key, f"check:{CHECK.name}")
    assert evidence
    payment.town.store.update(
        waits.end(
            payment.settlement,
            CHECK,
            CHECK.name,
            since=evidence["posted_at"],
            now=payment.town.tick(),
            config=CONFIG,
        )
    )


DEMANDED = demanding(CHECK.name)
APPROVED = answered(by_way="callback", name=CHECK.name)
LOST = answered("REFUSED", "lost", "callback", CHECK.name)
SHAPES: dict[str, Play] = {
    "in wait for a check": plays(demanding("delivered", "limits"), answered(), waiting),
    "checked, and not verified yet": plays(DEMANDED, waiting, APPROVED, ended),
    "settled after a check": plays(DEMANDED, waiting, APPROVED, ended, "verify", "release", "fee"),
    "given back after a check's refusal": compensated(DEMANDED, waiting, LOST, ended),
}
PLAYS: dict[str, Play] = {}
