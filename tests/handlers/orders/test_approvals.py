"""TakeOrder: decisions that need several persons, counted by transaction conditions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settlement.aws import event_bus as _event_bus
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    ApprovalNeeded,
    CallerUnknown,
    InsufficientFunds,
    InvalidRequest,
    NotReversible,
    PageUnavailable,
    PartRefused,
    ProposalRefused,
    ResolutionRefused,
    RowDamaged,
    SettlementError,
    SettlementNotFound,
    StartUnavailable,
    StepFenced,
)
from settlement.orders.four_eyes import FourEyes
from settlement.orders.orders import Orders
from settlement.proof import Look, reconcile
from tests.handlers.conftest import Later, Meanwhile
from tests.world.constants import EXECUTION_ARN, KEY, LATER_AT, NONCE, WIRE
from tests.world.functions import Calls, Context
from tests.world.orders import answered, request
from tests.world.services import Died, PageBus, throttled, unanswered
from tests.world.step_functions import StepFunctions

SESSION = "arn:aws:sts::123456789012:assumed-role"
PERSONS = {
    "ada": ("arn:aws:iam::123456789012:user/finance/ada", "AIDAADA"),
    "bea": (f"{SESSION}/Approver/bea", "AROAAPPROVER:bea"),
    "cyd": (f"{SESSION}/Approver/cyd", "AROAAPPROVER:cyd"),
    "dan": (f"{SESSION}/Approver/dan", "AROAAPPROVER:dan"),
}
THEMSELVES = {
    "ada": [
        PERSONS["ada"],
        (f"{SESSION}/Approver/ada", "AROAAPPROVER:ada"),
        (f"{SESSION}/Approver/ADA", "AROAAPPROVER:ADA"),
    ],
    "bea": [PERSONS["bea"], (f"{SESSION}/Operator/bea", "AROAOPERATOR:bea")],
}
"""Identities of one person: a user, or a session of that name of any role."""

DECISIONS = ["write-off", "complete", "retry"]
ALL = [*DECISIONS, "reverse", "reverse-part"]
REVERSALS = ("reverse", "reverse-part")
SHOWN: dict[str, dict[str, Any]] = {
    "reverse": {"amount": "48.20"},
    "reverse-part": {"part": 1, "amount": "5.00"},
}
Order = Callable[..., dict[str, Any]]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> PageBus:
    bus = PageBus()
    monkeypatch.setattr(_event_bus, "_client", bus)
    return bus


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def needs(persons: int) -> None:
        config = replace(_dependencies.config, approvals=dict.fromkeys((*DECISIONS, "reverse"), persons))
        monkeypatch.setattr(_dependencies, "config", config)

    needs(2)
    return needs


@pytest.fixture
def order(calls: Calls, stage: Callable[[int], None], bus: PageBus, step_functions: StepFunctions) -> Order:
    """Give an order as a person, or as an (ARN, user id) pair."""

    def give(route: str, body: dict[str, Any], who: Any = "ada") -> dict[str, Any]:
        by, user_id = PERSONS[who] if isinstance(who, str) else who
        event = request(
            route, {"key": KEY, **named(route), **body}, by, user_id=user_id, request_id=f"req-{user_id}"
        )
        return answered(calls.handlers["TakeOrder"](event, Context()))

    return give


def body(decision: str, **more: Any) -> dict[str, Any]:
    case: dict[str, Any] = {"case": 1, "decision": decision}
    if decision in REVERSALS:
        case = {} if decision == "reverse" else {"part": 1, "amount": "5.00"}
    return {"reason": "sent to the wrong shop", **case, **more}


def named(route: str) -> dict[str, Any]:
    """Return the fields, beside the digest, that an approval or withdrawal repeats."""
    decision, _, move = route.partition("/")
    if move == "approve":
        return {"decision": decision, **SHOWN.get(decision, {"case": 1, "amount": "47.72"})}
    return {"decision": decision} if move == "withdraw" else {}


@pytest.fixture(params=ALL)
def decision(request: pytest.FixtureRequest, calls: Calls, step_functions: StepFunctions) -> str:
    """A decision, with a settlement that permits it."""
    if request.param in REVERSALS:
        calls.after("CollectFee")
    else:
        calls.fall()
        step_functions.waits(EXECUTION_ARN, "AQC")
        calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    return str(request.param)


@pytest.fixture
def digest(decision: str, order: Order) -> str:
    return str(order(f"{decision}/propose", body(decision))["proposal"]["digest"])


def proposal(calls: Calls) -> Row:
    found = calls.ledger.row(keys.proposal(KEY))
    assert found is not None
    return found


def undecided(calls: Calls, decision: str) -> bool:
    row = calls.row()
    return bool(row["status"] == ("SETTLED" if decision in REVERSALS else "LIMBO")) and "parts" not in row


def evidence_name(decision: str) -> str:
    return {"reverse": "reverse", "reverse-part": "reverse-part:1"}.get(decision, "resolve:1")


def evidence(calls: Calls, decision: str) -> Row:
    found = calls.ledger.row(keys.evidence(KEY, evidence_name(decision)))
    assert found is not None
    return found


def proven(calls: Calls) -> list[str]:
    """Return the settlement's faults; these tests' accounts lack opening orders."""
    found = reconcile(calls.ledger.rows(), lambda difference: Look.DISAGREES).faults
    return [fault for fault in found if fault.startswith(f"SETTLEMENT#{KEY}")]


# One person is not enough


def test_a_decision_that_needs_two_is_refused_to_one(calls: Calls, decision: str, order: Order) -> None:
    told = rf"^{decision}: needs 2 persons: propose it$"
    with calls.writes_nothing(), pytest.raises(ApprovalNeeded, match=told):
        order(decision, body(decision))


def test_the_proposer_cannot_approve_as_whomever_they_come(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    for oneself in THEMSELVES["ada"]:
        with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^approve: ada takes part"):
            order(f"{decision}/approve", {"digest": digest}, oneself)


def test_the_conditions_refuse_the_proposer_also_if_no_read_does(
    calls: Calls, decision: str, order: Order, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("settlement.orders.approval.ensure_approvable", lambda *seen: None)

    for oneself in THEMSELVES["ada"]:
        with calls.writes_nothing(), pytest.raises(ProposalRefused, match="not yours to approve"):
            order(f"{decision}/approve", {"digest": digest}, oneself)


def test_a_second_person_approves_and_both_are_on_record(
    calls: Calls, decision: str, order: Order, digest: str, later: Later
) -> None:
    later()

    answer = order(f"{decision}/approve", {"digest": digest}, "bea")

    assert not undecided(calls, decision)
    found = evidence(calls, decision)
    both = {"by": PERSONS["ada"][0], "approved_by": PERSONS["bea"][0]}
    assert (
        found.items() >= {**both, "request_id": "req-AIDAADA", "approved_in": "req-AROAAPPROVER:bea"}.items()
    )
    assert found["posted_at"] == LATER_AT
    assert answer["order"].items() >= both.items()
    assert (proposal(calls)["status"], proposal(calls)["persons"]) == ("DONE", {"ada", "bea"})
    recorded = calls.ledger.row(keys.evidence(KEY, "propose:1"))
    assert recorded is not None
    assert recorded.items() >= {"decision": decision, "by": PERSONS["ada"][0], "digest": digest}.items()


@pytest.mark.parametrize("forged", ["propose:1", "approve:1:1"])
def test_the_proof_names_an_approved_decision_with_unrecorded_persons(
    calls: Calls, decision: str, order: Order, stage: Callable[[int], None], forged: str
) -> None:
    """A proposal's row has no signature: a table writer may forge one for another person to approve."""
    stage(3)
    digest = order(f"{decision}/propose", body(decision))["proposal"]["digest"]
    for person in ("bea", "cyd"):
        order(f"{decision}/approve", {"digest": digest}, person)
    assert proven(calls) == []

    calls.ledger.delete(keys.evidence(KEY, forged))

    (fault,) = proven(calls)
    assert f"evidence {evidence_name(decision)} names persons whose proposal or approval is not on" in fault


