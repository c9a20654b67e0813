from collections.abc import Callable

import pytest

from settle.orders import resolution
from settle.settlements import settlement
from settlement.core.ledger import entries
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step
from settlement.core.model.timestamps import timestamp
from tests.settle.conftest import Command
from tests.settle.desk import ADA, REASON, Desk
from tests.settle.ways import (
    approved_in_review,
    begun,
    claimed,
    closed,
    half_reversed,
    in_review,
    lacks_funds,
    rejected,
    rejected_in_review,
    reversed_before_the_hold,
    reversed_on_order,
    settled,
)
from tests.world.constants import KEY, WIRE
from tests.world.environment import NOW
from tests.world.provider import APPROVED

Make = Callable[[Desk], object]
FORWARD = [
    ("hold", "alice → escrow", "48.20", "48.20"),
    ("verify", "", "", "48.20"),
    ("release", "escrow → bob", "47.72", "0.48"),
    ("fee", "escrow → fees:EUR", "0.48", "0.00"),
]


def timeline(desk: Desk) -> list[tuple[str, str, str, str]]:
    entries = settlement.describe(desk.stack, KEY)["entries"]
    return [(line["step"], line["moved"], line["amount"], line["escrow"]) for line in entries]


def notes(desk: Desk) -> dict[str, str]:
    entries = settlement.describe(desk.stack, KEY)["entries"]
    return {line["step"]: line["note"] for line in entries if line["note"]}


def ran_out(desk: Desk) -> None:
    """Reverse a payment at its review's end; its row still has the review."""
    in_review(desk)
    desk.compensate(WIRE, error={"Error": "DeadlineExceeded", "Cause": "recover: the review"})


def stuck(desk: Desk) -> None:
    desk.stuck()


def completed(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.COMPLETE, REASON)


def written_off(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.WRITE_OFF, REASON)


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (settled, FORWARD),
        (rejected, [*FORWARD[:2], ("compensate:hold", "escrow → alice", "48.20", "0.00")]),
        (
            reversed_on_order,
            [
                *FORWARD,
                ("reverse", "", "", "0.00"),
                ("compensate:fee", "fees:EUR → escrow", "0.48", "0.48"),
                ("compensate:release", "bob → escrow", "47.72", "48.20"),
                ("compensate:hold", "escrow → alice", "48.20", "0.00"),
            ],
        ),
        (
            written_off,
            [
                *FORWARD[:3],
                ("limbo:1", "", "", "0.48"),
                ("resolve:1", "losses:EUR → escrow", "47.72", "48.20"),
                ("compensate:hold", "escrow → alice", "48.20", "0.00"),
            ],
        ),
    ],
)
def test_each_entry_is_shown_with_the_escrow_after_it(
    desk: Desk, make: Make, lines: list[tuple[str, str, str, str]]
) -> None:
    desk.pay(f"{KEY}2", amount="1.00", fee="0.00")  # its journal is its own
    make(desk)
    assert timeline(desk) == lines
    times = [line["posted_at"] for line in settlement.describe(desk.stack, KEY)["entries"]]
    assert times == sorted(set(times))


@pytest.mark.parametrize("until", ["hold", "fee"])
def test_entries_of_one_millisecond_are_shown_in_step_order(desk: Desk, until: str) -> None:
    """Clocks differ between functions, so the escrow could seem overdrawn."""
    desk.pay(until=until)
    expected = FORWARD if until == "fee" else FORWARD[:1]
    for step, *_ in expected:
        desk.ledger.put(desk.entry(step) | {"posted_at": NOW.isoformat()})

    assert timeline(desk) == expected


SAID = "decision: {}; reason: {}; reference: ver_1; provider: {}"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (settled, {"verify": SAID.format("APPROVED", "nothing is known", "verifications")}),
        (rejected, {"verify": SAID.format("REJECTED", "a listed party", "verifications")}),
        (approved_in_review, {"review": SAID.format("APPROVED", "nothing is known", "webhook")}),
        (rejected_in_review, {"review": SAID.format("REJECTED", "a listed party", "webhook")}),
        (
            written_off,
            {
                "verify": SAID.format("APPROVED", "nothing is known", "verifications"),
                "limbo:1": "error: InsufficientFunds; cause: payee: the account has too little available"
                " to give back what it received",
                "resolve:1": f"decision: write-off; reason: {REASON}; by: {ADA}",
            },
        ),
    ],
)
def test_a_note_states_the_decision_reason_and_person(
    desk: Desk, make: Make, expected: dict[str, str]
) -> None:
    make(desk)

    assert notes(desk) == expected


