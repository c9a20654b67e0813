"""TakeOrder counts the persons of a decision that needs several, by conditions of its transactions."""

from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import (
    ApprovalNeeded,
    CallerUnknown,
    InvalidRequest,
    ProposalRefused,
    SettlementNotFound,
    StartUnavailable,
)
from settlement.orders.four_eyes import FourEyes
from settlement.orders.orders import Orders
from tests.handlers.conftest import Calls, Later, Meanwhile
from tests.handlers.orders.conftest import ALL, PERSONS, SESSION, SHOWN, Desk, Person, decides
from tests.world.constants import KEY, LATER_AT, NONCE, WIRE
from tests.world.services import Died, unanswered
from tests.world.step_functions import StepFunctions

THEMSELVES: dict[str, list[Person]] = {
    "ada": [
        PERSONS["ada"],
        (f"{SESSION}/Approver/ada", "AROAAPPROVER:ada"),
        (f"{SESSION}/Approver/ADA", "AROAAPPROVER:ADA"),
    ],
    "bea": [PERSONS["bea"], (f"{SESSION}/Operator/bea", "AROAOPERATOR:bea")],
}
"""Identities that count as one person: an IAM user, and a session of that name of any role."""

FEDERATED = ("arn:aws:sts::123456789012:federated-user/bea", "123456789012:bea")
"""Identity from GetFederationToken, where an IAM user chooses any name, as no trust policy restricts it."""


# The persons


def test_one_person_alone_cannot_decide_if_two_are_needed(desk: Desk) -> None:
    with desk.refuses(rf"^{desk.decision}: needs 2 persons: propose it$", ApprovalNeeded):
        desk.alone()


def test_a_proposer_cannot_approve_under_any_of_their_identities(
    proposed: Desk, only_conditions: Callable[[], None]
) -> None:
    for oneself in THEMSELVES["ada"]:
        with proposed.refuses(r"^approve: ada takes part"):
            proposed.approve(oneself)

    only_conditions()
    for oneself in THEMSELVES["ada"]:
        with proposed.refuses("not yours to approve"):
            proposed.approve(oneself)


@pytest.mark.parametrize("who", [FEDERATED, ("arn:aws:iam::123456789012:user/ad\u0131a", "AIDAADA")])
def test_an_identity_whose_name_the_caller_chose_cannot_approve(proposed: Desk, who: Person) -> None:
    with proposed.refuses(None, CallerUnknown):
        proposed.approve(who)


def test_a_second_persons_approval_decides_and_both_are_recorded(proposed: Desk, later: Later) -> None:
    later()

    answer = proposed.approve("bea")

    assert proposed.is_decided
    both = {"by": PERSONS["ada"][0], "approved_by": PERSONS["bea"][0]}
    requests = {"request_id": "req-AIDAADA", "approved_in": "req-AROAAPPROVER:bea"}
    assert proposed.evidence().items() >= {**both, **requests, "posted_at": LATER_AT}.items()
    assert answer["order"].items() >= both.items()
    assert (proposed.row["status"], proposed.row["persons"]) == ("DONE", {"ada", "bea"})
    recorded = {"decision": proposed.decision, "by": PERSONS["ada"][0], "digest": proposed.digest}
    assert proposed.evidence("propose:1").items() >= recorded.items()
    assert not [fault for fault in proposed.all_faults() if KEY in fault or "person" in fault]
    for who in ("bea", "cyd", "ada"):
        with proposed.calls.writes_nothing():
            assert proposed.approve(who) == answer


def test_each_of_three_needed_persons_counts_once(desk: Desk) -> None:
    desk.needs(3)
    desk.propose()

    assert desk.approve("bea")["proposal"]["approvals"] == 1
    for oneself in THEMSELVES["bea"]:
        with desk.calls.writes_nothing():
            assert desk.approve(oneself)["proposal"]["approvals"] == 1
    assert not desk.is_decided
    desk.approve("cyd")

    assert desk.is_decided
    assert desk.evidence()["approved_by"] == f"{PERSONS['bea'][0]} {PERSONS['cyd'][0]}"
    assert desk.evidence("approve:1:1")


def test_a_proposal_needs_another_person_even_if_one_suffices(desk: Desk) -> None:
    desk.needs(1)
    desk.propose()

    with desk.refuses("takes part in it already"):
        desk.approve("ada")
    desk.approve("bea")

    assert desk.is_decided


@decides("reverse")
@pytest.mark.parametrize(("limit", "is_enough"), [(4820, True), (4819, False)])
def test_reversing_more_than_the_configured_limit_needs_two_persons(
    desk: Desk, limit: int, *, is_enough: bool
) -> None:
    desk.change_config(approvals={}, reverse_over={"EUR": limit})

    if is_enough:
        desk.alone()
    else:
        with desk.refuses("needs 2 persons", ApprovalNeeded):
            desk.alone()


# Two at once


@pytest.mark.parametrize("other", ["bea", "cyd"])
def test_two_concurrent_approvals_decide_once(proposed: Desk, meanwhile: Meanwhile, other: str) -> None:
    second: list[Any] = []
    meanwhile(_dependencies.store, "transact", lambda: second.append(proposed.approve(other)))

    assert proposed.approve("bea") == second[0]

    assert proposed.row["persons"] == {"ada", other}
    assert proposed.is_decided