def test_an_approval_that_comes_again_is_answered_and_writes_nothing(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    first = order(f"{decision}/approve", {"digest": digest}, "bea")

    for who in ("bea", "cyd", "ada"):
        with calls.writes_nothing():
            assert order(f"{decision}/approve", {"digest": digest}, who) == first


def test_a_stage_that_needs_three_counts_each_person_once(
    calls: Calls, decision: str, order: Order, stage: Callable[[int], None]
) -> None:
    stage(3)
    digest = order(f"{decision}/propose", body(decision))["proposal"]["digest"]

    assert order(f"{decision}/approve", {"digest": digest}, "bea")["proposal"]["approvals"] == 1
    for oneself in THEMSELVES["bea"]:
        with calls.writes_nothing():
            assert order(f"{decision}/approve", {"digest": digest}, oneself)["proposal"]["approvals"] == 1
    assert undecided(calls, decision)
    order(f"{decision}/approve", {"digest": digest}, "cyd")

    assert not undecided(calls, decision)
    assert evidence(calls, decision)["approved_by"] == f"{PERSONS['bea'][0]} {PERSONS['cyd'][0]}"
    assert calls.ledger.row(keys.evidence(KEY, "approve:1:1"))


# Two at once


@pytest.mark.parametrize("other", ["bea", "cyd"])
def test_two_approvals_at_once_decide_once(
    calls: Calls, decision: str, order: Order, digest: str, meanwhile: Meanwhile, other: str
) -> None:
    second: list[Any] = []
    approve = f"{decision}/approve"
    meanwhile(
        _dependencies.store, "transact", lambda: second.append(order(approve, {"digest": digest}, other))
    )

    assert order(approve, {"digest": digest}, "bea") == second[0]
    assert proposal(calls)["persons"] == {"ada", other}
    assert not undecided(calls, decision)


@pytest.mark.parametrize("others", [THEMSELVES["bea"], [PERSONS["cyd"]]])
def test_of_two_approvals_at_once_neither_counts_for_the_other(
    calls: Calls,
    decision: str,
    order: Order,
    stage: Callable[[int], None],
    meanwhile: Meanwhile,
    others: list[tuple[str, str]],
) -> None:
    stage(4)
    digest = order(f"{decision}/propose", body(decision))["proposal"]["digest"]
    approve = f"{decision}/approve"
    meanwhile(_dependencies.store, "transact", lambda: order(approve, {"digest": digest}, others[-1]))

    if others == THEMSELVES["bea"]:
        order(approve, {"digest": digest}, "bea")
    else:
        with pytest.raises(ProposalRefused, match="has changed since"):
            order(approve, {"digest": digest}, "bea")

    assert (proposal(calls)["approvals"], len(proposal(calls)["persons"])) == (1, 2)


def test_two_proposals_at_once_are_one(
    calls: Calls, decision: str, order: Order, meanwhile: Meanwhile
) -> None:
    propose = f"{decision}/propose"
    meanwhile(_dependencies.store, "transact", lambda: order(propose, body(decision), "bea"))

    with pytest.raises(ProposalRefused, match="another one was faster"):
        order(propose, body(decision))

    assert proposal(calls)["proposer"] == "bea"
    with calls.writes_nothing():
        assert order(propose, body(decision), "bea")["proposal"]["proposed_by"] == PERSONS["bea"][0]
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="is open; approve it, or withdraw"):
        order(propose, body(decision))


