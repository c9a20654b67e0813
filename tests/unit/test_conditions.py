"""The conditions: each has its text and the values that it compares with."""

import inspect
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest

from settlement.ledger import conditions
from settlement.ledger.conditions import Condition
from settlement.model.status import Status, Step
from tests.conftest import NOW
from tests.support import expressions
from tests.unit.every_row import AFTER, AT, BEFORE
from tests.unit.vectors import LISTED, SETTLEMENT

CONSTANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ABSENT": ("attribute_not_exists(pk)", {}),
    "EXISTS": ("attribute_exists(pk)", {}),
    "NEVER_RESOLVED": ("attribute_not_exists(resolution)", {}),
    "NO_VERDICT": ("attribute_not_exists(verdict)", {}),
    "NOT_IN_REVIEW": ("attribute_not_exists(review)", {}),
    "NOT_EXPIRED": ("attribute_not_exists(expired_at)", {}),
    "NOTHING_COMMITTED": ("attribute_not_exists(steps)", {}),
    "LISTED_IN_FLIGHT": ("begins_with(gsi1pk, :in_flight)", {":in_flight": "IN_FLIGHT#"}),
    "NOT_IN_LIMBO": ("attribute_not_exists(limbo_keys)", {}),
}
FUNCTIONS: list[tuple[Callable[..., Condition], object, str, object]] = [
    *(
        (conditions.status_is, status, f"#status = :{status.lower()}", {f":{status.lower()}": status.value})
        for status in Status
    ),
    (
        conditions.status_as_expected,
        Status.SETTLED,
        "#status = :expected_status",
        {":expected_status": "SETTLED"},
    ),
    (
        conditions.same_request,
        SETTLEMENT,
        "request_hash = :request_hash",
        {":request_hash": SETTLEMENT.request_hash},
    ),
    (conditions.owner_is, "me", "#owner = :owner", {":owner": "me"}),
    (conditions.owner_epoch_is, 3, "owner_epoch = :owner_epoch", {":owner_epoch": 3}),
    (conditions.case_unchanged, 2, "resolutions = :resolutions", {":resolutions": 2}),
    (
        conditions.this_review,
        "ref-1",
        "(attribute_not_exists(review) OR review = :review)",
        {":review": "ref-1"},
    ),
    (conditions.listed_at, LISTED, "gsi1sk = :listed", {":listed": LISTED}),
    (conditions.overdue, NOW, "deadline_at <= :now", {":now": AT}),
    (conditions.before_deadline, NOW, ":now < deadline_at", {":now": AT}),
    (conditions.previous_committed, Step.HOLD, "contains(steps, :previous)", {":previous": "hold"}),
    (conditions.committed, Step.FEE, "contains(steps, :this)", {":this": "fee"}),
    (conditions.not_committed, Step.FEE, "NOT contains(steps, :this)", {":this": "fee"}),
    (conditions.not_reversed, Step.FEE, "NOT contains(reversed, :this)", {":this": "fee"}),
    (conditions.escrow_holds, 4820, "escrow = :held", {":held": 4820}),
    (conditions.same_currency, "EUR", "currency = :currency", {":currency": "EUR"}),
    (conditions.sufficient, 4820, "available >= :amount", {":amount": 4820}),
    (conditions.below_cap, 9, "available <= :highest_before", {":highest_before": 9}),
]


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_condition_has_its_text_and_its_values(name: str) -> None:
    condition = getattr(conditions, name)

    assert (condition.expression, condition.values) == CONSTANTS[name]


@pytest.mark.parametrize(("build", "argument", "expression", "values"), FUNCTIONS)
def test_a_condition_has_its_text_and_the_values_of_its_argument(
    build: Callable[..., Condition], argument: object, expression: str, values: object
) -> None:
    condition = build(argument)

    assert (condition.expression, condition.values) == (expression, values)


def test_every_condition_is_examined() -> None:
    functions = inspect.getmembers(conditions, inspect.isfunction)
    own = {name for name, function in functions if function.__module__ == conditions.__name__}

    assert {build.__name__ for build, _, _, _ in FUNCTIONS} == own
    assert {name for name, value in vars(conditions).items() if isinstance(value, Condition)} == set(
        CONSTANTS
    )


def test_a_condition_brings_a_value_for_each_of_its_placeholders() -> None:
    found = [getattr(conditions, name) for name in CONSTANTS]
    found += [build(argument) for build, argument, _, _ in FUNCTIONS]

    for condition in found:
        assert set(re.findall(r":\w+", condition.expression)) == condition.values.keys()


@pytest.mark.parametrize("deadline_at", [BEFORE, AT, AFTER])
@pytest.mark.parametrize("milliseconds", [-1, 0, 1])
def test_the_deadline_itself_is_late_and_every_other_time_is_either(
    deadline_at: str, milliseconds: int
) -> None:
    now = NOW + timedelta(milliseconds=milliseconds)

    overdue, before = (
        _holds(build(now), deadline_at) for build in (conditions.overdue, conditions.before_deadline)
    )

    assert overdue is not before
    if milliseconds == 0:
        assert overdue is (deadline_at != AFTER)


def _holds(condition: Condition, deadline_at: str) -> bool:
    values = {name: {"S": value} for name, value in condition.values.items()}
    return expressions.condition(condition.expression).holds({"deadline_at": {"S": deadline_at}}, {}, values)


def test_a_condition_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        conditions.ABSENT.expression = ""  # type: ignore[misc]
