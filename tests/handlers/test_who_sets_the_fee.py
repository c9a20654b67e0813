"""The stage's rule for who sets the fee binds first claims only: claimed settlements run and replay."""

from decimal import Decimal
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import AlreadyClaimed, IdempotencyConflict, InvalidRequest
from settlement.core.model.request import STARTED_BY
from tests.handlers.conftest import Calls
from tests.world.constants import KEY, REJECTED_BY_KYC, SPENT, WIRE, WITHOUT_FEE
from tests.world.rooms import needs
from tests.world.services import text

SCHEDULE = {"fee": "schedule", "fee_floor_basis_points": 0, "fee_ceiling_basis_points": 0}
CLIENT = {"fee": "client", "fee_floor_basis_points": 50, "fee_ceiling_basis_points": 200}
BY_SCHEDULE = "fee: must be 0.48 by the stage's schedule, or be left out"
BY_BOUNDS = "fee: must be from 0.24 to 0.96 for this amount, or be left out"
OWN_FEE = WIRE | {"fee": "1.00"}
"""A request with a fee that neither `SCHEDULE` nor `CLIENT` accepts."""

LINK = {STARTED_BY: "arn:aws:states:eu-west-1:123456789012:execution:Upstream:order-1"}


def with_another_key(request: dict[str, str]) -> dict[str, str]:
    return request | {"key": "order-2026-000102"}


@pytest.mark.parametrize(
    ("rule", "fee", "message"),
    [
        *((SCHEDULE, fee, BY_SCHEDULE) for fee in ("0", "0.00", "0.47", "0.49", "1.00", "48.19")),
        *((CLIENT, fee, BY_BOUNDS) for fee in ("0", "0.23", "0.97", "48.19")),
    ],
)
def test_a_forbidden_fee_is_refused_with_the_expected_one(
    funded: Calls, rule: Any, fee: str, message: str
) -> None:
    funded.change_config(**rule)
    funded.counted()

    with funded.writes_nothing(), pytest.raises(InvalidRequest, match=f"^{message}$"):
        funded("HoldFunds", WIRE | {"fee": fee})

    assert funded.counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize(("currency", "amount", "fee"), [("JPY", "4820", "48"), ("KWD", "4.820", "0.048")])
def test_the_expected_fee_has_its_currencys_decimals(
    funded: Calls, currency: str, amount: str, fee: str
) -> None:
    funded.change_config(**SCHEDULE)
    request = WIRE | {"currency": currency, "amount": amount, "fee": "1"}

    with pytest.raises(InvalidRequest, match=f"^fee: must be {fee} by the"):
        funded("HoldFunds", request)


@pytest.mark.parametrize(
    ("rule", "fee"),
    [
        *((SCHEDULE, fee) for fee in ("0.48", None)),
        *((CLIENT, fee) for fee in ("0.24", "0.3", "0.48", "0.96", None)),
    ],
)
def test_the_scheduled_fee_and_one_within_the_bounds_are_accepted(
    funded: Calls, rule: Any, fee: str | None
) -> None:
    funded.change_config(**rule)
    request = WITHOUT_FEE if fee is None else WIRE | {"fee": fee}

    held = funded("HoldFunds", request)["settlement"]

    assert Decimal(held["fee"]) == Decimal(fee or "0.48")
    assert {name: held[name] for name in WITHOUT_FEE} == WITHOUT_FEE


@pytest.mark.parametrize("first", [WIRE, WITHOUT_FEE], ids=["named", "left out"])
@pytest.mark.parametrize("second", [WIRE, WITHOUT_FEE], ids=["named", "left out"])
def test_naming_the_scheduled_fee_or_omitting_it_is_one_request(
    funded: Calls, first: Any, second: Any
) -> None:
    funded.change_config(**SCHEDULE)
    held = funded("HoldFunds", first)

    with funded.writes_nothing():
        assert funded("HoldFunds", second) == held
        with pytest.raises(AlreadyClaimed):
            funded("HoldFunds", second, execution="execution-2")


@pytest.mark.parametrize("rule", [SCHEDULE, CLIENT, SCHEDULE | {"fee_basis_points": 300}], ids=str)
def test_a_settlement_claimed_under_other_fee_rules_still_replays(funded: Calls, rule: Any) -> None:
    held = funded("HoldFunds", OWN_FEE)
    funded.change_config(**rule)

    with funded.writes_nothing():
        assert funded("HoldFunds", OWN_FEE) == held
        with pytest.raises(AlreadyClaimed):
            funded("HoldFunds", OWN_FEE, execution="execution-2")
        assert funded.report(OWN_FEE)["fee"] == "1.00"


