from dataclasses import replace
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import InvalidRequest, ResolutionRefused
from settlement.core.model.orders import CASES_MAX
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.payouts import decision, follow, moves
from settlement.payouts.decision import Decision, Verdict, parse_decision
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import Found, NeverSeen, Unknown
from tests.unit.payouts.rows import ADA, BEA, CASES, PAYOUT, STATES
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

CASE = CASES["limbo"]
ORDER = Decision(
    key=PAYOUT.key, case=1, digest=CASE.digest, verdict=Verdict.NOT_PAID, reason="the bank's letter of today"
)
RAW = {"key": PAYOUT.key, "case": 1, "digest": CASE.digest, "verdict": "not-paid", "reason": ORDER.reason}
NEVER_SENT = moves.after(STATES[Status.RESERVED], moves.Move.STICK, NOW, trouble=follow.NEVER_SENT)
PROPOSED = decision.propose(CASE, ORDER, ADA, NOW).parameters["Item"]
APPROVED = decision.approve(CASE, ORDER, PROPOSED, BEA, NOW).parameters["Item"]

ALLOWED = {
    "limbo": {Verdict.PAID, Verdict.NOT_PAID, Verdict.ASK},
    "paid": {Verdict.NOT_PAID, Verdict.ASK, Verdict.CLOSE},
    "returned": {Verdict.ASK, Verdict.CLOSE},
    "suspense": {Verdict.GIVE_BACK},
}


@pytest.fixture
def store() -> Store:
    return Store(MemoryDynamoDb(), "payouts", pause=lambda tries: None)


def of(state: State, verdict: Verdict) -> Decision:
    return replace(ORDER, digest=state.digest, verdict=verdict, contradicts=True)


# Both persons


def test_a_second_person_can_approve_a_proposed_verdict() -> None:
    verdict, kept = decision.approved(CASE, APPROVED)

    assert verdict is Verdict.NOT_PAID
    assert (kept["by"], kept["approved_by"], kept["case"]) == (ADA.by, BEA.by, "1")
    assert (kept["verdict"], kept["reason"], kept["digest"]) == ("not-paid", ORDER.reason, CASE.digest)


@pytest.mark.parametrize("by", [ADA.by, ADA.by.replace("ada", "Ada"), "arn:aws:sts::1:assumed-role/any/ada"])
def test_the_proposer_of_a_verdict_cannot_approve_it(by: str) -> None:
    with pytest.raises(ResolutionRefused, match=r"^by: "):
        decision.approve(CASE, ORDER, PROPOSED, replace(ADA, by=by), NOW)


def test_without_a_proposal_nothing_is_approved() -> None:
    with pytest.raises(ResolutionRefused, match="nobody has proposed not-paid"):
        decision.approve(CASE, ORDER, None, BEA, NOW)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("verdict", Verdict)
def test_each_kind_of_case_allows_only_its_verdicts(kind: str, verdict: Verdict) -> None:
    state = CASES[kind]
    order = of(state, verdict)

    if verdict in ALLOWED[kind]:
        first = decision.propose(state, order, ADA, NOW).parameters["Item"]
        second = decision.approve(state, order, first, BEA, NOW).parameters["Item"]
        assert decision.approved(state, second)[0] is verdict
    else:
        with pytest.raises(ResolutionRefused, match=r"^verdict: must be one of "):
            decision.propose(state, order, ADA, NOW)
        with pytest.raises(ResolutionRefused, match=r"^verdict: must be one of "):
            decision.approve(state, order, {**PROPOSED, "verdict": verdict}, BEA, NOW)
        with pytest.raises(MalformedRow, match="no decision about this case"):
            decision.approved(state, {**APPROVED, "verdict": verdict.value, "digest": state.digest})


def test_a_payout_never_sent_cannot_be_decided_as_paid() -> None:
    assert decision.verdicts(NEVER_SENT) == (Verdict.NOT_PAID, Verdict.ASK)


@pytest.mark.parametrize("status", Status)
def test_without_a_case_there_is_nothing_to_decide(status: Status) -> None:
    state = replace(STATES[status], trouble=None)

    assert decision.verdicts(state) == ()
    with pytest.raises(ResolutionRefused, match="no open case"):
        decision.propose(state, replace(ORDER, digest=state.digest), ADA, NOW)