def test_a_proposal_is_compared_with_the_settlement_read_after_it(
    calls: Calls, decision: str, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the settlement were read first, a newer proposal would look void and be replaced while open."""
    other: list[dict[str, Any]] = []

    def after_the_first(real: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def read(of: Any, key: str) -> Any:
            found = real(of, key)
            if not other:
                other.append({})
                calls.alter(sequence=calls.row()["sequence"] + 1, escrow=calls.row()["escrow"] + 1)
                other.append(order(f"{decision}/propose", body(decision), "bea"))
            return found

        return read

    monkeypatch.setattr(FourEyes, "_latest", after_the_first(FourEyes._latest))
    monkeypatch.setattr(Orders, "state_of", after_the_first(Orders.state_of))

    with pytest.raises(ProposalRefused, match=r"another one was faster|is open"):
        order(f"{decision}/propose", body(decision))

    assert proposal(calls)["proposer"] == "bea"


# A proposal's row that is lost


def test_a_lost_proposal_is_named_and_another_replaces_it(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    calls.ledger.delete(keys.proposal(KEY))
    (fault,) = proven(calls)
    assert fault.endswith(
        "1 proposals are on record, but the row of the latest one is gone or cannot be read"
    )

    again = order(f"{decision}/propose", body(decision))["proposal"]

    assert again["digest"] != digest
    assert calls.ledger.row(keys.evidence(KEY, "propose:2"))
    assert proven(calls) == []
    order(f"{decision}/approve", {"digest": again["digest"]}, "bea")
    assert not undecided(calls, decision)
    assert proven(calls) == []


def test_a_proposal_of_before_a_restore_is_replaced(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    first = proposal(calls)
    order(f"{decision}/withdraw", {"digest": digest})
    again = order(f"{decision}/propose", body(decision), "cyd")["proposal"]["digest"]
    calls.ledger.put(first)
    (fault,) = proven(calls)
    assert fault.endswith("the row of its latest proposal is of number 1, its evidence of 2")

    for move, named_as in (
        ("withdraw", digest),
        ("withdraw", again),
        ("approve", digest),
        ("approve", again),
    ):
        with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"not in its row|not that of"):
            order(f"{decision}/{move}", {"digest": named_as}, "bea")
    third = order(f"{decision}/propose", body(decision))["proposal"]["digest"]
    assert proven(calls) == []
    order(f"{decision}/approve", {"digest": third}, "bea")
    assert (proven(calls), undecided(calls, decision)) == ([], False)


def test_a_restored_proposal_that_was_withdrawn_is_not_approved(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    before = proposal(calls)
    order(f"{decision}/withdraw", {"digest": digest})
    calls.ledger.put(before)

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="a later move is on record"):
        order(f"{decision}/approve", {"digest": digest}, "bea")
    order(f"{decision}/propose", body(decision), "cyd")

    assert proven(calls) == []


def test_a_lost_proposal_without_other_evidence_is_named(calls: Calls, order: Order) -> None:
    calls.after("HoldFunds")
    order("reverse/propose", body("reverse", expected_status="PROCESSING"))

    calls.ledger.delete(keys.proposal(KEY))

    (fault,) = proven(calls)
    assert "is gone or cannot be read" in fault


def test_a_move_is_answered_from_its_proposals_row_alone(
    calls: Calls, decision: str, order: Order, stage: Callable[[int], None]
) -> None:
    """A row from before a restore lacks an approval that is on record."""
    stage(4)
    digest = order(f"{decision}/propose", body(decision))["proposal"]["digest"]
    before = proposal(calls)
    order(f"{decision}/approve", {"digest": digest}, "bea")
    calls.ledger.put(before)

    assert any("has moved further" in fault for fault in proven(calls))
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="a later move is on record"):
        order(f"{decision}/approve", {"digest": digest}, "cyd")
    order(f"{decision}/propose", body(decision), "cyd")
    assert proven(calls) == []


@pytest.mark.parametrize("step", ["propose:x", "propose", "approve:1", "withdraw:0", "approve:1:1:1"])
def test_a_move_without_its_numbers_is_malformed(
    calls: Calls, decision: str, order: Order, digest: str, step: str
) -> None:
    row = calls.ledger.row(keys.evidence(KEY, "propose:1"))
    assert row is not None
    calls.ledger.put(row | keys.evidence(KEY, step) | {"step": step})

    assert any(
        f"step is '{step}'" in fault
        for fault in reconcile(calls.ledger.rows(), lambda _: Look.DISAGREES).faults
    )


@pytest.mark.parametrize("step", ["withdraw:2", "approve:7:1"])
def test_a_move_whose_proposal_is_not_on_record_is_named(
    calls: Calls, decision: str, order: Order, digest: str, step: str
) -> None:
    row = calls.ledger.row(keys.evidence(KEY, "propose:1"))
    assert row is not None
    calls.ledger.put(row | keys.evidence(KEY, step) | {"step": step})

    assert any(f"{step} is about a proposal that is not on record" in fault for fault in proven(calls))


# Void proposals


VOID = (ProposalRefused, StepFenced, NotReversible, ResolutionRefused, PartRefused)
SINCE: dict[str, list[dict[str, Any]]] = {
    "reverse": [{"status": "COMPENSATING"}, {"escrow": 1}, {"resolution": {"decision": "complete"}}],
    "reverse-part": [
        {"status": "COMPENSATING"},
        {"parts": 1, "reversed_in_part": 100},
        {"resolution": {"decision": "complete"}},
    ],
    "else": [{"status": "COMPENSATING"}, {"escrow": 47}, {"resolutions": 1}],
}


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("is_read", [True, False])
def test_any_change_of_the_settlement_voids_the_proposal(
    *,
    calls: Calls,
    decision: str,
    order: Order,
    digest: str,
    freeze_reads: Callable[[], None],
    position: int,
    is_read: bool,
) -> None:
    since = SINCE.get(decision, SINCE["else"])[position]
    if not is_read:
        freeze_reads()
    elif "resolution" in since:
        pytest.skip("a settlement that was completed is refused by the write")
    calls.alter(**since, sequence=calls.row()["sequence"] + 1)

    with calls.writes_nothing(), pytest.raises(VOID):
        order(f"{decision}/approve", {"digest": digest}, "bea")


def test_a_proposal_before_the_hold_is_refused_after_the_release(calls: Calls, order: Order) -> None:
    """Without a fee, the escrow is empty both times."""
    calls.before("CollectFee")
    calls.alter(escrow=0)
    released = calls.row()
    since = ("hold_at", "verify_at", "verdict", "release_at")
    calls.ledger.put({name: value for name, value in released.items() if name not in since})
    stalled = body("reverse", expected_status="PROCESSING")
    digest = order("reverse/propose", stalled)["proposal"]["digest"]
    calls.ledger.put(released)

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="the settlement has changed since"):
        order("reverse/approve", {"digest": digest}, "bea")


def test_a_stale_digest_is_refused(calls: Calls, decision: str, order: Order, digest: str) -> None:
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^digest: it is not that of"):
        order(f"{decision}/approve", {"digest": "0" * 64}, "bea")


@pytest.mark.parametrize("is_read", [True, False])
def test_a_proposal_expires_and_is_replaced(
    *,
    calls: Calls,
    decision: str,
    order: Order,
    digest: str,
    later: Later,
    monkeypatch: pytest.MonkeyPatch,
    is_read: bool,
) -> None:
    later(days=1)
    if not is_read:
        monkeypatch.setattr("settlement.orders.approval.ensure_approvable", lambda *seen: None)

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"it expired at|has changed"):
        order(f"{decision}/approve", {"digest": digest}, "bea")
    again = order(f"{decision}/propose", body(decision), "cyd")["proposal"]

    assert (proposal(calls)["proposal_number"], again["digest"] != digest) == (2, True)
    with pytest.raises(ProposalRefused, match=r"^digest: it is not that of the latest"):
        order(f"{decision}/approve", {"digest": digest}, "bea")


def test_another_number_of_persons_voids_the_proposal(
    calls: Calls, decision: str, order: Order, digest: str, stage: Callable[[int], None]
) -> None:
    stage(3)

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^digest: the settlement has changed"):
        order(f"{decision}/approve", {"digest": digest}, "bea")


@pytest.mark.parametrize("who", ["ada", "bea"])
def test_a_withdrawn_proposal_is_not_carried_out(
    calls: Calls, decision: str, order: Order, digest: str, who: str
) -> None:
    answer = order(f"{decision}/withdraw", {"digest": digest}, who)

    assert answer["proposal"]["status"] == "WITHDRAWN"
    recorded = calls.ledger.row(keys.evidence(KEY, "withdraw:1"))
    assert recorded is not None
    assert recorded["by"] == PERSONS[who][0]
    with calls.writes_nothing():
        assert order(f"{decision}/withdraw", {"digest": digest}, who) == answer
        with pytest.raises(ProposalRefused, match=r"^proposal: it is WITHDRAWN$"):
            order(f"{decision}/approve", {"digest": digest}, "bea")
    assert order(f"{decision}/propose", body(decision))["proposal"]["digest"] != digest


def test_what_is_carried_out_cannot_be_withdrawn(
    calls: Calls, decision: str, order: Order, digest: str, meanwhile: Meanwhile
) -> None:
    approve = f"{decision}/approve"
    meanwhile(_dependencies.store, "transact", lambda: order(approve, {"digest": digest}, "bea"))

    with pytest.raises(ProposalRefused, match="has changed since"):
        order(f"{decision}/withdraw", {"digest": digest})

    assert not undecided(calls, decision)
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="carried out"):
        order(f"{decision}/withdraw", {"digest": digest})


# Half way


@pytest.mark.parametrize("error", [Died(), unanswered()], ids=repr)
def test_a_decision_whose_function_died_before_the_wake_is_recovered(
    *,
    calls: Calls,
    decision: str,
    order: Order,
    digest: str,
    step_functions: StepFunctions,
    later: Later,
    error: BaseException,
) -> None:
    if decision in ("complete", "reverse-part"):
        pytest.skip("all of it is done in one transaction")
    step_functions.failing |= dict.fromkeys(("send_task_success", "start_execution"), error)
    with pytest.raises((Died, StartUnavailable)):
        order(f"{decision}/approve", {"digest": digest}, "bea")
    step_functions.failing.clear()
    later(seconds=30)

    calls.recover()

    name = {} if decision == "reverse" else {"order": "resolve:1"}
    ((machine, execution, told),) = step_functions.started
    assert (machine, execution[: len(KEY) + 2]) == ("Compensation", f"{KEY}-c")
    assert (told, execution.endswith(NONCE)) == ({"settlement": WIRE, **name}, True)


# Break-glass


def test_break_glass_pages_and_is_on_record(calls: Calls, decision: str, order: Order, bus: PageBus) -> None:
    order(f"{decision}/break-glass", body(decision))

    assert not undecided(calls, decision)
    assert evidence(calls, decision)["break_glass"] == "yes"
    ((kind, page),) = bus.events
    assert kind == "GlassBroken"
    what = f"5.00 of {KEY}" if decision == "reverse-part" else KEY
    assert page["summary"].startswith(f"break-glass: {PERSONS['ada'][0]} decides {decision} alone on {what}")
    assert page["amount"] == ("5.00" if decision == "reverse-part" else "48.20")
    order(f"{decision}/break-glass", body(decision))
    assert len(bus.events) == 1


@pytest.mark.parametrize("failure", [throttled("PutEvents"), unanswered(), Died(), "not taken"], ids=repr)
def test_without_a_page_no_glass_is_broken(
    calls: Calls, decision: str, order: Order, bus: PageBus, failure: Any
) -> None:
    bus.failing, bus.failed = (None, 1) if failure == "not taken" else (failure, 0)
    untold = "not taken by the event bus" if bus.failed else f"not sent: {type(failure).__name__}"
    expected = None if isinstance(failure, Died) else f"^page: {untold}; nothing was ordered$"

    with calls.writes_nothing(), pytest.raises((PageUnavailable, Died), match=expected):
        order(f"{decision}/break-glass", body(decision))


def test_a_decision_that_does_not_fit_pages_no_one(
    calls: Calls, decision: str, order: Order, bus: PageBus
) -> None:
    wrongs: dict[str, dict[str, Any]] = {
        "reverse": {"expected_status": "PROCESSING"},
        "reverse-part": {"part": 2},
    }
    wrong = wrongs.get(decision, {"case": 2})

    with calls.writes_nothing(), pytest.raises(SettlementError, match=r"case|PROCESSING|part: the next one"):
        order(f"{decision}/break-glass", body(decision, **wrong))

    assert bus.events == []


# Messages sent


@pytest.mark.parametrize("move", ["propose", "approve", "withdraw", "break-glass"])
@pytest.mark.parametrize("field", ["by", "approvers", "person"])
def test_by_in_the_body_is_an_unknown_field(
    calls: Calls, decision: str, order: Order, move: str, field: str
) -> None:
    given = body(decision) if move in ("propose", "break-glass") else {"digest": "0" * 64}
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=f"^{field}: unknown field"):
        order(f"{decision}/{move}", {**given, field: "bea"})


@pytest.mark.parametrize("digest", ["", "abc", 7, None, "g" * 64, "0" * 65])
@pytest.mark.parametrize("move", ["approve", "withdraw"])
def test_a_digest_that_is_none_is_refused(
    calls: Calls, decision: str, order: Order, move: str, digest: Any
) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^digest: must be"):
        order(f"{decision}/{move}", {"digest": digest})


WRONG = {"case": [0, 2, "1", None, True], "part": [2, "1"], "amount": ["1.00", "48.2", 48.2, None, "x"]}


@pytest.mark.parametrize(("field", "other"), [(name, one) for name, of in WRONG.items() for one in of])
def test_what_was_shown_is_compared_with_the_proposal(
    *, calls: Calls, decision: str, order: Order, digest: str, field: str, other: Any
) -> None:
    if field not in named(f"{decision}/approve"):
        pytest.skip(f"a proposal to {decision} has no {field}")
    with calls.writes_nothing(), pytest.raises((InvalidRequest, ProposalRefused), match=f"^{field}: "):
        order(f"{decision}/approve", {"digest": digest, field: other}, "bea")


@pytest.mark.parametrize("move", ["approve", "withdraw"])
def test_a_named_proposals_decision_must_match_the_route(
    calls: Calls, decision: str, order: Order, digest: str, move: str
) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^decision: must be"):
        order(f"{decision}/{move}", {"digest": digest, "decision": "open"}, "bea")


def test_nothing_proposed_is_nothing_to_approve(calls: Calls, decision: str, order: Order) -> None:
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match=r"^digest: there is no proposal to "):
        order(f"{decision}/approve", {"digest": "0" * 64})


def test_a_proposal_is_approved_by_the_route_of_its_decision(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    for other in ALL:
        if other != decision:
            with calls.writes_nothing(), pytest.raises(ProposalRefused, match=f"no proposal to {other}$"):
                order(f"{other}/approve", {"digest": digest}, "bea")


def test_a_second_person_may_be_asked_where_one_is_enough(
    calls: Calls, decision: str, order: Order, stage: Callable[[int], None]
) -> None:
    stage(1)
    digest = order(f"{decision}/propose", body(decision))["proposal"]["digest"]

    with pytest.raises(ProposalRefused, match="takes part in it already"):
        order(f"{decision}/approve", {"digest": digest})
    order(f"{decision}/approve", {"digest": digest}, "bea")

    assert not undecided(calls, decision)


@pytest.mark.parametrize(("over", "is_enough"), [("48.20", True), ("48.19", False)])
def test_a_reversal_of_more_than_the_stage_says_needs_two(
    calls: Calls, order: Order, monkeypatch: pytest.MonkeyPatch, over: str, is_enough: bool
) -> None:
    limits = {"EUR": int(over.replace(".", ""))}
    config = replace(_dependencies.config, approvals={}, reverse_over=limits)
    monkeypatch.setattr(_dependencies, "config", config)
    calls.after("CollectFee")

    if is_enough:
        order("reverse", body("reverse"))
    else:
        with calls.writes_nothing(), pytest.raises(ApprovalNeeded, match="needs 2 persons"):
            order("reverse", body("reverse"))


def test_a_part_is_refused_where_the_whole_needs_two(
    calls: Calls, order: Order, stage: Callable[[int], None]
) -> None:
    calls.after("CollectFee")
    part = {"part": 1, "amount": "1.00", "reason": "one came back"}

    with calls.writes_nothing(), pytest.raises(ApprovalNeeded, match="needs 2 persons"):
        order("reverse-part", part)
    stage(1)
    order("reverse-part", part)


def test_a_part_agreed_by_two_persons_is_reversed_once(calls: Calls, order: Order) -> None:
    calls.after("CollectFee")
    before = calls.account("alice")["available"]
    told = order("reverse-part/propose", body("reverse-part"))["proposal"]
    assert (told["part"], told["amount"], told["currency"], told["case"]) == (1, "5.00", "EUR", 0)
    assert calls.account("alice")["available"] == before

    done = order("reverse-part/approve", {"digest": told["digest"]}, "bea")

    assert (done["part"], done["order"]["amount"]) == (1, "5.00")
    assert done["order"]["approved_by"] == PERSONS["bea"][0]
    assert calls.account("alice")["available"] == before + 500
    with calls.writes_nothing():
        assert order("reverse-part/approve", {"digest": told["digest"]}, "bea") == done
    assert proven(calls) == []


def test_another_amount_is_another_proposal(calls: Calls, order: Order) -> None:
    calls.after("CollectFee")
    first = order("reverse-part/propose", body("reverse-part"))["proposal"]["digest"]
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="is open"):
        order("reverse-part/propose", body("reverse-part", amount="6.00"))
    order("reverse-part/withdraw", {"digest": first}, "bea")

    second = order("reverse-part/propose", body("reverse-part", amount="6.00"))["proposal"]["digest"]

    assert second != first
    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="not that of the latest"):
        order("reverse-part/approve", {"digest": first}, "bea")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"amount": "47.73"}, PartRefused),
        ({"part": 2}, PartRefused),
        ({"amount": "0.00"}, InvalidRequest),
        ({"part": 0}, InvalidRequest),
        ({"case": 1}, InvalidRequest),
    ],
    ids=str,
)
@pytest.mark.parametrize("move", ["propose", "break-glass"])
def test_a_part_that_is_not_possible_is_not_proposed(
    *, calls: Calls, order: Order, bus: PageBus, move: str, wrong: dict[str, Any], error: type[Exception]
) -> None:
    calls.after("CollectFee")

    with calls.writes_nothing(), pytest.raises(error):
        order(f"reverse-part/{move}", body("reverse-part", **wrong))

    assert bus.events == []


def test_the_remaining_amount_may_be_proposed_and_no_cent_more(
    calls: Calls, order: Order, stage: Callable[[int], None]
) -> None:
    calls.after("CollectFee")
    stage(1)
    order("reverse-part", {"part": 1, "amount": "40.00", "reason": "one came back"})
    stage(2)
    with calls.writes_nothing(), pytest.raises(PartRefused, match="more than what is left"):
        order("reverse-part/propose", body("reverse-part", part=2, amount="7.73"))

    digest = order("reverse-part/propose", body("reverse-part", part=2, amount="7.72"))["proposal"]["digest"]
    order("reverse-part/approve", {"digest": digest, "part": 2, "amount": "7.72"}, "bea")

    assert calls.row()["reversed_in_part"] == 4772


def test_a_part_the_payee_cannot_pay_waits_for_its_money(calls: Calls, order: Order) -> None:
    calls.after("CollectFee")
    digest = order("reverse-part/propose", body("reverse-part"))["proposal"]["digest"]
    had = calls.account("bob")["available"]
    calls.ledger.open("bob", 499)
    with calls.writes_nothing(), pytest.raises(InsufficientFunds):
        order("reverse-part/approve", {"digest": digest}, "bea")
    calls.ledger.open("bob", had)

    order("reverse-part/approve", {"digest": digest}, "bea")

    assert calls.row()["reversed_in_part"] == 500


def test_a_recorded_part_is_answered_alike_after_the_setting_changes(
    calls: Calls, order: Order, stage: Callable[[int], None]
) -> None:
    calls.after("CollectFee")
    stage(1)
    part = {"part": 1, "amount": "1.00", "reason": "one came back"}
    done = order("reverse-part", part)
    stage(2)

    with calls.writes_nothing():
        assert order("reverse-part", part) == done


def test_a_partly_reversed_settlement_admits_neither_proposal_nor_break_glass(
    calls: Calls, order: Order, bus: PageBus, stage: Callable[[int], None]
) -> None:
    calls.after("CollectFee")
    stage(1)
    order("reverse-part", {"part": 1, "amount": "1.00", "reason": "one came back"})
    stage(2)

    for move in ("propose", "break-glass"):
        with calls.writes_nothing(), pytest.raises(NotReversible, match="reverse the rest in part"):
            order(f"reverse/{move}", body("reverse"))

    assert bus.events == []


@pytest.mark.parametrize("move", ["approve", "withdraw"])
def test_a_key_that_is_not_claimed_has_no_proposal(calls: Calls, order: Order, move: str) -> None:
    with pytest.raises(SettlementNotFound):
        order(f"reverse/{move}", {"digest": "0" * 64})


# Identities that count as a person


FEDERATED = ("arn:aws:sts::123456789012:federated-user/bea", "123456789012:bea")
"""An IAM user with GetFederationToken takes any name: no trust policy binds it."""


@pytest.mark.parametrize("who", [FEDERATED, ("arn:aws:iam::123456789012:user/ad\u0131a", "AIDAADA")])
def test_a_name_of_the_callers_choice_is_no_person(
    calls: Calls, decision: str, order: Order, digest: str, who: tuple[str, str]
) -> None:
    with calls.writes_nothing(), pytest.raises(CallerUnknown):
        order(f"{decision}/approve", {"digest": digest}, who)


# A writer of the table


def changed(calls: Calls, **attributes: Any) -> None:
    calls.ledger.put(proposal(calls) | attributes)


def faults(calls: Calls) -> list[str]:
    found = reconcile(calls.ledger.rows(), lambda key: Look.DISAGREES)
    return [fault for fault in found.faults if "person" in fault]


def test_a_proposal_that_only_its_row_tells_done_decides_nothing(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    changed(calls, status="DONE")

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="it is DONE"):
        order(f"{decision}/approve", {"digest": digest})


def test_a_proposer_whom_the_row_names_otherwise_is_found(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    for wrong in ({"persons": {"zed"}}, {"persons": {"ada", "zed"}}, {"approvals": 5}, {"needed": 1}):
        before = proposal(calls)
        changed(calls, **wrong)
        with calls.writes_nothing(), pytest.raises(RowDamaged):
            order(f"{decision}/approve", {"digest": digest}, "ada")
        assert any(
            "PROPOSAL#" in fault for fault in reconcile(calls.ledger.rows(), lambda _: Look.DISAGREES).faults
        )
        calls.ledger.put(before)


def test_a_withdrawn_proposal_that_is_opened_again_is_found(
    calls: Calls, decision: str, order: Order, digest: str
) -> None:
    order(f"{decision}/withdraw", {"digest": digest})
    changed(calls, status="OPEN")

    with calls.writes_nothing(), pytest.raises(ProposalRefused, match="a later move is on record"):
        order(f"{decision}/approve", {"digest": digest}, "bea")

    assert any("has moved further" in fault for fault in proven(calls))


def test_an_expired_proposal_that_is_made_to_last_is_found(
    calls: Calls, decision: str, order: Order, digest: str, later: Later
) -> None:
    changed(calls, valid_until="2027-01-01T00:00:00.000Z")
    later(hours=25)

    order(f"{decision}/approve", {"digest": digest}, "bea")

    assert faults(calls)


def test_persons_who_decide_together_are_no_fault(
    calls: Calls, decision: str, order: Order, digest: str, stage: Callable[[int], None]
) -> None:
    order(f"{decision}/approve", {"digest": digest}, "bea")

    assert not faults(calls)
