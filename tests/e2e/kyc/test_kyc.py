import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, at_once
from tests.e2e.provider import GIVING_BACK, Payment, calls, circuit, payment
from tests.world.journal import slots

pytestmark = pytest.mark.long

READ_TIMEOUT_SECONDS = 5
TRIES = 3
"""Requests per payment if the provider gives no answer."""

THREADS = 6
NEVER = 1000
"""Failure threshold that is never reached, so the circuit stays closed for all payments."""

ANSWERED = {"approve": "APPROVED", "reject": "REJECTED"}
REFUSED = {"refuse": "kyc: the provider refuses the request with status 400"}
UNAVAILABLE = {
    "hang": "kyc: ReadTimeoutError",
    "drip": "kyc: the exchange took longer than 7 s",
    "drip-headers": "kyc: the exchange took longer than 7 s",
    "busy": "kyc: the provider answers with status 429",
    "error": "kyc: the provider answers with status 500",
    "redirect": "kyc: the provider answers with status 307, which is no verdict",
    "garbage": "kyc: the provider's answer is not what its contract says",
    "huge": "kyc: the answer is longer than 65536 bytes",
    "close": "kyc: ProtocolError",
}
"""Causes of failed payments, by the provider's behaviour, the slowest first."""

CALLS = len(ANSWERED) + len(REFUSED) + TRIES * len(UNAVAILABLE)

FAILURES = {
    "reject": ("KycRejected", "kyc: rejected by the provider; its reference is ver_"),
    **{behaviour: ("KycRequestRefused", cause) for behaviour, cause in REFUSED.items()},
    **{behaviour: ("KycUnavailable", cause) for behaviour, cause in UNAVAILABLE.items()},
}


@dataclass(frozen=True)
class Met:
    payments: dict[str, Payment]
    outcomes: dict[str, dict[str, Any]]
    asked: int


@pytest.fixture(scope="module")
def closed_for_ever(embedded: Embedded) -> Iterator[None]:
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


def test_the_provider_is_asked_again_after_failures_not_after_answers(embedded: Embedded, met: Met) -> None:
    assert met.asked == CALLS
    assert circuit(embedded) == "CLOSED"


@pytest.mark.parametrize("behaviour", [*ANSWERED, *REFUSED, *UNAVAILABLE])
def test_an_approved_payment_settles_and_any_other_is_reversed(met: Met, behaviour: str) -> None:
    one, outcome = met.payments[behaviour], met.outcomes[behaviour]
    entry, row, decision = one.verdict(), one.row(), ANSWERED.get(behaviour)

    assert (row.get("verdict"), row["escrow"], outcome["replayed"]) == (decision, 0, False)
    found = (entry["decision"], entry["reference"], entry["provider"]) if entry else None
    assert found == ((decision, f"ver_{one.key}", "verifications") if decision else None)
    assert "gsi1pk" not in row
    if behaviour == "approve":
        assert (outcome["status"], row["status"]) == ("SETTLED", "SETTLED")
        assert one.balances() == ("51.80", "47.72")
        return
    error, cause = FAILURES[behaviour]
    assert outcome["status"] in GIVING_BACK
    assert (row["status"], slots(row)) == ("COMPENSATED", {"hold_at", "hold_reversed_at"})
    assert (row["failure"]["step"], row["failure"]["error"]) == ("verify", error)
    assert row["failure"]["cause"].startswith(cause)
    assert outcome["failure"] == row["failure"], "the answer says why, before the reversal begins too"
    assert one.balances() == ("100.00", "0.00")


def test_the_books_are_conserved_after_all_of_the_providers_behaviours(embedded: Embedded, met: Met) -> None:
    assert embedded.conserved()


@pytest.mark.parametrize(
    ("behaviour", "first", "ended", "verdict", "balances"),
    [
        ("review-approve", {"PROCESSING"}, "SETTLED", "APPROVED", ("51.80", "47.72")),
        ("review-reject", {"PROCESSING"}, "COMPENSATED", "REJECTED", ("100.00", "0.00")),
        ("early-approve", {"PROCESSING", "SETTLED"}, "SETTLED", "APPROVED", ("51.80", "47.72")),
    ],
)
def test_a_payment_resumes_once_the_provider_has_decided(
    embedded: Embedded, behaviour: str, first: set[str], ended: str, verdict: str, balances: tuple[str, str]
) -> None:
    one = payment(embedded, behaviour)

    outcome = one.start()
    row = one.over()

    entry = one.verdict()
    assert outcome["status"] in first | {ended}
    assert (row["status"], row["escrow"], row["verdict"]) == (ended, 0, verdict)
    # An early decision may be carried out by the execution that asked, before recovery is.
    owners = ("c2-",) if ended == "COMPENSATED" else ("r2-", "decided")
    assert row["owner"].startswith(tuple(f"{one.key}-{owner}" for owner in owners))
    assert "review" not in row
    assert entry is not None
    assert (entry["decision"], entry["provider"]) == (verdict, "webhook")
    assert one.balances() == balances
    assert embedded.conserved()
