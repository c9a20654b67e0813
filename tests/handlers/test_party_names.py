"""The parties' names: required of new claims alone, carried by every execution, asked of the provider."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies, _kyc
from settlement.adapters import kyc_opensanctions
from settlement.ledger import keys
from settlement.model.errors import (
    IdempotencyConflict,
    InvalidRequest,
    KycCircuitOpen,
    KycRequestRefused,
    KycUnavailable,
)
from settlement.model.request import parse_settlement
from tests.conftest import Ledger
from tests.handlers.calls import CLAIMED_AT, KEY, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.provider_stage import Stage, stage
from tests.handlers.stand_ins import Queues, Secrets, Starts, signed, text
from tests.support.kyc import IN_REVIEW, Provider

NAMED = WIRE | {"payer_name": "Alice Muster", "payee_name": "Bob Muster"}
INCOMPLETE = [
    pytest.param(WIRE, "payee_name: missing; payer_name: missing", id="neither"),
    pytest.param(WIRE | {"payer_name": "Alice Muster"}, "payee_name: missing", id="the payer's alone"),
    pytest.param(WIRE | {"payee_name": "Bob Muster"}, "payer_name: missing", id="the payee's alone"),
]
NO_MATCH = {"status": 200, "results": []}


@pytest.fixture
def require_names(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that makes names required, as a deployment does."""

    def require() -> None:
        monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, party_names="required"))

    return require


@pytest.fixture
def opensanctions(
    calls: Calls, ledger: Ledger, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> tuple[Stage, list[Any]]:
    """The real client of OpenSanctions, which matches no one, and the questions that it gets."""
    made, asked = stage(ledger, monkeypatch), list[Any]()

    def exchange(headers: Any, body: bytes) -> tuple[int, bytes]:
        asked.append(json.loads(body))
        return 200, json.dumps({"responses": {"payer": NO_MATCH, "payee": NO_MATCH}}).encode()

    monkeypatch.setattr(_kyc._client, "_exchange", exchange)
    monkeypatch.setattr(_kyc._client, "_provider", kyc_opensanctions)
    monkeypatch.setattr(_kyc, "ask", made.ask)
    return made, asked


def held(calls: Calls, wire: dict[str, Any]) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    calls("ClaimKey", wire)
    calls("HoldFunds", wire)


# New claims


@pytest.mark.parametrize(("request_", "message"), INCOMPLETE)
def test_a_stage_that_requires_names_refuses_a_new_request_without_them(
    calls: Calls,
    counted: Counted,
    require_names: Callable[[], None],
    *,
    request_: dict[str, Any],
    message: str,
) -> None:
    require_names()

    with calls.writes_nothing(), pytest.raises(InvalidRequest) as refused:
        calls("ClaimKey", request_)

    assert str(refused.value) == message
    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize(("request_", "message"), INCOMPLETE)
def test_such_a_message_becomes_a_dead_letter_and_starts_nothing(
    calls: Calls,
    starts: Starts,
    queues: Queues,
    require_names: Callable[[], None],
    *,
    request_: dict[str, Any],
    message: str,
) -> None:
    require_names()

    with calls.writes_nothing():
        assert calls.receive(text(request_)) == []

    assert [sent["reason"] for sent in queues.sent] == [f"InvalidRequest: {message}"]
    assert starts.made == []


def test_a_request_with_names_is_claimed_and_carried_on(
    calls: Calls, require_names: Callable[[], None]
) -> None:
    require_names()

    claimed = calls("ClaimKey", NAMED | {"payer_name": " Alice Muster "})

    assert (claimed["replayed"], claimed["settlement"]) == (False, NAMED)
    assert (calls.row()["payer_name"], calls.row()["payee_name"]) == ("Alice Muster", "Bob Muster")


def test_a_message_with_names_starts_an_execution_that_has_them(
    calls: Calls, starts: Starts, queues: Queues, require_names: Callable[[], None]
) -> None:
    require_names()

    assert calls.receive(text(NAMED)) == []

    assert [settlement for _, _, settlement in starts.made] == [NAMED]
    assert queues.sent == []


# Keys that were claimed before the stage required names


def test_an_execution_resumes_a_settlement_that_was_claimed_without_names(
    calls: Calls, require_names: Callable[[], None]
) -> None:
    """Recovery and the webhook start executions with what was claimed: refused, money would stay held."""
    before = calls("ClaimKey")
    require_names()

    with calls.writes_nothing():
        assert calls("ClaimKey") == before
        assert calls("ClaimKey", execution="execution-2") == before | {"replayed": True}


def test_a_settlement_without_names_runs_to_its_end_on_a_stage_that_requires_them(
    calls: Calls, require_names: Callable[[], None]
) -> None:
    calls.before("VerifyKyc")
    require_names()

    for state in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state)

    assert calls("CollectFee", claimed_at=CLAIMED_AT)["status"] == "SETTLED"


