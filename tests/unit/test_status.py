"""The table of transitions: those of the design, and no others."""

import pytest

from settlement.model import status as model_status
from settlement.model.status import REVERSIBLE, TRANSITIONS, Status, Step


def test_the_transitions_are_those_of_the_design() -> None:
    transitions = {
        (source.value, target.value) for source, targets in TRANSITIONS.items() for target in targets
    }

    assert transitions == {
        ("PROCESSING", "SETTLED"),
        ("PROCESSING", "REJECTED"),
        ("PROCESSING", "COMPENSATING"),
        ("SETTLED", "COMPENSATING"),
        ("COMPENSATING", "COMPENSATED"),
        ("COMPENSATING", "LIMBO"),
        ("LIMBO", "COMPENSATING"),
        ("LIMBO", "SETTLED"),
    }


def test_the_table_has_every_status() -> None:
    assert set(TRANSITIONS) == set(Status)


@pytest.mark.parametrize("status", Status)
def test_nothing_leads_back_to_processing(status: Status) -> None:
    assert Status.PROCESSING not in TRANSITIONS[status]


@pytest.mark.parametrize("status", [Status.REJECTED, Status.COMPENSATED])
def test_a_rejected_or_compensated_settlement_is_final(status: Status) -> None:
    assert not TRANSITIONS[status]


def test_every_status_can_be_reached_from_processing() -> None:
    reached = {Status.PROCESSING}
    for _ in Status:
        reached |= {target for source in reached for target in TRANSITIONS[source]}

    assert reached == set(Status)


def test_the_steps_commit_in_the_order_hold_verify_release_fee() -> None:
    assert [(step.previous, step.value) for step in Step] == [
        (None, "hold"),
        ("hold", "verify"),
        ("verify", "release"),
        ("release", "fee"),
    ]


def test_the_steps_that_move_money_are_reversed_in_the_opposite_order() -> None:
    assert [step.value for step in REVERSIBLE] == ["fee", "release", "hold"]
    assert [*REVERSIBLE] == [step for step in reversed(Step) if step is not Step.VERIFY]


def test_a_reversal_is_named_after_its_step() -> None:
    assert [step.reversal for step in REVERSIBLE] == [
        "compensate:fee",
        "compensate:release",
        "compensate:hold",
    ]


def test_a_finished_settlement_only_changes_on_an_order() -> None:
    """A person may order the reversal of a SETTLED one."""
    for status in model_status.FINISHED:
        assert TRANSITIONS[status] <= {Status.COMPENSATING}
        assert (status is Status.SETTLED) == bool(TRANSITIONS[status])
    assert {*Status} - model_status.FINISHED == {Status.PROCESSING, Status.COMPENSATING, Status.LIMBO}
