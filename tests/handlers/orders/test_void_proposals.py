"""TakeOrder refuses proposals that no longer hold, and rows that do not match their evidence."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import (
    NotReversible,
    PartRefused,
    ProposalRefused,
    ResolutionRefused,
    RowDamaged,
    StepFenced,
)
from tests.handlers.conftest import Calls, Later
from tests.handlers.orders.conftest import DECISIONS, PERSONS, Desk, decides
from tests.world.constants import KEY

VOID = (ProposalRefused, StepFenced, NotReversible, ResolutionRefused, PartRefused)
REVERSING = {"status": "COMPENSATING"}
COMPLETED = {"resolution": {"decision": "complete"}}
SINCE: list[tuple[str, dict[str, Any]]] = [
    *(
        (decision, change)
        for decision in DECISIONS
        for change in (REVERSING, {"escrow": 47}, {"resolutions": 1})
    ),
    *(("reverse", change) for change in (REVERSING, {"escrow": 1}, COMPLETED)),
    *(("reverse-part", change) for change in (REVERSING, {"parts": 1, "reversed_in_part": 100}, COMPLETED)),
]


@pytest.mark.parametrize(
    ("desk", "since", "is_read"),
    [
        (decision, since, is_read)
        for decision, since in SINCE
        for is_read in (True, False)
        if not (is_read and since is COMPLETED)  # a completed settlement is refused by the write
    ],
    indirect=["desk"],
)
def test_any_change_of_the_settlement_voids_the_proposal(
    proposed: Desk, freeze_reads: Callable[[], None], since: dict[str, Any], *, is_read: bool
) -> None:
    if not is_read:
        freeze_reads()
    proposed.calls.alter(**since, sequence=proposed.calls.row()["sequence"] + 1)

    with proposed.refuses(None, VOID):
        proposed.approve()


def test_a_proposal_from_before_the_release_is_refused_afterwards(calls: Calls) -> None:
    """Without a fee, the escrow is empty before the hold and after the release, so it shows no difference."""
    desk = Desk(calls, "reverse", calls.change_config)
    calls.before("CollectFee")
    calls.alter(escrow=0)
    released = calls.row()
    since = ("hold_at", "verify_at", "verdict", "release_at")
    calls.ledger.put({name: value for name, value in released.items() if name not in since})
    desk.propose(expected_status="PROCESSING")
    calls.ledger.put(released)

    with desk.refuses("the settlement has changed since"):
        desk.approve()


@pytest.mark.parametrize("is_read", [True, False])
def test_a_proposal_expires_and_is_replaced(
    proposed: Desk, later: Later, only_conditions: Callable[[], None], *, is_read: bool
) -> None:
    later(days=1)
    if not is_read:
        only_conditions()
    expired = proposed.digest

    with proposed.refuses(r"it expired at" if is_read else "has changed"):
        proposed.approve()
    proposed.propose("cyd")

    assert (proposed.row["proposal_number"], proposed.digest != expired) == (2, True)
    with proposed.refuses(r"^digest: it is not that of the latest"):
        proposed.approve(digest=expired)


def test_changing_the_needed_number_of_persons_voids_the_proposal(proposed: Desk) -> None:
    proposed.needs(3)

    with proposed.refuses(r"^digest: the settlement has changed"):
        proposed.approve()


@pytest.mark.parametrize("who", ["ada", "bea"])
def test_a_withdrawn_proposal_is_not_carried_out(proposed: Desk, who: str) -> None:
    withdrawn = proposed.digest
    answer = proposed.withdraw(who)

    assert answer["proposal"]["status"] == "WITHDRAWN"
    assert proposed.evidence("withdraw:1")["by"] == PERSONS[who][0]
    with proposed.calls.writes_nothing():
        assert proposed.withdraw(who) == answer
    with proposed.refuses(r"^proposal: it is WITHDRAWN$"):
        proposed.approve("bea")
    proposed.propose()
    assert proposed.digest != withdrawn


# A row that is lost, or comes from before a restore


def test_the_proof_names_a_deleted_proposal_which_can_be_replaced(proposed: Desk) -> None:
    lost = proposed.digest
    proposed.calls.ledger.delete(keys.proposal(KEY))
    (fault,) = proposed.faults()
    assert fault.endswith(
        "1 proposals are on record, but the row of the latest one is gone or cannot be read"
    )

    proposed.propose()

    assert proposed.digest != lost
    assert proposed.evidence("propose:2")
    assert proposed.faults() == []
    proposed.approve()
    assert (proposed.faults(), proposed.is_decided) == ([], True)


def test_the_proof_names_a_deleted_proposal_without_other_evidence(calls: Calls) -> None:
    calls.after("HoldFunds")
    desk = Desk(calls, "reverse", calls.change_config)
    desk.propose(expected_status="PROCESSING")

    calls.ledger.delete(keys.proposal(KEY))

    (fault,) = desk.faults()
    assert "is gone or cannot be read" in fault


def test_a_proposal_row_put_back_by_a_restore_is_replaced(proposed: Desk) -> None:
    first = proposed.row
    proposed.withdraw()
    proposed.propose("cyd")
    proposed.calls.ledger.put(first)
    (fault,) = proposed.faults()
    assert fault.endswith("the row of its latest proposal is of number 1, its evidence of 2")

    for digest in (first["seen"], proposed.digest):
        for move in (proposed.withdraw, proposed.approve):
            with proposed.refuses(r"not in its row|not that of"):
                move("bea", digest=digest)
    proposed.propose()
    assert proposed.faults() == []
    proposed.approve()
    assert (proposed.faults(), proposed.is_decided) == ([], True)


def test_a_withdrawn_proposal_forged_open_is_found_and_replaced(proposed: Desk) -> None:
    proposed.withdraw()
    proposed.change(status="OPEN")

    with proposed.refuses("a later move is on record"):
        proposed.approve()
    assert any("has moved further" in fault for fault in proposed.faults())
    proposed.propose("cyd")

    assert proposed.faults() == []


def test_a_proposal_row_lacking_a_recorded_approval_cannot_be_approved(desk: Desk) -> None:
    """A restore can leave such a row."""
    desk.needs(4)
    desk.propose()
    before = desk.row
    desk.approve("bea")
    desk.calls.ledger.put(before)

    assert any("has moved further" in fault for fault in desk.faults())
    with desk.refuses("a later move is on record"):
        desk.approve("cyd")
    desk.propose("cyd")
    assert desk.faults() == []


# A writer of the table: a proposal's row has no signature


@pytest.mark.parametrize("forged", ["propose:1", "approve:1:1"])
def test_the_proof_names_a_decision_whose_approvals_are_not_recorded(desk: Desk, forged: str) -> None:
    desk.needs(3)
    desk.propose()
    desk.approve("bea")
    desk.approve("cyd")
    assert desk.faults() == []

    desk.calls.ledger.delete(keys.evidence(KEY, forged))

    (fault,) = desk.faults()
    assert f"evidence {desk.evidence_name} names persons whose proposal or approval is not on" in fault


def test_a_proposal_row_forged_to_done_decides_nothing(proposed: Desk) -> None:
    proposed.change(status="DONE")

    with proposed.refuses("it is DONE"):
        proposed.approve("ada")


@pytest.mark.parametrize(
    "wrong",
    [{"persons": {"zed"}}, {"persons": {"ada", "zed"}}, {"approvals": 5}, {"needed": 1}],
    ids=["another person", "one person more", "approvals", "needed"],
)
def test_a_proposal_row_whose_persons_contradict_the_evidence_is_damaged(
    proposed: Desk, wrong: dict[str, Any]
) -> None:
    proposed.change(**wrong)

    with proposed.refuses(None, RowDamaged):
        proposed.approve("ada")
    assert any("PROPOSAL#" in fault for fault in proposed.all_faults())


def test_the_proof_names_an_expired_proposal_forged_to_last_longer(proposed: Desk, later: Later) -> None:
    proposed.change(valid_until="2027-01-01T00:00:00.000Z")
    later(hours=25)

    proposed.approve()

    assert [fault for fault in proposed.all_faults() if "person" in fault]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        *((step, f"step is '{step}'") for step in ("propose:x", "propose", "approve:1", "approve:1:1:1")),
        ("withdraw:0", "step is 'withdraw:0'"),
        *(
            (step, f"{step} is about a proposal that is not on record")
            for step in ("withdraw:2", "approve:7:1")
        ),
    ],
)
@decides("reverse", "retry")
def test_the_proof_names_evidence_that_belongs_to_no_proposal(proposed: Desk, step: str, told: str) -> None:
    row = proposed.evidence("propose:1")
    proposed.calls.ledger.put(row | keys.evidence(KEY, step) | {"step": step})

    assert any(told in fault for fault in proposed.all_faults())
