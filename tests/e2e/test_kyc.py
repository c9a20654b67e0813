"""What each kind of answer of the KYC provider leads to, through the real machines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from settle.machines import Machine
from settle.queries import table_scan
from tests.e2e.embedded import Embedded, at_once
from tests.e2e.provider import GIVING_BACK, Payment, calls, circuit, control, payment

READ_TIMEOUT_SECONDS = 3
TRIES = 3
"""The machine asks once, and twice more where there was no answer."""

THREADS = 6
NEVER = 1000
"""So many failures that the circuit stays closed: each of these payments is to be asked about."""

ANSWERED = {"approve": "APPROVED", "reject": "REJECTED"}
REFUSED = {"refuse": "kyc: the provider refuses the request with status 400"}
UNAVAILABLE = {
    "hang": "kyc: ReadTimeoutError",
    "drip": "kyc: ProtocolError",
    "drip-headers": "kyc: the exchange took longer than 4 s",
    "busy": "kyc: the provider answers with status 429",
    "error": "kyc: the provider answers with status 500",
    "redirect": "kyc: the provider answers with status 307, which is no verdict",
    "garbage": "kyc: the provider's answer is not what its contract says",
    "huge": "kyc: the answer is longer than 65536 bytes",
    "close": "kyc: ProtocolError",
}
"""The cause that a payment ends with, by what the provider does; the slowest in front."""

CALLS = len(ANSWERED) + len(REFUSED) + TRIES * len(UNAVAILABLE)

FAILURES = {
    "reject": ("KycRejected", "kyc: rejected by the provider; its reference is ver_"),
    **{behaviour: ("KycRequestRefused", cause) for behaviour, cause in REFUSED.items()},
    **{behaviour: ("KycUnavailable", cause) for behaviour, cause in UNAVAILABLE.items()},
}


@dataclass(frozen=True)
class Met:
    """What has become of one payment per kind of answer, and how often the provider was asked for all."""

    payments: dict[str, Payment]
    outcomes: dict[str, dict[str, Any]]
    asked: int


@pytest.fixture(scope="module")
def closed_for_ever(embedded: Embedded) -> Iterator[None]:
    """For a while, no number of failures opens the circuit."""
    described = embedded.variable("VerifyKyc", "KYC")
    settings = json.loads(described)
    settings["breaker"]["failures"] = NEVER
    embedded.renew("VerifyKyc", KYC=json.dumps(settings))
    yield
    embedded.dynamodb.delete_item(  # with the failures that it has counted
        TableName=embedded.stack.outputs["TableName"], Key={"pk": {"S": "CIRCUIT"}, "sk": {"S": "kyc"}}
    )
    embedded.renew("VerifyKyc", KYC=described)


@pytest.fixture(scope="module")
def met(embedded: Embedded, closed_for_ever: None) -> Met:
    kinds = [*UNAVAILABLE, *REFUSED, *ANSWERED]
    payments = {behaviour: payment(embedded, behaviour) for behaviour in kinds}
    before = calls(embedded)
    outcomes = at_once([partial(one.start) for one in payments.values()], THREADS)
    for one in payments.values():
        one.over()
    return Met(payments, dict(zip(kinds, outcomes, strict=True)), calls(embedded) - before)


def test_what_is_no_answer_is_asked_for_again_and_an_answer_is_not(embedded: Embedded, met: Met) -> None:
    assert met.asked == CALLS
    assert circuit(embedded) == "CLOSED"


def test_an_approved_payment_settles(met: Met) -> None:
    one = met.payments["approve"]

    assert (met.outcomes["approve"]["status"], one.row()["status"]) == ("SETTLED", "SETTLED")
    assert one.balances() == ("51.80", "47.72")


@pytest.mark.parametrize("behaviour", FAILURES)
def test_a_payment_that_is_not_approved_gives_the_money_back(met: Met, behaviour: str) -> None:
    one, outcome = met.payments[behaviour], met.outcomes[behaviour]
    error, cause = FAILURES[behaviour]

    row = one.row()

    assert outcome["status"] in GIVING_BACK
    assert outcome["replayed"] is False
    assert (row["status"], row["escrow"]) == ("COMPENSATED", 0)
    assert (row["steps"], row["reversed"]) == ({"hold"}, {"hold"})
    assert (row["failure"]["step"], row["failure"]["error"]) == ("verify", error)
    assert row["failure"]["cause"].startswith(cause)
    assert outcome["failure"] == row["failure"], "the answer says why, before the reversal begins too"
    assert "gsi1pk" not in row
    assert one.balances() == ("100.00", "0.00")


@pytest.mark.parametrize("behaviour", [*ANSWERED, *REFUSED, *UNAVAILABLE])
def test_a_verdict_and_nothing_else_goes_on_record(met: Met, behaviour: str) -> None:
    one = met.payments[behaviour]
    entry, row = one.verdict(), one.row()

    decision = ANSWERED.get(behaviour)

    assert row.get("verdict") == decision
    found = (entry["decision"], entry["reference"], entry["provider"]) if entry else None
    assert found == ((decision, f"ver_{one.key}", "verifications") if decision else None)


def test_no_money_is_lost_or_made_by_any_of_it(embedded: Embedded, met: Met) -> None:
    findings = table_scan.check(embedded.stack)

    assert findings.faults == []
    assert findings.conserved


@pytest.mark.parametrize("behaviour", ["reject", "refuse", "error"])
def test_standard_tells_how_it_ended_and_the_same_key_asks_the_provider_no_more(
    embedded: Embedded, closed_for_ever: None, behaviour: str
) -> None:
    one = payment(embedded, behaviour)
    first = one.start(Machine.STANDARD)
    asked = calls(embedded)

    again = one.start()

    assert (first["status"], first["escrow"]) == ("COMPENSATED", "0.00")
    assert first["failure"]["error"] == FAILURES[behaviour][0]
    assert again == first | {"replayed": True}
    assert calls(embedded) == asked


def test_an_answer_just_in_time_is_taken(embedded: Embedded, closed_for_ever: None) -> None:
    one = payment(embedded)
    before = calls(embedded)
    control(embedded, delay_seconds=READ_TIMEOUT_SECONDS / 2)
    try:
        outcome = one.start()
    finally:
        control(embedded, delay_seconds=0)

    assert outcome["status"] == "SETTLED"
    assert calls(embedded) == before + 1


def test_a_payment_settles_on_a_verdict_that_it_has_while_the_provider_is_dead(
    embedded: Embedded, closed_for_ever: None
) -> None:
    """The function that asks is called again, as by a retry, once its verdict is on record."""
    one = payment(embedded)
    claimed = embedded.invoke("ClaimKey", one.request)["settlement"]
    embedded.invoke("HoldFunds", claimed)
    first = embedded.invoke("VerifyKyc", claimed)
    before = calls(embedded)
    control(embedded, behaviour="error")
    try:
        again = embedded.invoke("VerifyKyc", claimed)
    finally:
        control(embedded, behaviour="approve")

    assert first == again == {"in_review": False}
    assert calls(embedded) == before


@pytest.mark.parametrize(
    ("behaviour", "first", "ended", "verdict", "balances"),
    [
        ("review-approve", {"PROCESSING"}, "SETTLED", "APPROVED", ("51.80", "47.72")),
        ("review-reject", {"PROCESSING"}, "COMPENSATED", "REJECTED", ("100.00", "0.00")),
        ("early-approve", {"PROCESSING", "SETTLED"}, "SETTLED", "APPROVED", ("51.80", "47.72")),
    ],
)
def test_a_review_is_gone_on_with_by_itself_once_the_provider_has_decided(
    embedded: Embedded, behaviour: str, first: set[str], ended: str, verdict: str, balances: tuple[str, str]
) -> None:
    """The provider calls the webhook after its answer, or before: it has decided while it was asked."""
    one = payment(embedded, behaviour)

    outcome = one.start()
    row = one.over()

    entry = one.verdict()
    assert outcome["status"] in first | {ended}
    assert (row["status"], row["escrow"], row["verdict"]) == (ended, 0, verdict)
    assert row["owner"] == f"{one.key}-{'decided' if ended == 'SETTLED' else 'compensate-1'}"
    assert "review" not in row
    assert entry is not None
    assert (entry["decision"], entry["provider"]) == (verdict, "webhook")
    assert one.balances() == balances
    assert table_scan.check(embedded.stack).conserved
