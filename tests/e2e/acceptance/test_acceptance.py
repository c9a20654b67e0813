import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from settle.acceptance.checks import BOOKS, CHECKS
from settle.acceptance.runner import prove
from settle.acceptance.verdict import Verdict
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, embedded_aws, new_account
from tests.e2e.people import of_policies

pytestmark = pytest.mark.long

NOT_APPLICABLE = {
    "aborted",
    "alarms",
    "canary",
    "definitions",
    "denials",
    "interval",
    "metrics",
    "same_start",
    "states",
}

BY_A_ROLE = {"express", "queue", "services", "webhook", "reversal", "proof", "capacity"}
"""Acceptance checks to run in a role with the printed policies, one per kind of call.

For `events`, `limbo` and `triggers` the embedded AWS needs more rights.
"""


@pytest.fixture(scope="module")
def own() -> Iterator[Embedded]:
    """A separate embedded AWS with recovery's schedules, because these tests break it."""
    with embedded_aws() as own:
        own.up()
        yield own


def test_a_healthy_stage_passes_and_the_report_names_unproven_checks(own: Embedded, tmp_path: Path) -> None:
    page = tmp_path / "acceptance.md"
    report = own.told("acceptance", "--load", "2", "-o", str(page))

    verdicts = {one["check"]: one["verdict"] for one in report["results"]}
    assert verdicts == {
        **{check.name: "not applicable" if check.name in NOT_APPLICABLE else "proven" for check in CHECKS},
        "load": "proven",
        BOOKS: "proven",
    }
    assert (report["passed"], report["left"]) == (True, [])
    text = page.read_text()
    assert text.startswith("# Acceptance of settlement-local: passed\n")
    assert [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")][
        1 : len(verdicts) + 1
    ] == [f"| {name}" for name in verdicts]
    accounts = [row for row in own.rows() if row["pk"].startswith(f"ACCOUNT#acceptance-{report['run']}")]
    assert accounts
    assert {row["available"] for row in accounts} == {0}
    assert all("closed_at" in row for row in accounts)
    (figures,) = report["load"]
    assert (figures["rate"], figures["ends"], figures["settled_in_the_end"]) == (2, {"SETTLED": 20}, 20)
    assert 50 < figures["writes_sent"] <= 100  # the embedded AWS loses lines of a busy function's log
    assert figures["conflict_share"] == 0
    assert 0 < figures["p50_seconds"] <= figures["p99_seconds"] <= figures["max_seconds"]
    assert "| rate | reached |" in text


def test_the_printed_policies_suffice_to_run_each_check(own: Embedded) -> None:
    checks = [check for check in CHECKS if check.name in BY_A_ROLE]
    with of_policies(own, "ViewerPolicyArn", "AcceptancePolicyArn", name="acceptance") as role:
        report = prove(replace(own.stack, session=role.session), checks, print)

    assert {one.check: one.evidence for one in report.results if one.verdict is not Verdict.PROVEN} == {}
    assert [one.check for one in report.results] == [*(check.name for check in checks), BOOKS]
    assert report.left == []


def test_a_failing_webhook_fails_its_check_and_leaves_nothing_behind(own: Embedded) -> None:
    with own.without_grants("KycDecided", "dynamodb:GetItem"):
        report = own.told("acceptance", "--only", "webhook", "--only", "review", code=1)

    verdicts = {one["check"]: one["verdict"] for one in report["results"]}
    assert verdicts == {"webhook": "refuted", "review": "refuted", BOOKS: "proven"}
    assert report["left"] == []
    assert own.settlement(f"acceptance-{report['run']}-review-0")["status"] == "COMPENSATED"


def test_a_circuit_that_never_opens_fails_the_circuit_check(own: Embedded) -> None:
    told = own.variable("VerifyKyc", "KYC")
    kyc = json.loads(told)
    kyc["breaker"]["failures"] = 1_000
    own.renew("VerifyKyc", KYC=json.dumps(kyc))
    try:
        report = own.told("acceptance", "--only", "circuit", code=1)
    finally:
        own.renew("VerifyKyc", KYC=told)

    verdicts = {one["check"]: one["verdict"] for one in report["results"]}
    assert verdicts == {"circuit": "refuted", BOOKS: "proven"}
    assert "the circuit is CLOSED after" in report["results"][0]["evidence"]


def test_a_broken_event_publisher_fails_only_the_events_check(own: Embedded) -> None:
    bus = own.variable("PublishEvents", "OUTCOME_BUS")
    own.renew("PublishEvents", OUTCOME_BUS="no-such-bus")
    try:
        report = own.told("acceptance", "--only", "express", "--only", "events", code=1)
    finally:
        own.renew("PublishEvents", OUTCOME_BUS=bus)

    verdicts = {one["check"]: one["verdict"] for one in report["results"]}
    assert verdicts == {"express": "proven", "events": "refuted", BOOKS: "proven"}
    assert report["passed"] is False


def test_the_books_check_fails_after_a_row_was_tampered_with(own: Embedded) -> None:
    account = new_account(own, "planted", "10.00")
    own.dynamodb.update_item(
        TableName=own.stack.outputs["TableName"],
        Key={name: {"S": value} for name, value in keys.account(account).items()},
        UpdateExpression="SET available = available + :more",
        ExpressionAttributeValues={":more": {"N": "1"}},
    )
    report = own.told("acceptance", "--only", "conflict", code=1)

    assert [(one["check"], one["verdict"]) for one in report["results"]] == [
        ("conflict", "proven"),
        (BOOKS, "refuted"),
    ]
    assert account in json.dumps(report["results"][-1])
