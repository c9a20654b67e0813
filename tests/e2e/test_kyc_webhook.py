"""A review, and the webhook by which the provider ends it: it has one effect, however often it comes."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from settle.queries import table_scan
from tests.e2e.embedded import Embedded, at_once
from tests.e2e.provider import Call, Payment, call, decision, in_review, send

TIMES = 32
ENDS = {
    "APPROVED": ("SETTLED", "51.80", "47.72", None),
    "REJECTED": ("COMPENSATED", "100.00", "0.00", "KycRejected"),
}


def persistently(embedded: Embedded, sent: Call) -> tuple[int, dict[str, Any]]:
    """Call as a provider does, which calls again where nothing is wrong with the call itself."""
    answers: list[tuple[int, dict[str, Any]]] = []

    def is_final() -> bool:
        answers.append(send(embedded, sent))
        return answers[-1][0] < 500

    embedded.wait_for(is_final)
    return answers[-1]


def test_a_payment_in_review_holds_the_money_and_waits_for_nothing(
    embedded: Embedded, parked: Payment
) -> None:
    row = parked.row()
    outcome = parked.start()
    finished = embedded.settle("status", parked.key, "--json")

    assert (row["status"], row["escrow"], row["steps"]) == ("PROCESSING", 4820, {"hold"})
    assert row["review"] == f"ver_{parked.key}"
    assert row["gsi1sk"] == row["deadline_at"]
    assert (outcome["status"], outcome["escrow"], outcome["replayed"]) == ("PROCESSING", "48.20", True)
    assert parked.balances() == ("51.80", "0.00")
    assert parked.verdict() is None
    assert finished.returncode == 7, finished.stderr
    shown = json.loads(finished.stdout)["review"]
    assert shown == {"reference": f"ver_{parked.key}", "until": row["deadline_at"]}


@pytest.mark.parametrize("says", ENDS)
def test_the_end_of_a_review_is_the_end_of_the_payment(embedded: Embedded, says: str) -> None:
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
    assert "review" not in row
    assert "gsi1pk" not in row
    assert entry is not None
    assert (entry["decision"], entry["reference"]) == (says, f"ver_{one.key}")
    assert entry["reason"] == "a person has looked at it"
    finished = embedded.settle("status", one.key, "--json")
    assert json.loads(finished.stdout)["review"] is None
    assert table_scan.check(embedded.stack).conserved


def test_an_event_that_comes_again_changes_nothing(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))
    first = send(embedded, sent)
    one.over()
    before = embedded.rows()

    again = send(embedded, sent)
    same_by_another_name = send(embedded, replace(sent, event=f"{sent.event}-again"))

    assert first == again == same_by_another_name
    assert first[0] == 200
    assert embedded.rows() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decision": "REJECTED"}, "webhook-id: was used before by an event with other content"),
        ({"decision": "REJECTED", "event": "another"}, "decision: APPROVED is on record, for good"),
    ],
)
def test_what_is_on_record_is_not_decided_again(
    embedded: Embedded, change: dict[str, str], message: str
) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))
    assert send(embedded, sent)[0] == 200
    one.over()
    before = embedded.rows()

    event = sent.event + change.get("event", "")
    status, answer = send(embedded, replace(sent, body=decision(one, change["decision"]), event=event))

    assert (status, answer) == (409, {"error": "IdempotencyConflict", "message": message})
    assert embedded.rows() == before
    assert one.row()["status"] == "SETTLED"


def test_an_event_that_comes_32_times_at_once_has_one_effect(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    answers = at_once([partial(persistently, embedded, sent)] * TIMES)
    row = one.over()

    assert {status for status, _ in answers} == {200}
    assert (row["status"], row["owner"]) == ("SETTLED", f"{one.key}-decided")
    assert sorted(embedded.entries(one.key)) == sorted(
        f"{one.key}:{step}" for step in ("hold", "verify", "release", "fee")
    )
    assert one.balances() == ("51.80", "47.72")
    assert [row["pk"] for row in embedded.rows() if row["sk"] == "EVENT" and row["key"] == one.key] == [
        f"KYC_EVENT#{sent.event}"
    ]
    assert table_scan.check(embedded.stack).conserved


def test_of_two_opposite_decisions_at_once_one_stands(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = {says: call(embedded, decision(one, says)) for says in ENDS}

    answers = at_once([partial(persistently, embedded, each) for each in sent.values()])
    row = one.over()

    statuses = dict(zip(sent, (status for status, _ in answers), strict=True))
    assert sorted(statuses.values()) == [200, 409]
    assert statuses[row["verdict"]] == 200
    assert (row["status"], *one.balances()) == ENDS[row["verdict"]][:3]
    assert table_scan.check(embedded.stack).conserved


def run_out(embedded: Embedded, one: Payment) -> None:
    """Let the time for the review be over, as the clock would."""
    embedded.dynamodb.update_item(
        TableName=embedded.stack.outputs["TableName"],
        Key={"pk": {"S": f"SETTLEMENT#{one.key}"}, "sk": {"S": "SETTLEMENT"}},
        UpdateExpression="SET deadline_at = :past, gsi1sk = :past",
        ExpressionAttributeValues={":past": {"S": "2026-01-01T00:00:00.000Z"}},
    )


def test_a_review_that_runs_out_gives_the_money_back(embedded: Embedded) -> None:
    one = in_review(embedded)
    run_out(embedded, one)
    too_late = send(embedded, call(embedded, decision(one)))

    embedded.invoke("RecoverStalled", {})
    row = one.over()
    much_too_late = send(embedded, call(embedded, decision(one)))

    assert (too_late[0], too_late[1]["error"]) == (409, "DeadlineExceeded")
    assert (row["status"], row["escrow"], row["owner_epoch"]) == ("COMPENSATED", 0, 1)
    assert row["failure"]["error"] == "DeadlineExceeded"
    assert row["failure"]["cause"] == "recover: the review has not ended in time"
    assert one.verdict() is None
    assert one.balances() == ("100.00", "0.00")
    assert (much_too_late[0], much_too_late[1]["error"]) == (409, "StepFenced")
    assert table_scan.check(embedded.stack).conserved


def test_what_has_run_out_is_found_by_the_clock_alone(embedded: Embedded) -> None:
    one = in_review(embedded)
    run_out(embedded, one)

    embedded.schedule(enabled=True)
    try:
        row = one.over()
    finally:
        embedded.schedule(enabled=False)

    assert (row["status"], row["failure"]["error"]) == ("COMPENSATED", "DeadlineExceeded")
    assert one.balances() == ("100.00", "0.00")


def test_recovery_leaves_alone_what_has_time_left(embedded: Embedded, parked: Payment) -> None:
    before = parked.row()

    embedded.invoke("RecoverStalled", {})

    assert parked.row() == before


def test_a_decision_whose_machine_cannot_be_started_works_when_it_comes_again(embedded: Embedded) -> None:
    """What it tells is on record by then; when it comes again, the payment goes on."""
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    with embedded.without_grants("KycDecided", "states:StartExecution"):
        status, answer = send(embedded, sent)
        row, entry = one.row(), one.verdict()
    again, _ = send(embedded, sent)

    assert (status, answer["error"]) == (503, "StartUnavailable")
    assert (row["status"], row["verdict"], row["escrow"]) == ("PROCESSING", "APPROVED", 4820)
    assert entry is not None
    assert again == 200
    assert one.over()["status"] == "SETTLED"


def test_a_payment_that_a_person_has_given_up_is_not_settled_by_the_end_of_its_review(
    embedded: Embedded,
) -> None:
    one = in_review(embedded)

    reversed_ = embedded.settle("reverse", one.key, "--reason", "the caller has given it up", "--json")
    before = embedded.rows()
    status, answer = send(embedded, call(embedded, decision(one)))

    assert reversed_.returncode == 0, reversed_.stderr
    assert (one.row()["status"], *one.balances()) == ("COMPENSATED", "100.00", "0.00")
    assert (status, answer["error"]) == (409, "StepFenced")
    assert embedded.rows() == before


def test_a_decision_and_a_reversal_at_once_leave_the_money_in_one_place(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    (status, _), _ = at_once(
        [
            partial(persistently, embedded, sent),
            partial(embedded.settle, "reverse", one.key, "--reason", "the caller has given it up"),
        ]
    )
    row = one.over()

    ends = {"SETTLED": ("51.80", "47.72"), "COMPENSATED": ("100.00", "0.00")}
    assert status in (200, 409)
    assert one.balances() == ends[row["status"]]
    assert row["escrow"] == 0
    assert status == 200 or row["status"] == "COMPENSATED"
    assert table_scan.check(embedded.stack).conserved
