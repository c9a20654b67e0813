"""A deadline that the request names is absolute: neither a review nor a verdict moves it."""

from datetime import timedelta

import pytest

from handlers import _kyc
from settlement.model.timestamps import timestamp
from tests.conftest import NOW
from tests.handlers.calls import CLAIMED_AT, WIRE, Calls, Context
from tests.handlers.stand_ins import Starts, signed
from tests.support.kyc import IN_REVIEW, Provider

NAMED_SECONDS = 7_200
NAMED = WIRE | {"deadline_seconds": NAMED_SECONDS}
DEADLINE = timestamp(NOW + timedelta(seconds=NAMED_SECONDS))


def held(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    calls("ClaimKey", NAMED)
    calls("HoldFunds", NAMED)


def test_the_claim_takes_the_deadline_of_the_request(calls: Calls) -> None:
    held(calls)

    assert (calls.row()["deadline_at"], calls.row()["deadline_seconds"]) == (DEADLINE, NAMED_SECONDS)


@pytest.mark.parametrize("review_seconds", [NAMED_SECONDS // 2, 2 * NAMED_SECONDS])
def test_a_review_lasts_until_the_deadline_of_the_request(
    calls: Calls, provider: Provider, monkeypatch: pytest.MonkeyPatch, review_seconds: int
) -> None:
    held(calls)
    monkeypatch.setattr(_kyc, "review_seconds", review_seconds)
    provider.answer = IN_REVIEW

    assert calls("VerifyKyc", NAMED) == {"in_review": True}

    row = calls.row()
    assert (row["deadline_at"], row["gsi1sk"], row["in_flight_since"]) == (DEADLINE, DEADLINE, DEADLINE)


@pytest.mark.usefixtures("secrets")
def test_a_verdict_leaves_the_deadline_of_the_request_and_the_payment_its_time(
    calls: Calls, provider: Provider, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(calls)
    monkeypatch.setattr(_kyc, "review_seconds", NAMED_SECONDS // 2)
    provider.answer = IN_REVIEW
    calls("VerifyKyc", NAMED)

    assert calls.handlers["KycDecided"](signed(reference=IN_REVIEW.reference), Context())["statusCode"] == 200

    assert calls.row()["deadline_at"] == DEADLINE
    assert starts.made[0][2] == NAMED
    owner = starts.names[0]
    assert calls("ClaimKey", NAMED, execution=owner)["replayed"] is False
    calls("ReleaseFunds", NAMED, execution=owner)
    assert calls("CollectFee", NAMED, execution=owner, claimed_at=CLAIMED_AT)["status"] == "SETTLED"
