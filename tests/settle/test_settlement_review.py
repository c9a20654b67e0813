"""What the operator is told of a settlement that is in review, was approved, or was rejected."""

import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from settle.exit_codes import Exit
from settle.queries import settlement, table_scan
from settlement.ledger.kyc_review import WebhookEvent
from settlement.model.errors import KycRejected
from settlement.model.state import SettlementState
from settlement.model.verdict import Verdict, parse_verdict
from settlement.policy import steps
from tests.conftest import NOW
from tests.settle.conftest import Ended
from tests.settle.desk import KEY, Desk
from tests.settle.test_settlement import notes, steps_of
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

# What the steps write is tested on both engines; here it is how that is told.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Command = Callable[..., Ended]
HOSTILE = "\x1b[2J\x1b]0;owned\x07 [bold]ok[/bold]\r\nsettle: all is well\x9b31m\u202egnorw\u2028\x00\x7f end"
WORDS = ("[2J", "]0;owned", "[bold]ok[/bold]", "settle: all is well", "31m", "gnorw", "end")
"""What is left of it, and does no harm."""


def verify(desk: Desk, verdict: Verdict) -> dict[str, str]:
    """Let Alice pay Bob until the provider has said `verdict`; return the settlement as it is on the wire."""
    desk.provider.answer = verdict
    return desk.pay(until="verify")


def in_review(desk: Desk) -> None:
    verify(desk, IN_REVIEW)


def rejected(desk: Desk) -> None:
    with pytest.raises(KycRejected):
        verify(desk, REJECTED)


def decide(desk: Desk, verdict: Verdict) -> None:
    """What the provider's webhook does, once its signature has been checked."""
    in_review(desk)
    settlement = SettlementState.from_row(desk.row()).settlement
    later, event = NOW + timedelta(hours=1), WebhookEvent("evt_1", "a-digest")
    desk.ledger.store.transact(
        steps.record_webhook_verdict(settlement, verdict, event, f"{KEY}-decided", later, desk.stack.config)
    )


def approved_by_webhook(desk: Desk) -> None:
    decide(desk, replace(APPROVED, provider="webhook"))


def rejected_by_webhook(desk: Desk) -> None:
    decide(desk, replace(REJECTED, provider="webhook"))


def settled_after_review(desk: Desk) -> None:
    approved_by_webhook(desk)
    desk.pay()


def given_back(desk: Desk) -> None:
    rejected(desk)
    desk.compensate(wire_of(desk))


def ran_out(desk: Desk) -> None:
    in_review(desk)
    desk.compensate(wire_of(desk), error={"Error": "DeadlineExceeded", "Cause": "recover: the review"})


def wire_of(desk: Desk) -> dict[str, str]:
    return SettlementState.from_row(desk.row()).settlement.to_wire(desk.stack.config)


def test_a_settlement_in_review_is_told_with_whose_review_and_until_when(desk: Desk) -> None:
    in_review(desk)

    described = settlement.describe(desk.stack, KEY)

    assert described["review"] == {"reference": "ver_1", "until": desk.row()["deadline_at"]}
    assert described["review"]["until"].startswith("2026-11-21T12:00:")
    assert (described["status"], described["escrow"], described["steps"]) == ("PROCESSING", "48.20", ["hold"])
    assert list(notes(desk)) == ["hold"]


def test_a_settlement_in_review_is_not_safe_to_pay_again_under_a_new_key(desk: Desk) -> None:
    in_review(desk)

    retry = settlement.describe(desk.stack, KEY)["retry"]

    assert retry["new_key"] == "NOT safe: it may still go through: the escrow has 48.20 EUR"
    assert steps_of(retry["evidence"]) == ["hold"]


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda desk: desk.pay(until="hold"), "PROCESSING"),
        (lambda desk: desk.pay(), "SETTLED"),
        (approved_by_webhook, "PROCESSING"),
        (rejected_by_webhook, "PROCESSING"),
        (settled_after_review, "SETTLED"),
        (rejected, "PROCESSING"),
        (given_back, "COMPENSATED"),
        (ran_out, "COMPENSATED"),
    ],
)
def test_what_is_not_in_review_or_no_longer_is_told_so(
    desk: Desk, make: Callable[[Desk], object], status: str
) -> None:
    make(desk)

    described = settlement.describe(desk.stack, KEY)

    assert (described["status"], described["review"]) == (status, None)


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (
            lambda desk: desk.pay(),
            "decision: APPROVED; reason: nothing is known; reference: ver_1; provider: verifications",
        ),
        (
            rejected,
            "decision: REJECTED; reason: a listed party; reference: ver_1; provider: verifications",
        ),
        (
            settled_after_review,
            "decision: APPROVED; reason: nothing is known; reference: ver_1; provider: webhook",
        ),
        (
            rejected_by_webhook,
            "decision: REJECTED; reason: a listed party; reference: ver_1; provider: webhook",
        ),
    ],
)
def test_the_verdict_s_note_names_decision_reason_reference_and_who_gave_it(
    desk: Desk, make: Callable[[Desk], object], note: str
) -> None:
    make(desk)

    assert notes(desk)["verify"] == note


