import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settle.settlements.settlement import advice
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import TRANSITIONS, Status
from settlement.core.policy import outcome
from tests.unit import states
from tests.unit.vectors import SETTLEMENT, slots

CONTRACT: dict[str, Any] = {
    "key": "order-2026-000101",
    "status": "PROCESSING",
    "payer": "alice",
    "payee": "bob",
    "amount": "48.20",
    "fee": "0.48",
    "currency": "EUR",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": None,
    "next": {
        "action": "same_key",
        "reason": "The payment is in flight: ask again with the same key, or wait for its event.",
    },
    "replayed": False,
    "claimed_at": "2026-11-20T12:00:00.123Z",
    "finished_at": None,
}


def told(config: StageConfig, *, replayed: bool = False, **changes: Any) -> dict[str, Any]:
    return outcome.of_state(states.state(**changes), config, replayed=replayed)


def test_the_outcome_of_a_new_claim_has_all_contract_fields(config: StageConfig) -> None:
    assert told(config) == CONTRACT


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"status": Status.SETTLED},
            {"status": "SETTLED", "next": {"action": "nothing", "reason": "The payee is paid."}},
        ),
        (slots(("fee", "hold", "release", "verify")), {"steps": ["hold", "verify", "release", "fee"]}),
        (slots(("verify", "hold")), {"steps": ["hold", "verify"]}),
        (slots((), ("hold",)), {"reversed": ["hold"]}),
        ({"failure": {"step": "hold"}}, {"failure": {"step": "hold"}}),
        ({"finished_at": "then"}, {"finished_at": "then"}),
        ({"escrow": 4820}, {"escrow": "48.20"}),
        (
            {"currency": "JPY", "escrow": 4820},
            {"currency": "JPY", "amount": "4820", "fee": "48", "escrow": "4820"},
        ),
        ({"currency": "KWD"}, {"currency": "KWD", "amount": "4.820", "fee": "0.048", "escrow": "0.000"}),
        ({"replayed": True}, {"replayed": True}),
    ],
    ids=" ".join,
)
def test_the_outcome_follows_the_state(
    changes: dict[str, Any], expected: dict[str, Any], config: StageConfig
) -> None:
    assert told(config, **changes) == CONTRACT | expected


@pytest.mark.parametrize(
    "labels",
    [{"reference": "R 1"}, {"metadata": {"cart": "c-1"}}, {"reference": "R", "metadata": {"a": "b"}}],
)
def test_the_outcome_contains_the_callers_reference_and_metadata(
    labels: dict[str, Any], config: StageConfig
) -> None:
    assert told(config, **labels) == CONTRACT | labels

    settled = replace(SETTLEMENT, **labels)
    final = outcome.of_settled(settled, config, claimed_at="then", finished_at="now")
    assert {name: final[name] for name in labels} == labels
    assert final.keys() == CONTRACT.keys() | labels.keys()


AT = "2026-11-20T12:30:00.000Z"
NEXT = {
    Status.PROCESSING: "same_key",
    Status.SETTLED: "nothing",
    Status.REJECTED: "new_key",
    Status.COMPENSATING: "same_key",
    Status.COMPENSATED: "new_key",
    Status.LIMBO: "same_key",
}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("replayed", [True, False])
def test_the_next_action_follows_the_status(status: Status, replayed: bool, config: StageConfig) -> None:
    failure = {"step": "verify", "error": "KycRejected", "cause": "kyc: rejected by the provider"}

    outcome_told = told(config, replayed=replayed, status=status, failure=failure)

    assert outcome_told["next"]["action"] == NEXT[status]


