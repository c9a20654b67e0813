from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.ledger import reversal
from settlement.core.model.errors import ResolutionRefused
from settlement.core.model.orders import Decision
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation
from tests.unit import books, states
from tests.unit.books import LAST, SETTLEMENTS, moved
from tests.unit.conditions import applied, asked
from tests.unit.every_row import states_met_by
from tests.unit.vectors import CONFIG, EXECUTION, REVERSER, SETTLEMENT, slots
from tests.world.saga import LATER, up_to

ERROR = {"Error": "KycRejected", "Cause": "why"}

# The failure


@pytest.mark.parametrize(
    ("last", "step"),
    [(None, "hold"), ("hold", "verify"), ("verify", "release"), ("release", "fee"), ("fee", "fee")],
)
def test_a_failure_names_the_first_uncommitted_step(last: str | None, step: str) -> None:
    state = states.state(**slots(up_to(Step(last) if last else None)))

    assert compensation.failure_of(state, ERROR) == {"step": step, "error": "KycRejected", "cause": "why"}


@pytest.mark.parametrize("name", compensation.CUT_OFF)
def test_a_timeout_of_verify_is_reported_as_provider_unavailable(name: str) -> None:
    """Error names of Lambda and Step Functions are not in the outcome's contract."""
    state = states.state(**slots(up_to(Step.HOLD)))

    failure = compensation.failure_of(state, {"Error": name, "Cause": "RequestId: 1 Error: Task timed out"})

    assert failure == {
        "step": "verify",
        "error": "KycUnavailable",
        "cause": f"kyc: no verdict in time ({name})",
    }


def test_an_outcome_predicts_compensation_exactly_if_it_can_begin() -> None:
    """An outcome must promise only the status and failure that the row will get."""
    write = reversal.begin(SETTLEMENT, ERROR, owner=EXECUTION, execution=REVERSER)
    begins, about_to_begin = asked(write), 0
    for row, state in states_met_by(write):
        if not state.same_request(SETTLEMENT):  # no execution gets past the claim with other content
            continue

        told = compensation.about_to_begin(state, ERROR, EXECUTION)

        if begins(row):
            about_to_begin += 1
            begun = SettlementState.from_row(applied(write, row))
            failure = compensation.failure_of(state, ERROR)
            assert told == replace(state, status=begun.status, failure=failure)
        else:
            assert told is state
    assert about_to_begin


# Reversing


@given(settlement=SETTLEMENTS, last=st.sampled_from(LAST))
def test_a_reversal_gives_every_party_its_balance_back(settlement: Settlement, last: Step | None) -> None:
    saga = books.begun(last, settlement)

    for step in saga.state().unreversed:
        saga.reverse(step)
        moved(saga)
    saga.unwind()

    assert moved(saga) == {}
    state = saga.state()
    assert (state.status, state.escrow, state.unreversed) == (Status.COMPENSATED, 0, [])
    assert (state.finished_at, state.listed_at) == (timestamp(LATER), None)


# The machine's state


@pytest.mark.parametrize("status", Status)
def test_the_machines_state_has_the_steps_and_the_remaining_work(status: Status) -> None:
    state = states.state(status=status, **slots(("verify", "hold"), ("hold",)), resolutions=2)

    assert compensation.machine_state(state, CONFIG) == {
        "settlement": SETTLEMENT.to_wire(CONFIG),
        "steps": ["hold", "verify"],
        "reversed": ["hold"],
        "finished": status not in (Status.COMPENSATING, Status.LIMBO),
        "in_limbo": status is Status.LIMBO,
        "fee_due": False,
        "release_due": False,
        "case": 3,
        "alerts": 0,
    }


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("undone", [(), ("fee",), ("release",), ("fee", "release"), REVERSIBLE])
def test_a_reversal_is_due_for_a_committed_unreversed_step(
    last: Step | None, undone: tuple[str, ...]
) -> None:
    """The machine goes straight to the first due reversal and skips steps that never committed."""
    committed = up_to(last)
    state = states.state(**slots(committed, [step for step in undone if step in committed]))

    found = compensation.machine_state(state, CONFIG)

    assert found["fee_due"] is (Step.FEE in committed and "fee" not in undone)
    assert found["release_due"] is (Step.RELEASE in committed and "release" not in undone)


@pytest.mark.parametrize(
    ("resolutions", "number", "is_open"),
    [(0, None, True), (0, 1, True), (2, 3, True), (0, 2, False), (2, 2, False)],
)
def test_only_the_open_case_can_be_decided(resolutions: int, number: int | None, is_open: bool) -> None:
    state = replace(books.stuck(Step.RELEASE, Step.RELEASE).state(), resolutions=resolutions)

    if is_open:
        compensation.ensure_can_resolve(state, Decision.RETRY, number)
    else:
        message = f"^case: the open case is number {resolutions + 1}, not {number}$"
        with pytest.raises(ResolutionRefused, match=message):
            compensation.ensure_can_resolve(state, Decision.RETRY, number)


@pytest.mark.parametrize(
    ("change", "case", "expected"),
    [
        ({}, 2, True),
        ({}, 1, False),
        ({}, None, False),
        ({"status": Status.COMPENSATED}, 2, False),
        ({"status": Status.COMPENSATING}, 2, False),
    ],
)
def test_a_settlement_is_completed_by_its_last_decision(
    change: dict[str, Any], case: int | None, expected: bool
) -> None:
    completed: dict[str, Any] = {"status": Status.SETTLED, "resolutions": 2}
    completed["resolution"] = {"decision": "complete"}

    assert compensation.is_completed_by(states.state(**completed | change), case) is expected