@pytest.mark.parametrize("rule", [SCHEDULE, CLIENT])
def test_another_fee_under_a_claimed_key_conflicts_under_any_rule(funded: Calls, rule: Any) -> None:
    funded("HoldFunds")
    funded.change_config(**rule)

    with funded.writes_nothing(), pytest.raises(IdempotencyConflict, match=f"^key: {KEY} was claimed"):
        funded("HoldFunds", OWN_FEE)


def test_a_key_queued_under_other_fee_rules_is_held(calls: Calls) -> None:
    owner = calls.claimed(OWN_FEE)
    calls.change_config(**SCHEDULE)

    assert calls("HoldFunds", OWN_FEE, execution=owner)["settlement"] == OWN_FEE

    assert (calls.row()["escrow"], calls.row()["fee"]) == (4820, 100)


def test_a_hold_refused_under_other_fee_rules_is_rejected(calls: Calls) -> None:
    """Its execution was accepted, so refusing the request now would leave it without an outcome."""
    calls.change_config(**SCHEDULE)

    assert calls("RejectSettlement", OWN_FEE, error=SPENT)["status"] == "REJECTED"


@needs("doors")
@pytest.mark.parametrize("claimed", [False, True])
def test_a_message_with_a_refused_fee_becomes_a_dead_letter(calls: Calls, claimed: bool) -> None:
    if claimed:
        calls.before("HoldFunds")
        calls("HoldFunds", OWN_FEE)
    calls.change_config(**SCHEDULE)

    with calls.writes_nothing():
        assert calls.receive(text(OWN_FEE)) == []

    assert [sent["reason"] for sent in calls.queues.sent] == (
        [] if claimed else [f"InvalidRequest: {BY_SCHEDULE}"]
    )
    assert calls.step_functions.called == []


def test_the_refusal_names_the_wrong_fee_and_missing_names_together(funded: Calls) -> None:
    funded.change_config(**SCHEDULE, party_names="required")
    message = f"{BY_SCHEDULE}; payee_name: missing; payer_name: missing"

    with funded.writes_nothing(), pytest.raises(InvalidRequest, match=f"^{message}$"):
        funded("HoldFunds", OWN_FEE)


def test_accepting_a_fee_needs_no_read(funded: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    funded.change_config(**SCHEDULE)
    monkeypatch.setattr(_dependencies.store, "settlement", lambda key: pytest.fail(f"reads {key}"))

    for request in (WIRE, with_another_key(WITHOUT_FEE)):
        assert funded("HoldFunds", request)["settlement"]["fee"] == "0.48"


# The field with which a state machine links the execution that it starts


@pytest.mark.parametrize("value", [LINK[STARTED_BY], "", None, 7, ["x"]], ids=repr)
def test_the_starting_executions_id_is_not_part_of_the_request(funded: Calls, value: Any) -> None:
    held = funded("HoldFunds", WIRE | {STARTED_BY: value})

    assert held["settlement"] == WIRE
    assert STARTED_BY not in funded.row()
    with funded.writes_nothing():
        assert funded("HoldFunds", WIRE) == held
        assert funded("HoldFunds", WIRE | {STARTED_BY: "another"}) == held
        assert funded.report(WIRE | LINK)["status"] == "PROCESSING"


def test_the_starting_executions_id_does_not_change_a_minted_key(funded: Calls) -> None:
    funded.change_config(idempotency_key="optional")
    request = {name: value for name, value in WIRE.items() if name != "key"}

    held = funded("HoldFunds", request | LINK)

    assert held["settlement"]["key"].startswith("minted-")
    with funded.writes_nothing():
        assert funded("HoldFunds", request) == held


@needs("doors")
def test_rejection_and_queue_ignore_the_starting_executions_id(calls: Calls) -> None:
    assert calls("RejectSettlement", WIRE | LINK, error=SPENT)["status"] == "REJECTED"
    other = with_another_key(WIRE)

    assert calls.receive(text(other | LINK)) == []

    assert [started for _, _, started in calls.step_functions.started] == [other]
    assert calls.queues.sent == []


def test_a_compensation_with_a_starting_executions_id_is_accepted(calls: Calls) -> None:
    calls.after("HoldFunds")

    found = calls.begin({"settlement": WIRE, "error": REJECTED_BY_KYC, **LINK})

    assert (found["settlement"], found["steps"]) == (WIRE, ["hold"])
    with pytest.raises(InvalidRequest, match="unknown field"):
        calls.begin({"settlement": WIRE | {"STARTED_BY": "x"}, "error": REJECTED_BY_KYC})