ERRORS = ("KycRejected", "Cancelled", "ReversalRequested", None)
LATEST: dict[str, dict[str, Any]] = {
    "no decision": {},
    "write-off": {"decision": "write-off", "decided_at": AT, "covered": "release"},
    "write-off of the fee": {"decision": "write-off", "decided_at": AT, "covered": "fee"},
    "retry after a write-off": {"decision": "retry", "decided_at": "later", "covered": "release"},
    "retry": {"decision": "retry", "decided_at": AT},
}
PAYEE_KEEPS = ("write-off", "retry after a write-off")
PARTS = {
    "none": {},
    "a part": {"parts": 1, "reversed_in_part": 100},
    "all": {"parts": 2, "reversed_in_part": 4772},
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("latest", LATEST)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("status", Status)
def test_a_new_key_is_advised_only_while_payee_has_nothing(
    *, status: Status, error: str | None, latest: str, parts: str, config: StageConfig
) -> None:
    """Only the outcome's `next` says whether to pay again."""
    changes: dict[str, Any] = {"status": status, **PARTS[parts], **slots(("hold", "release"), ("release",))}
    changes |= {"release_reversed_at": AT} | ({"resolution": LATEST[latest]} if LATEST[latest] else {})
    changes |= {"failure": {"step": "verify", "error": error, "cause": ""}} if error else {}

    found = told(config, **changes)

    by_a_person = error == "ReversalRequested" and status is Status.COMPENSATED
    keeps = status is Status.COMPENSATED and latest in PAYEE_KEEPS
    is_final = not TRANSITIONS[status]
    assert (found["next"]["action"] == "new_key") == (is_final and not by_a_person and not keeps)
    assert (found["next"]["reason"] == "The payee is paid.") == (status is Status.SETTLED and parts == "none")
    assert ("payee keeps the release" in found["next"]["reason"]) == keeps
    assert ("release" in found.get("covered", ())) == (latest in PAYEE_KEEPS)
    assert advice(found, [])["new_key_safe"] == (found["next"]["action"] == "new_key")
    assert advice(found, [])["new_key"].endswith(found["next"]["reason"])


@pytest.mark.parametrize("status", Status)
def test_after_a_persons_reversal_the_advice_is_not_to_repay(status: Status) -> None:
    failure = {"step": "reverse", "error": "ReversalRequested", "cause": "the goods came back (by Ada)"}

    told_next = states.next_of(status, failure)

    ordered = {"action": "nothing", "reason": "A person has reversed the payment, and the payer has"}
    if status is Status.COMPENSATED:
        assert told_next["action"] == ordered["action"]
        assert told_next["reason"].startswith(ordered["reason"])
    else:
        assert told_next == states.next_of(status)


def test_the_outcome_is_plain_json(config: StageConfig) -> None:
    outcome_told = told(config, status=Status.LIMBO, **slots(("hold",), ("fee",)))

    assert json.loads(json.dumps(outcome_told)) == outcome_told
    assert type(outcome_told["status"]) is str


@pytest.mark.parametrize(
    ("cause", "told_cause"),
    [
        pytest.param(json.dumps({"errorMessage": "payer: too little"}), "payer: too little", id="Lambda's"),
        pytest.param("Task timed out", "Task timed out", id="plain text"),
        pytest.param("", "", id="empty"),
        pytest.param("{}", "{}", id="JSON without a message"),
        pytest.param("[1]", "[1]", id="a list"),
        pytest.param('"text"', '"text"', id="a JSON string"),
        pytest.param("5", "5", id="a JSON number"),
        pytest.param("null", "null", id="a JSON null"),
        pytest.param('{"errorMessage": "cut', '{"errorMessage": "cut', id="cut off"),
        pytest.param("[" * 100_000, "[" * 500, id="nested too deep"),
    ],
)
def test_a_failure_has_the_message_of_the_error(cause: str, told_cause: str) -> None:
    failure = outcome.failure("hold", {"Error": "InsufficientFunds", "Cause": cause})

    assert failure == {"step": "hold", "error": "InsufficientFunds", "cause": told_cause}


def test_a_failure_without_a_cause_is_still_a_failure() -> None:
    assert outcome.failure("hold", {"Error": "E"}) == {"step": "hold", "error": "E", "cause": ""}


HALF = "half a \ud800 pair"


@pytest.mark.parametrize("cause", [HALF, json.dumps({"errorMessage": HALF})], ids=["alone", "in JSON"])
def test_an_unpaired_surrogate_in_a_failure_is_replaced(cause: str) -> None:
    """Half a pair is legal in JSON but not in UTF-8: DynamoDB would refuse the row."""
    failure = outcome.failure("hold", {"Error": "\udfffBoom", "Cause": cause})

    assert failure == {"step": "hold", "error": "?Boom", "cause": "half a ? pair"}


@pytest.mark.parametrize("length", [99, 100, 101, 499, 500, 501, 30_000])
def test_an_errors_name_and_cause_are_cut(length: int) -> None:
    """A machine's input is not validated first, so its error may have any name."""
    text = "x" * length

    for cause in (text, json.dumps({"errorMessage": text})):
        failure = outcome.failure("hold", {"Error": text, "Cause": cause})
        assert failure == {"step": "hold", "error": text[:100], "cause": text[:500]}


@given(
    name=st.none() | st.integers() | st.text() | st.lists(st.text()),
    cause=st.none() | st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps),
)
def test_any_name_and_cause_of_an_error_become_text(name: Any, cause: Any) -> None:
    failure = outcome.failure("hold", {"Error": name, "Cause": cause})

    assert failure["error"] == str(name)[:100]
    assert {type(value) for value in failure.values()} == {str}
    assert len(failure["cause"]) <= 500