@pytest.mark.parametrize(("other", "is_bea"), [(THEMSELVES["bea"][-1], True), ("cyd", False)])
def test_two_concurrent_approvals_count_only_once_each(
    desk: Desk, meanwhile: Meanwhile, other: str | Person, *, is_bea: bool
) -> None:
    desk.needs(4)
    desk.propose()
    meanwhile(_dependencies.store, "transact", lambda: desk.approve(other))

    if is_bea:
        desk.approve("bea")
    else:
        with pytest.raises(ProposalRefused, match="has changed since"):
            desk.approve("bea")

    assert (desk.row["approvals"], len(desk.row["persons"])) == (1, 2)


def test_two_concurrent_proposals_become_one(desk: Desk, meanwhile: Meanwhile) -> None:
    meanwhile(_dependencies.store, "transact", lambda: desk.propose("bea"))

    with pytest.raises(ProposalRefused, match="another one was faster"):
        desk.propose("ada")

    assert desk.row["proposer"] == "bea"
    with desk.calls.writes_nothing():
        assert desk.propose("bea")["proposed_by"] == PERSONS["bea"][0]
    with desk.refuses("is open; approve it, or withdraw"):
        desk.propose("ada")


def test_a_proposal_is_compared_with_the_settlement_read_afterwards(desk: Desk, meanwhile: Meanwhile) -> None:
    """If the settlement were read first, a newer proposal would look void and be replaced while open."""
    made: list[dict[str, Any]] = []

    def change_and_propose() -> None:
        if not made:
            made.append({})
            row = desk.calls.row()
            desk.calls.alter(sequence=row["sequence"] + 1, escrow=row["escrow"] + 1)
            desk.propose("bea")

    meanwhile(FourEyes, "_latest", change_and_propose, after=True)
    meanwhile(Orders, "state_of", change_and_propose, after=True)

    with pytest.raises(ProposalRefused, match=r"another one was faster|is open"):
        desk.propose("ada")

    assert desk.row["proposer"] == "bea"


def test_a_decided_proposal_cannot_be_withdrawn(proposed: Desk, meanwhile: Meanwhile) -> None:
    meanwhile(_dependencies.store, "transact", lambda: proposed.approve("bea"))

    with pytest.raises(ProposalRefused, match="has changed since"):
        proposed.withdraw()

    assert proposed.is_decided
    with proposed.refuses("carried out"):
        proposed.withdraw()


@decides("write-off", "retry", "reverse")  # the others are done in one transaction
@pytest.mark.parametrize("error", [Died(), unanswered()], ids=repr)
def test_recovery_completes_a_decision_whose_function_died_before_the_wake(
    proposed: Desk, step_functions: StepFunctions, later: Later, error: BaseException
) -> None:
    step_functions.failing |= dict.fromkeys(("send_task_success", "start_execution"), error)
    with pytest.raises((Died, StartUnavailable)):
        proposed.approve()
    step_functions.failing.clear()
    later(seconds=30)

    proposed.calls.recover()

    order = {} if proposed.decision == "reverse" else {"order": "resolve:1"}
    ((machine, execution, told),) = step_functions.started
    assert (machine, told) == ("Compensation", {"settlement": WIRE, **order})
    assert execution.startswith(f"{KEY}-c")
    assert execution.endswith(NONCE)


# What a move names


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        *(({"digest": digest}, InvalidRequest, "digest: must be") for digest in ("", "abc", 7, None)),
        *(({"digest": digest}, InvalidRequest, "digest: must be") for digest in ("g" * 64, "0" * 65)),
        ({"digest": "0" * 64}, ProposalRefused, "digest: it is not that of"),
        ({"decision": "open"}, InvalidRequest, "decision: must be"),
        *(({name: "bea"}, InvalidRequest, f"{name}: unknown") for name in ("by", "approvers", "person")),
    ],
    ids=str,
)
def test_approving_or_withdrawing_with_a_wrong_field_is_refused(
    proposed: Desk, change: dict[str, Any], error: type[Exception], told: str
) -> None:
    for move in (proposed.approve, proposed.withdraw):
        with proposed.refuses(f"^{told}", error):
            move("bea", **change)


@pytest.mark.parametrize("field", ["by", "approvers", "person"])
def test_a_proposal_whose_body_names_a_person_is_refused(desk: Desk, field: str) -> None:
    for move in (desk.propose, desk.break_glass):
        with desk.refuses(f"^{field}: unknown field", InvalidRequest):
            move(**{field: "bea"})


WRONG: dict[str, list[Any]] = {
    "case": [0, 2, "1", None, True],
    "part": [2, "1"],
    "amount": ["1.00", "48.2", 48.2, None, "x"],
}


@pytest.mark.parametrize(
    ("desk", "field", "other"),
    [(decision, field, other) for decision in ALL for field in SHOWN[decision] for other in WRONG[field]],
    indirect=["desk"],
)
def test_an_approval_whose_shown_values_differ_is_refused(proposed: Desk, field: str, other: Any) -> None:
    with proposed.refuses(f"^{field}: ", (InvalidRequest, ProposalRefused)):
        proposed.approve(**{field: other})


def test_approving_without_a_proposal_is_refused(desk: Desk) -> None:
    with desk.refuses(r"^digest: there is no proposal to "):
        desk.approve()


def test_a_proposal_is_approved_only_on_its_decisions_route(proposed: Desk) -> None:
    for other in set(ALL) - {proposed.decision}:
        named = {"decision": other, "digest": proposed.digest, **SHOWN[other]}
        with proposed.refuses(f"no proposal to {other}$"):
            proposed.order(f"{other}/approve", named, "bea")


def test_a_key_that_is_not_claimed_has_no_proposal(calls: Calls) -> None:
    desk = Desk(calls, "reverse", calls.change_config)

    for move in (desk.approve, desk.withdraw):
        with pytest.raises(SettlementNotFound):
            move()
