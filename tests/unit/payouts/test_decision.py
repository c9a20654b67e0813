from dataclasses import replace
from typing import Any

import pytest

from settlement.core.model.errors import InvalidRequest, ResolutionRefused
from settlement.payouts import decision, moves
from settlement.payouts.decision import Decision, Verdict, ensure_fits, parse_decision
from settlement.payouts.payout import State, Status, Word
from tests.unit.payouts.rows import ADA, BEA, PAYOUT, STATES
from tests.world.environment import NOW

CASE = STATES[Status.LIMBO]
ORDER = Decision(
    key=PAYOUT.key, case=1, digest=CASE.digest, verdict=Verdict.NOT_PAID, reason="the bank's letter of today"
)
RAW = {"key": PAYOUT.key, "case": 1, "digest": CASE.digest, "verdict": "not-paid", "reason": ORDER.reason}
NEVER_SENT = replace(STATES[Status.RESERVED], status=Status.LIMBO, cases=1)


def proposed(state: State, order: Decision) -> State:
    return moves.noted(state, NOW, proposed=decision.proposed(order, ADA, NOW))


def test_two_persons_decide_the_same() -> None:
    assert not ensure_fits(CASE, ORDER, ADA)
    assert ensure_fits(proposed(CASE, ORDER), ORDER, BEA)


def test_one_person_alone_decides_nothing() -> None:
    assert not ensure_fits(proposed(CASE, ORDER), ORDER, ADA)
    assert not ensure_fits(proposed(CASE, ORDER), ORDER, replace(ADA, by=ADA.by.replace("ada", "Ada")))


def test_another_verdict_is_a_proposal_of_its_own() -> None:
    assert not ensure_fits(proposed(CASE, ORDER), replace(ORDER, verdict=Verdict.ASK), BEA)


@pytest.mark.parametrize(
    ("state", "changed", "why"),
    [
        *(
            (STATES[status], {"digest": STATES[status].digest}, "not in LIMBO")
            for status in Status
            if status is not Status.LIMBO
        ),
        (CASE, {"case": 2}, "case"),
        (CASE, {"digest": "0" * 64}, "digest"),
        (NEVER_SENT, {"verdict": Verdict.PAID, "digest": NEVER_SENT.digest}, "never sent"),
    ],
)
def test_a_decision_about_something_else_is_refused(state: State, changed: dict[str, Any], why: str) -> None:
    with pytest.raises(ResolutionRefused, match=why):
        ensure_fits(state, replace(ORDER, **changed), BEA)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (Word.ACCEPTED, Verdict.NOT_PAID),
        (Word.PAID, Verdict.NOT_PAID),
        (Word.REFUSED, Verdict.PAID),
        (Word.NEVER_SEEN, Verdict.PAID),
    ],
)
def test_a_decision_against_the_banks_word_says_so(said: Word, verdict: Verdict) -> None:
    state = replace(CASE, said=said, said_at="2026-11-20T12:00:00.123Z")
    order = replace(ORDER, verdict=verdict, digest=state.digest)

    with pytest.raises(ResolutionRefused, match=f"the bank said {said}"):
        ensure_fits(state, order, BEA)
    assert not ensure_fits(state, replace(order, contradicts=True), BEA)
    assert not ensure_fits(state, replace(order, verdict=Verdict.ASK), BEA)


def test_a_decision_is_kept_with_both_persons() -> None:
    kept = decision.decided(proposed(CASE, ORDER), BEA, NOW)

    assert (kept["by"], kept["approved_by"], kept["verdict"], kept["case"]) == (
        ADA.by,
        BEA.by,
        "not-paid",
        "1",
    )


def test_a_decision_is_parsed() -> None:
    assert parse_decision(RAW) == ORDER
    assert parse_decision(RAW | {"contradicts": True}).contradicts


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"case": 0}, "case"),
        ({"case": True}, "case"),
        ({"verdict": "perhaps"}, "verdict"),
        ({"verdict": {}}, "verdict"),
        ({"contradicts": "yes"}, "contradicts"),
        ({"digest": 1}, "digest"),
        ({"reason": " "}, "reason"),
        ({"key": "short"}, "key"),
        ({"by": "somebody"}, "by"),
    ],
)
def test_a_malformed_decision_is_named(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{named}: "):
        parse_decision(RAW | changed)
