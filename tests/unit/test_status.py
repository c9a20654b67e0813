from settlement.core.model.status import FINISHED, REVERSIBLE, TRANSITIONS, Status, Step


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


def test_the_steps_commit_in_the_order_hold_verify_release_fee() -> None:
    assert [(step.previous(), step.value) for step in Step] == [
        (None, "hold"),
        ("hold", "verify"),
        ("verify", "release"),
        ("release", "fee"),
    ]


def test_each_step_and_each_reversal_has_its_own_slot() -> None:
    assert [step.slot for step in Step] == ["hold_at", "verify_at", "release_at", "fee_at"]
    assert [step.reversal_slot for step in REVERSIBLE] == [
        *("fee_reversed_at", "release_reversed_at", "hold_reversed_at")
    ]


def test_money_steps_are_reversed_in_the_opposite_order() -> None:
    reversals = [step.reversal for step in REVERSIBLE]

    assert reversals == ["compensate:fee", "compensate:release", "compensate:hold"]
    assert [*REVERSIBLE] == [step for step in reversed(Step) if step is not Step.VERIFY]


def test_a_finished_settlement_has_no_transition_except_an_ordered_reversal() -> None:
    assert {status.value for status in FINISHED} == {"SETTLED", "REJECTED", "COMPENSATED"}
    assert {status for status in FINISHED if TRANSITIONS[status]} == {Status.SETTLED}
