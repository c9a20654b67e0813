from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, at_once
from tests.e2e.provider import Call, Payment, call, decision, in_review, send
from tests.world.journal import slots

pytestmark = pytest.mark.long

TIMES = 32
ENDS = {
    "APPROVED": ("SETTLED", "51.80", "47.72", None),
    "REJECTED": ("COMPENSATED", "100.00", "0.00", "KycRejected"),
}


def persistently(embedded: Embedded, sent: Call) -> tuple[int, dict[str, Any]]:
    answers: list[tuple[int, dict[str, Any]]] = []

    def is_final() -> bool:
        answers.append(send(embedded, sent))
        return answers[-1][0] < 500

    embedded.wait_for(is_final)
    return answers[-1]


def test_recovery_leaves_a_payment_in_review_held(embedded: Embedded, parked: Payment) -> None:
    row = parked.row()
    outcome = parked.start()
    shown = embedded.told("status", parked.key, code=7)
    embedded.recover_due()

    assert (row["status"], row["escrow"], slots(row)) == ("PROCESSING", 4820, {"hold_at"})
    assert row["review"] == f"ver_{parked.key}"
    assert row["gsi1sk"] == row["deadline_at"]
    assert (outcome["status"], outcome["escrow"], outcome["replayed"]) == ("PROCESSING", "48.20", True)
    assert parked.balances() == ("51.80", "0.00")
    assert parked.verdict() is None
    assert shown["review"] == {"reference": f"ver_{parked.key}", "until": row["deadline_at"]}
    assert parked.row() == row


@pytest.mark.parametrize("says", ENDS)
def test_a_webhooks_decision_ends_the_review_and_the_payment(embedded: Embedded, says: str) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one, says))

    status, answer = send(embedded, sent)
    row = one.over()

    entry = one.verdict()
    assert (status, answer) == (200, {"idempotency_key": f"{one.key}:verify", "decision": says})
    ended, payer, payee, error = ENDS[says]
    assert (row["status"], row["escrow"], row["verdict"]) == (ended, 0, says)
    assert row.get("failure", {}).get("error") == error
    assert one.balances() == (payer, payee)
    assert not {"review", "gsi1pk"} & row.keys()
    assert entry is not None
    assert (entry["decision"], entry["reference"]) == (says, f"ver_{one.key}")
    assert entry["reason"] == "a person has looked at it"
    assert embedded.conserved()


def test_a_repeated_webhook_changes_nothing_and_a_contradiction_is_refused(
    embedded: Embedded,
) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))
    first = send(embedded, sent)
    one.over()
    other_content = replace(sent, body=decision(one, "REJECTED"))

    with embedded.writes_nothing():
        again = send(embedded, sent)
        same_by_another_name = send(embedded, replace(sent, event=f"{sent.event}-again"))
        refused = send(embedded, other_content)
        too_late = send(embedded, replace(other_content, event=f"{sent.event}-other"))

    assert first == again == same_by_another_name
    assert first[0] == 200
    assert (refused[0], refused[1]["message"]) == (
        409,
        "webhook-id: was used before by an event with other content",
    )
    assert (too_late[0], too_late[1]["message"]) == (409, "decision: APPROVED is on record, for good")


def test_a_webhook_sent_32_times_at_once_takes_effect_once(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    answers = at_once([partial(persistently, embedded, sent)] * TIMES)
    row = one.over()

    assert {status for status, _ in answers} == {200}
    assert (row["status"], row["owner"].startswith(f"{one.key}-r2-")) == ("SETTLED", True)
    assert embedded.entries(one.key) == ["fee", "hold", "release", "review"]
    assert one.balances() == ("51.80", "47.72")
    assert [row["pk"] for row in embedded.rows() if row["sk"] == "EVENT" and row["key"] == one.key] == [
        f"KYC_EVENT#{sent.event}"
    ]
    assert embedded.conserved()


def test_one_of_two_opposite_concurrent_decisions_stands(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = {says: call(embedded, decision(one, says)) for says in ENDS}

    answers = at_once([partial(persistently, embedded, each) for each in sent.values()])
    row = one.over()

    statuses = dict(zip(sent, (status for status, _ in answers), strict=True))
    assert sorted(statuses.values()) == [200, 409]
    assert statuses[row["verdict"]] == 200
    assert (row["status"], *one.balances()) == ENDS[row["verdict"]][:3]
    assert embedded.conserved()


@pytest.mark.parametrize("by", ["a call", "its schedule"])
def test_recovery_reverses_a_payment_whose_review_deadline_has_passed(embedded: Embedded, by: str) -> None:
    one = in_review(embedded)
    embedded.dynamodb.update_item(  # as if time had passed
        TableName=embedded.stack.outputs["TableName"],
        Key={"pk": {"S": f"SETTLEMENT#{one.key}"}, "sk": {"S": "SETTLEMENT"}},
        UpdateExpression="SET deadline_at = :past, gsi1sk = :past, in_flight_since = :past",
        ExpressionAttributeValues={":past": {"S": "2026-01-01T00:00:00.000Z"}},
    )
    too_late = send(embedded, call(embedded, decision(one)))

    if by == "a call":
        embedded.recover_due()
        row = one.over()
    else:
        embedded.schedule(enabled=True)
        try:
            row = one.over()
        finally:
            embedded.schedule(enabled=False)

    much_too_late = send(embedded, call(embedded, decision(one)))
    assert (too_late[0], too_late[1]["error"]) == (409, "DeadlineExceeded")
    assert (row["status"], row["escrow"], row["owner_epoch"]) == ("COMPENSATED", 0, 1)
    assert row["failure"]["cause"] == "recover: the review has not ended in time"
    assert one.verdict() is None
    assert one.balances() == ("100.00", "0.00")
    assert (much_too_late[0], much_too_late[1]["error"]) == (409, "StepFenced")
    assert embedded.conserved()


def test_a_decision_sent_again_takes_effect_after_a_failed_start(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    with embedded.without_grants("KycDecided", "lambda:InvokeFunction"):
        status, answer = send(embedded, sent)
        row, entry = one.row(), one.verdict()
    again, _ = send(embedded, sent)

    assert (status, answer["error"]) == (503, "StartUnavailable")
    assert (row["status"], row["verdict"], row["escrow"]) == ("PROCESSING", "APPROVED", 4820)
    assert entry is not None
    assert again == 200
    assert one.over()["status"] == "SETTLED"


def test_recovery_resumes_a_decided_payment_after_a_failed_start(embedded: Embedded) -> None:
    """The write of the verdict makes the settlement due for recovery."""
    one = in_review(embedded)

    with embedded.without_grants("KycDecided", "lambda:InvokeFunction"):
        status, _ = send(embedded, call(embedded, decision(one)))
    embedded.recover_due()

    assert status == 503
    row = one.over()
    assert (row["status"], row["owner"].startswith(f"{one.key}-r2-")) == ("SETTLED", True)
    assert embedded.conserved()