def test_a_reviewers_verdict_is_shown_after_the_providers_answer(desk: Desk) -> None:
    """Both can have the same time, because a second call can get its answer during the review."""
    rejected_in_review(desk)
    known = SettlementState.from_row(desk.row()).settlement
    desk.ledger.store.put(entries.evidence(known, Step.VERIFY, APPROVED.evidence(), NOW))
    for step in ("hold", "verify", "review"):
        desk.ledger.put(desk.entry(step) | {"posted_at": timestamp(NOW)})

    described = settlement.describe(desk.stack, KEY)

    assert [line["step"] for line in described["entries"]] == ["hold", "verify", "review", "compensate:hold"]
    assert (described["steps"], described["failure"]["error"]) == (["hold"], "KycRejected")
    assert notes(desk) == {
        "verify": SAID.format("APPROVED", "nothing is known", "verifications"),
        "review": SAID.format("REJECTED", "a listed party", "webhook"),
    }


FLYING = "NOT safe: The payment is in flight: ask again with the same key, or wait for its event."
PAID = "NOT safe: The payee is paid."
REFUNDED = "safe: The payer has everything back, and this key never pays any more"
BY_A_PERSON = "NOT safe: A person has reversed the payment, and the payer has everything back"


@pytest.mark.parametrize(
    ("make", "status", "new_key", "evidence"),
    [
        (claimed, "PROCESSING", FLYING, []),
        (begun, "PROCESSING", FLYING, ["hold"]),
        (in_review, "PROCESSING", FLYING, ["hold"]),
        (settled, "SETTLED", PAID, ["release", "fee"]),
        (completed, "SETTLED", PAID, ["release"]),
        (lacks_funds, "REJECTED", "safe: The payment was refused before anything was held", []),
        (
            half_reversed,
            "COMPENSATING",
            "NOT safe: The payment is being reversed, which may still end otherwise",
            ["hold", "release", "fee", "compensate:fee", "compensate:release"],
        ),
        (closed, "COMPENSATED", REFUNDED, ["hold", "compensate:hold"]),
        (
            written_off,
            "COMPENSATED",
            "NOT safe: The payer has everything back, and the payee keeps the release",
            ["hold", "release", "resolve:1", "compensate:hold"],
        ),
        (reversed_before_the_hold, "COMPENSATED", BY_A_PERSON, []),
        (
            stuck,
            "LIMBO",
            "NOT safe: The reversal is stuck, and a person decides, who may let the payment stand",
            ["hold", "release"],
        ),
    ],
)
def test_the_retry_advice_follows_the_status_and_cites_entries(
    desk: Desk, make: Make, status: str, new_key: str, evidence: list[str]
) -> None:
    make(desk)

    described = settlement.describe(desk.stack, KEY)

    proof = described["retry"].pop("evidence")
    assert described["retry"].pop("new_key").startswith(new_key)
    assert described["retry"] == {
        "same_key": f"safe: it answers {status} again and moves nothing",
        "new_key_safe": new_key.startswith("safe"),
    }
    assert described["status"] == status
    lines = {line["step"]: line for line in described["entries"]}
    expected = []
    for line in (lines[step] for step in evidence):
        what = line["moved"] or line["note"]
        expected.append(f"{line['posted_at']} {line['step']}: {what} {line['amount']}".rstrip())
    assert proof == (expected or ["no journal entry moves money"])


def test_a_settlement_in_review_shows_the_review_and_its_end(desk: Desk, command: Command) -> None:
    in_review(desk)

    _, out, _ = command("status", KEY)

    until = desk.row()["deadline_at"]
    assert settlement.describe(desk.stack, KEY)["review"] == {"reference": "ver_1", "until": until}
    assert until.startswith("2026-11-21T12:00:")
    (line,) = (line for line in out.splitlines() if line.startswith("review"))
    assert "ver_1" in line
    assert until in line


@pytest.mark.parametrize(
    "make",
    [begun, approved_in_review, rejected_in_review, rejected, ran_out],
)
def test_a_settlement_outside_review_shows_no_review(desk: Desk, make: Make) -> None:
    make(desk)

    assert settlement.describe(desk.stack, KEY)["review"] is None