@pytest.mark.parametrize(
    ("changed", "why"), [({"case": 2}, "case"), ({"case": 0}, "case"), ({"digest": "0" * 64}, "digest")]
)
def test_a_decision_about_another_case_or_digest_is_refused(changed: dict[str, Any], why: str) -> None:
    order = replace(ORDER, **changed)

    with pytest.raises(ResolutionRefused, match=f"^{why}: "):
        decision.propose(CASE, order, ADA, NOW)
    with pytest.raises(ResolutionRefused, match=f"^{why}: "):
        decision.approve(CASE, order, PROPOSED, BEA, NOW)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (Word.ACCEPTED, Verdict.NOT_PAID),
        (Word.PAID, Verdict.NOT_PAID),
        (Word.REFUSED, Verdict.PAID),
        (Word.NEVER_SEEN, Verdict.PAID),
    ],
)
def test_a_decision_against_the_banks_answer_must_say_so(said: Word, verdict: Verdict) -> None:
    state = replace(CASE, said=said, said_at="2026-11-20T12:00:00.123Z")
    order = replace(ORDER, verdict=verdict, digest=state.digest)

    with pytest.raises(ResolutionRefused, match=f"the bank said {said}"):
        decision.propose(state, order, ADA, NOW)
    first = decision.propose(state, replace(order, contradicts=True), ADA, NOW).parameters["Item"]
    with pytest.raises(ResolutionRefused, match=f"the bank said {said}"):
        decision.approve(state, order, first, BEA, NOW)
    second = decision.approve(state, replace(order, contradicts=True), first, BEA, NOW).parameters["Item"]
    assert decision.approved(state, second)[1]["contradicts"] == "yes"
    decision.propose(state, replace(order, verdict=Verdict.ASK), ADA, NOW)


# Their rows


def test_a_repeated_decision_is_a_replay(store: Store) -> None:
    for write in (
        decision.propose(CASE, ORDER, ADA, NOW),
        decision.approve(CASE, ORDER, PROPOSED, BEA, NOW),
    ):
        store.transact([write])
        with pytest.raises(AlreadyApplied):
            store.transact([write])


def test_a_second_proposal_of_a_verdict_leaves_the_first(store: Store) -> None:
    store.transact([decision.propose(CASE, ORDER, ADA, NOW)])

    with pytest.raises(AlreadyApplied) as earlier:
        store.transact([decision.propose(CASE, ORDER, BEA, NOW)])

    assert earlier.value.found["by"] == ADA.by


def test_two_verdicts_are_proposed_and_only_one_approved(store: Store) -> None:
    other = replace(ORDER, verdict=Verdict.ASK)
    for order in (ORDER, other):
        store.transact([decision.propose(CASE, order, ADA, NOW)])
    store.transact([decision.approve(CASE, ORDER, PROPOSED, BEA, NOW)])

    second = decision.propose(CASE, other, ADA, NOW).parameters["Item"]
    with pytest.raises(ResolutionRefused, match="not-paid is approved already"):
        store.transact([decision.approve(CASE, other, second, BEA, NOW)])


def test_another_account_or_contradiction_makes_a_separate_proposal(store: Store) -> None:
    case = CASES["suspense"]
    to_alice = of(case, Verdict.GIVE_BACK)
    orders = (to_alice, replace(to_alice, account="bob"), replace(to_alice, contradicts=False))
    for order in orders:
        store.transact([decision.propose(case, order, ADA, NOW)])

    def approve(order: Decision) -> Write:
        return decision.approve(case, order, store.read(order.place), BEA, NOW)

    store.transact([approve(orders[1])])

    assert len({order.place["sk"] for order in orders}) == len(orders)
    with pytest.raises(AlreadyApplied):
        store.transact([approve(orders[1])])
    for order in (orders[0], orders[2]):
        with pytest.raises(ResolutionRefused, match="is approved already"):
            store.transact([approve(order)])


@pytest.mark.parametrize("changed", [{"contradicts": True}, {"account": "bob"}], ids=str)
def test_an_approval_must_repeat_the_account_and_contradicts_flag(changed: dict[str, Any]) -> None:
    with pytest.raises(MalformedRow, match="no proposal of this verdict"):
        decision.approve(CASE, replace(ORDER, **changed), PROPOSED, BEA, NOW)
    with pytest.raises(ResolutionRefused, match="nobody has proposed"):
        decision.approve(CASE, replace(ORDER, **changed), None, BEA, NOW)


