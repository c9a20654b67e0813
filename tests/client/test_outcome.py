import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from settlement.core.model.status import Status as StatusOfTheStack
from settlement_client import Action, MalformedAnswer, Outcome, Status
from tests.client.payments import OUTCOMES, PROCESSING, SETTLED
from tests.unit.contracts import OUTCOME, SCHEMAS, faults

COVERED: dict[str, Any] = PROCESSING | {"covered": ["fee"]}


def rendered(outcome: Outcome) -> dict[str, Any]:
    def plain(value: object) -> object:
        if isinstance(value, datetime):
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
        if isinstance(value, Decimal):
            return format(value, "f")
        if isinstance(value, tuple):
            return [*value]
        return vars(value) if hasattr(value, "__dict__") and not isinstance(value, str) else value

    kept = {name: plain(value) for name, value in vars(outcome).items()}
    optional = {"covered", "reversed_in_part", "reference", "metadata"}
    return {name: value for name, value in kept.items() if name not in optional or value not in (None, [])}


EXAMPLES = [*OUTCOMES, PROCESSING, SETTLED | {"reversed_in_part": "5.00"}, COVERED]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_each_example_outcome_of_the_contract_is_read_without_loss(example: dict[str, Any]) -> None:
    assert faults(OUTCOME, example) == []

    assert rendered(Outcome.from_json(json.dumps(example))) == example


def test_the_outcomes_fields_are_those_of_the_contract() -> None:
    assert Outcome.__dataclass_fields__.keys() == SCHEMAS[OUTCOME]["properties"].keys()


def test_the_clients_statuses_and_actions_are_those_of_the_stack() -> None:
    assert {*Status} == {*StatusOfTheStack}
    assert {*Action} == {*SCHEMAS[OUTCOME]["$defs"]["next"]["properties"]["action"]["enum"]}


@pytest.mark.parametrize("status", Status)
def test_the_status_determines_whether_an_outcome_is_final_and_paid(status: Status) -> None:
    action = {"SETTLED": "nothing", "REJECTED": "new_key", "COMPENSATED": "new_key"}.get(status, "same_key")
    outcome = Outcome.from_json(SETTLED | {"status": status, "next": {"action": action, "reason": "so"}})

    assert outcome.is_final == (status in {"SETTLED", "REJECTED", "COMPENSATED"})
    assert outcome.is_paid == (status == "SETTLED")


def test_a_payment_fully_reversed_in_parts_is_not_paid() -> None:
    given_back = str(Decimal(SETTLED["amount"]) - Decimal(SETTLED["fee"]))

    assert Outcome.from_json(SETTLED | {"reversed_in_part": "0.01"}).is_paid
    assert not Outcome.from_json(SETTLED | {"reversed_in_part": given_back}).is_paid


def test_an_unknown_field_of_an_outcome_is_ignored() -> None:
    assert Outcome.from_json(SETTLED | {"later": {"a": 1}}) == Outcome.from_json(SETTLED)


@pytest.mark.parametrize("name", SCHEMAS[OUTCOME]["required"])
def test_the_error_names_the_missing_field_of_an_outcome(name: str) -> None:
    with pytest.raises(MalformedAnswer, match=rf"^outcome\.{name}: missing$"):
        Outcome.from_json({one: value for one, value in SETTLED.items() if one != name})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "PAID"}, "outcome.status: 'PAID' is unknown; it must be one of PROCESSING"),
        ({"amount": 48.2}, "outcome.amount: must be a string"),
        ({"fee": "-1"}, "outcome.fee: must match"),
        ({"escrow": "NaN"}, "outcome.escrow: must match"),
        ({"steps": "hold"}, "outcome.steps: must be a list of strings"),
        ({"failure": "no"}, "outcome.failure: must be an object"),
        ({"failure": {"step": "hold", "error": "X"}}, "outcome.failure.cause: missing"),
        ({"next": {"action": "retry", "reason": "so"}}, "outcome.next.action: 'retry' is unknown"),
        ({"next": {"action": "new_key", "reason": "so"}}, "outcome.next.action: new_key contradicts"),
        ({"replayed": 1}, "outcome.replayed: must be true or false"),
        ({"claimed_at": "2026-11-20"}, "outcome.claimed_at: must match"),
        ({"claimed_at": "2026-13-20T12:00:00.123Z"}, "outcome.claimed_at: month must be"),
        ({"key": "short"}, "outcome.key: must match"),
        ({"metadata": {"shop": 1}}, "outcome.metadata: must be an object of texts"),
    ],
    ids=str,
)
def test_a_malformed_outcome_is_refused_and_its_field_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedAnswer) as refused:
        Outcome.from_json(SETTLED | changes)

    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("status", ["PROCESSING", "COMPENSATING", "LIMBO"])
def test_an_in_flight_outcome_advising_a_new_key_is_refused(status: str) -> None:
    """A program that acts on `next.action` alone would pay twice."""
    with pytest.raises(MalformedAnswer, match="new_key contradicts the status"):
        Outcome.from_json(PROCESSING | {"status": status, "next": {"action": "new_key", "reason": "so"}})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000], ids=range(5))
def test_an_outcome_that_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(MalformedAnswer, match=r"^outcome: "):
        Outcome.from_json(text)