def test_a_message_whose_key_was_claimed_without_names_is_a_replay(
    calls: Calls, starts: Starts, queues: Queues, require_names: Callable[[], None]
) -> None:
    calls("ClaimKey")
    require_names()

    with calls.writes_nothing():
        assert calls.receive(text(WIRE)) == []

    assert (starts.made, queues.sent) == ([], [])


@pytest.mark.parametrize("other", [WIRE | {"amount": "48.21"}, NAMED])
def test_other_content_under_such_a_key_is_a_conflict(
    calls: Calls, require_names: Callable[[], None], other: dict[str, Any]
) -> None:
    """Names that come later are other content, too: the first request was not screened by them."""
    calls("ClaimKey")
    require_names()

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", other)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("Zoe\u0308 Muster", "Zoë Muster"),
        ("Zoë Muster", "Zoe\u0308\xa0Muster"),
        ("Zoë Muster", "Zoë\u3000Muster "),
    ],
)
def test_the_same_name_in_another_form_is_a_replay(calls: Calls, first: str, again: str) -> None:
    """Clients, databases and platforms compose characters or not, and choose their spaces."""
    before = calls("ClaimKey", NAMED | {"payer_name": first})

    with calls.writes_nothing():
        replayed = calls("ClaimKey", NAMED | {"payer_name": again}, execution="execution-2")

    assert before["settlement"]["payer_name"] == calls.row()["payer_name"] == "Zoë Muster"
    assert replayed == before | {"replayed": True}


@pytest.mark.parametrize("other", [WIRE, NAMED | {"payer_name": "Alice Mustermann"}])
def test_another_name_under_a_known_key_is_a_conflict(calls: Calls, other: dict[str, Any]) -> None:
    calls("ClaimKey", NAMED)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", other)


# The executions that the stack starts


def test_recovery_resumes_with_the_names(calls: Calls, starts: Starts, later: Callable[..., None]) -> None:
    held(calls, NAMED)
    later(minutes=1)

    calls.recover()

    assert [settlement for _, _, settlement in starts.made] == [NAMED]


def test_recovery_compensates_with_the_names(
    calls: Calls, starts: Starts, later: Callable[..., None]
) -> None:
    held(calls, NAMED)
    later(minutes=15)

    calls.recover()

    (start,) = starts.made
    assert start[2]["settlement"] == NAMED
    assert calls.begin_as(start[1], start[2])["settlement"] == NAMED


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_verdict_of_the_webhook_resumes_with_the_names(
    calls: Calls, provider: Provider, starts: Starts, decision: str
) -> None:
    held(calls, NAMED)
    provider.answer = IN_REVIEW
    calls("VerifyKyc", NAMED)

    assert calls.decided(signed(reference=IN_REVIEW.reference, decision=decision))[0] == 200

    assert [settlement for _, _, settlement in starts.made] == [NAMED]


# The provider


def test_opensanctions_is_asked_by_name(
    calls: Calls, opensanctions: tuple[Stage, list[Any]], require_names: Callable[[], None]
) -> None:
    require_names()
    held(calls, NAMED)

    assert calls("VerifyKyc", NAMED) == {"in_review": False}

    (question,) = opensanctions[1]
    names = {party: query["properties"]["name"] for party, query in question["queries"].items()}
    assert names == {"payer": ["Alice Muster"], "payee": ["Bob Muster"]}