@pytest.mark.parametrize("wrong", ["no", "", None, True], ids=repr)
def test_a_recorded_contradiction_other_than_yes_is_malformed(wrong: Any) -> None:
    with pytest.raises(MalformedRow):
        decision.approved(CASE, {**APPROVED, "contradicts": wrong})


@pytest.mark.parametrize(
    ("verdict", "against", "waits"),
    [
        (Verdict.NOT_PAID, {}, True),
        (Verdict.NOT_PAID, {"contradicts": "yes"}, False),
        (Verdict.PAID, {}, False),
    ],
)
def test_only_the_not_paid_verdict_waits_for_a_silent_bank(
    verdict: Verdict, against: dict[str, str], *, waits: bool
) -> None:
    assert decision.must_wait(verdict, against, Unknown("500")) is waits
    for answer in (NeverSeen(), Found(Word.REFUSED)):
        assert not decision.must_wait(verdict, against, answer)


@pytest.mark.parametrize("name", ["verdict", "digest", "reason", "by", "posted_at"])
@pytest.mark.parametrize("wrong", [None, 1, set(), {}], ids=repr)
def test_a_malformed_decision_is_not_carried_out(name: str, wrong: Any) -> None:
    for row in ({**PROPOSED, name: wrong}, {key: PROPOSED[key] for key in PROPOSED if key != name}):
        with pytest.raises(MalformedRow):
            decision.approve(CASE, ORDER, row, BEA, NOW)
    for row in ({**APPROVED, name: wrong}, {key: APPROVED[key] for key in APPROVED if key != name}):
        with pytest.raises(MalformedRow):
            decision.approved(CASE, row)


@pytest.mark.parametrize("changed", [{"verdict": "ask"}, {"digest": "0" * 64}], ids=str)
def test_only_the_proposal_of_this_verdict_is_approved(changed: Row) -> None:
    with pytest.raises(MalformedRow, match="no proposal of this verdict"):
        decision.approve(CASE, ORDER, {**PROPOSED, **changed}, BEA, NOW)


@pytest.mark.parametrize(
    "changed",
    [
        {"approved_by": ADA.by},
        {"approved_by": ADA.by.upper()},
        {"approved_by": 1},
        {"digest": "0" * 64},
        {"verdict": "close"},
        {"verdict": "perhaps"},
    ],
    ids=str,
)
def test_a_forged_approval_is_not_carried_out(changed: Row) -> None:
    with pytest.raises(MalformedRow):
        decision.approved(CASE, {**APPROVED, **changed})


def test_an_approval_without_another_person_is_malformed() -> None:
    with pytest.raises(MalformedRow, match="another person"):
        decision.approved(CASE, {name: APPROVED[name] for name in APPROVED if name != "approved_by"})


def test_an_approval_of_an_older_case_is_not_carried_out() -> None:
    with pytest.raises(MalformedRow, match="no decision about this case"):
        decision.approved(replace(CASE, cases=2), APPROVED)


# Orders


def test_a_decision_is_parsed() -> None:
    assert parse_decision(RAW) == ORDER
    assert parse_decision(RAW | {"case": CASES_MAX}).case == CASES_MAX
    assert parse_decision(RAW | {"verdict": "give-back", "account": "carol"}).account == "carol"
    assert parse_decision(RAW | {"contradicts": True}).contradicts


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"case": 0}, "case"),
        ({"case": True}, "case"),
        ({"case": CASES_MAX + 1}, "case"),
        ({"verdict": "perhaps"}, "verdict"),
        ({"verdict": {}}, "verdict"),
        ({"account": "carol"}, "account"),
        ({"verdict": "give-back", "account": 7}, "account"),
        ({"verdict": "give-back", "account": "a b"}, "account"),
        ({"contradicts": "yes"}, "contradicts"),
        ({"digest": 1}, "digest"),
        ({"reason": " "}, "reason"),
        ({"key": "short"}, "key"),
        ({"key": 7}, "key"),
        ({"by": "somebody"}, "by"),
    ],
)
def test_a_malformed_decision_is_named(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{named}: "):
        parse_decision(RAW | changed)


@pytest.mark.parametrize("raw", [None, [], "x", {}])
def test_a_decision_is_an_object_with_all_fields(raw: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_decision(raw)