def test_a_rejection_is_told_before_the_reversal_that_it_led_to(desk: Desk) -> None:
    given_back(desk)

    described = settlement.describe(desk.stack, KEY)

    told = [line["step"] for line in described["entries"]]
    assert told == ["hold", "verify", "compensate:fee", "compensate:release", "compensate:hold"]
    assert described["steps"] == ["hold"]
    assert described["failure"]["error"] == "KycRejected"
    assert described["retry"]["new_key"] == "safe: the payer is refunded in full"
    assert desk.available("alice", "bob") == ["500.00", "0.00"]


STATUS: list[tuple[Callable[[Desk], object], Exit]] = [
    (in_review, Exit.IN_FLIGHT),
    (rejected, Exit.IN_FLIGHT),
    (settled_after_review, Exit.FINE),
    (given_back, Exit.REFUSED),
    (ran_out, Exit.REFUSED),
]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(("make", "code"), STATUS)
def test_the_status_command_ends_with_the_code_of_how_it_stands(
    desk: Desk,
    command: Command,
    make: Callable[[Desk], object],
    code: Exit,
    options: tuple[str, ...],
) -> None:
    make(desk)

    ended, out, err = command("status", KEY, *options)

    assert (ended, err) == (code, "")
    assert not options or json.loads(out)["key"] == KEY


def test_a_person_reads_whose_review_it_is_and_until_when(desk: Desk, command: Command) -> None:
    in_review(desk)

    _, out, _ = command("status", KEY)

    (line,) = (line for line in out.splitlines() if line.startswith("review"))
    assert "ver_1" in line
    assert desk.row()["deadline_at"] in line


@pytest.mark.parametrize("make", [row[0] for row in STATUS])
def test_the_books_are_right_in_and_after_a_review(
    desk: Desk, command: Command, make: Callable[[Desk], object]
) -> None:
    """An event's marker and the circuit's row are in the table too, and hold no money."""
    make(desk)
    desk.ledger.put({"pk": "CIRCUIT", "sk": "kyc", "state": "OPEN", "failure_count": 5, "opened_at": 1})

    findings = table_scan.check(desk.stack)

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert command("reconcile")[0] == Exit.FINE


def from_provider(desk: Desk, said: dict[str, Any]) -> None:
    verdict = parse_verdict(said, "verifications")
    if verdict.decision == "REJECTED":
        with pytest.raises(KycRejected):
            verify(desk, verdict)
        desk.compensate(wire_of(desk))
    else:
        verify(desk, verdict)


def from_webhook(desk: Desk, said: dict[str, Any]) -> None:
    decide(desk, parse_verdict(said | {"reference": IN_REVIEW.reference}, "webhook"))


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
@pytest.mark.parametrize("come", [from_provider, from_webhook])
def test_control_characters_of_a_hostile_reason_do_not_reach_the_terminal(
    desk: Desk,
    command: Command,
    come: Callable[[Desk, dict[str, Any]], None],
    decision: str,
    options: tuple[str, ...],
) -> None:
    come(desk, {"decision": decision, "reference": "ver_1", "reason": HOSTILE})

    _, out, err = command("status", KEY, *options)

    text = "".join(line["note"] for line in json.loads(out)["entries"]) if options else out + err
    harmful = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert harmful <= {"\n"}
    squeezed = "".join(text.split())
    assert [word for word in WORDS if "".join(word.split()) not in squeezed] == []