@pytest.mark.parametrize(("wire", "_"), INCOMPLETE)
def test_opensanctions_approves_no_settlement_without_names(
    calls: Calls, opensanctions: tuple[Stage, list[Any]], counted: Counted, wire: dict[str, Any], _: str
) -> None:
    """The key was claimed before the stage required them. It is compensated, and the circuit stays closed."""
    made, asked = opensanctions
    held(calls, wire)
    counted()

    for _ in range(6):
        with calls.writes_nothing(), pytest.raises(KycRequestRefused):
            calls("VerifyKyc", wire)

    assert (asked, made.circuit(), made.events) == ([], {}, [])
    assert counted() == {"StepCalled": 6, "KycRequestRefused": 6}
    assert "verdict" not in calls.row()


def open_circuit(made: Stage, opened_at: int) -> None:
    made.ledger.put(keys.circuit("kyc") | {"state": "OPEN", "failure_count": 5, "opened_at": opened_at})


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("opened_at", [2**40, 0], ids=["still open", "a probe is due"])
def test_a_settlement_without_names_is_refused_for_good_while_the_circuit_is_open(
    calls: Calls, opensanctions: tuple[Stage, list[Any]], secrets: Secrets, opened_at: int
) -> None:
    """An answer of KycCircuitOpen would be an invitation to try again. It takes no probe's place."""
    made, asked = opensanctions
    held(calls, WIRE)
    open_circuit(made, opened_at)

    with calls.writes_nothing(), pytest.raises(KycRequestRefused, match=r"no payer_name, payee_name$"):
        calls("VerifyKyc", WIRE)

    assert (asked, secrets.read, made.events) == ([], [], [])
    assert made.circuit()["state"] == "OPEN"


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("opened_at", [2**40, 0], ids=["still open", "a probe is due"])
def test_after_it_a_payment_with_names_meets_the_circuit_as_it_was(
    calls: Calls, opensanctions: tuple[Stage, list[Any]], opened_at: int
) -> None:
    made, asked = opensanctions
    held(calls, WIRE)
    open_circuit(made, opened_at)
    with pytest.raises(KycRequestRefused):
        calls("VerifyKyc", WIRE)
    named = parse_settlement(NAMED, _dependencies.config)

    if opened_at:
        with pytest.raises(KycCircuitOpen):
            made.ask(named)
    else:
        made.ask(named)

    assert len(asked) == (0 if opened_at else 1)
    assert made.states() == ([] if opened_at else ["HALF_OPEN", "CLOSED"])


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
def test_a_payment_that_meets_the_probe_of_another_environment_settles_on_the_machines_retry(
    calls: Calls, opensanctions: tuple[Stage, list[Any]]
) -> None:
    made, asked = opensanctions
    held(calls, NAMED)
    open_circuit(made, 0)
    probe = {"state": "HALF_OPEN", "half_open_owner": "another", "probe_lease_expiry": 2**40}
    made.ledger.put(made.circuit() | probe)
    with calls.writes_nothing(), pytest.raises(KycUnavailable, match="a probe is under way"):
        calls("VerifyKyc", NAMED)

    made.ledger.put(keys.circuit("kyc") | {"state": "CLOSED", "failure_count": 0})  # the probe succeeds
    made.forget()

    assert calls("VerifyKyc", NAMED) == {"in_review": False}
    calls("ReleaseFunds", NAMED)
    assert calls("CollectFee", NAMED, claimed_at=CLAIMED_AT)["status"] == "SETTLED"
    assert len(asked) == 1


def test_our_own_contract_sends_no_names(
    calls: Calls, ledger: Ledger, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that the provider does not need stays here."""
    made, asked = stage(ledger, monkeypatch), list[bytes]()
    exchange = made.exchange
    monkeypatch.setattr(
        _kyc._client, "_exchange", lambda headers, body: asked.append(body) or exchange(headers, body)
    )
    monkeypatch.setattr(_kyc, "ask", made.ask)
    held(calls, NAMED)

    calls("VerifyKyc", NAMED)

    (question,) = asked
    assert json.loads(question).keys() == {"payer", "payee", "amount", "currency"}
    assert calls.entries() == {"hold", "verify"}
    assert KEY not in question.decode()
