"""LIMBO, end to end: on call is alerted, the account places no holds, and each decision leads out of it."""

import json
from typing import Any

import pytest

from settle.actions import resolution, reversal
from settle.local.demo.stuck_reversal import pager
from settle.queries import limbo, statement, table_scan
from settlement.ledger import keys
from settlement.model.orders import Decision
from tests.e2e.embedded import Embedded, at_once
from tests.e2e.stuck import REASON, Stuck, pay, settled, stuck


def conserved(embedded: Embedded) -> bool:
    findings = table_scan.check(embedded.stack)
    assert findings.faults == []
    return findings.conserved


def resolve(embedded: Embedded, key: str, decision: str, reason: str = REASON) -> tuple[int, str, str]:
    """Decide as a person does; return exit code, output and message."""
    finished = embedded.settle("limbo", "resolve", key, decision, "--reason", reason, "--json")
    return finished.returncode, finished.stdout, finished.stderr


def test_the_alert_says_all_that_a_person_must_know(embedded: Embedded) -> None:
    one = settled(embedded)

    with pager(embedded.stack) as receive:
        reversal.reverse(embedded.stack, one.key, "the goods came back")
        alert = receive(one.key)

    row = one.row()
    assert alert.pop("execution_arn").rpartition(":")[2].startswith(f"{one.key}-reverse-")
    assert alert == {
        "summary": (
            f"{one.key} is in LIMBO since {row['gsi1sk']}: 47.72 EUR at risk,"
            f" compensate:release of account {one.payee} is stuck by InsufficientFunds"
        ),
        "key": one.key,
        "case": 1,
        "account": one.payee,
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "failure": {
            "step": "compensate:release",
            "error": "InsufficientFunds",
            "cause": "payee: the account has too little available to give back what it received",
        },
        "since": row["gsi1sk"],
        "alert": 1,
        "runbook": "docs/runbooks/limbo.md",
        "next_command": f"settle limbo show {one.key}",
    }


def test_a_person_who_does_not_decide_is_alerted_again(embedded: Embedded) -> None:
    one = settled(embedded)

    with pager(embedded.stack) as receive:
        reversal.reverse(embedded.stack, one.key, "the goods came back")
        first = receive(one.key)
        again = receive(one.key)

    assert (first["alert"], again["alert"]) == (1, 2)
    assert first | {"alert": 2} == again


def test_those_who_were_paged_hear_of_the_decision(embedded: Embedded) -> None:
    one = stuck(embedded)

    with pager(embedded.stack) as receive:
        code, _, _ = resolve(embedded, one.key, "write-off")
        news = receive("out of LIMBO")

    assert code == 0
    assert (news["key"], news["decision"], news["reason"]) == (one.key, "write-off", REASON)
    assert news["by"] == "arn:aws:iam::000000000000:root"


def test_a_blocked_account_places_no_holds_but_may_be_paid(embedded: Embedded) -> None:
    one = stuck(embedded)

    paying = pay(embedded, one.payee, one.shop, "1.00")
    paid = pay(embedded, one.shop, one.payee, "1.00")

    assert (paying["status"], paying["failure"]["error"]) == ("REJECTED", "AccountInLimbo")
    assert paid["status"] == "SETTLED"
    assert statement.show(embedded.stack, one.payee)["limbo_keys"] == [one.key]
    assert one.key in {case["key"] for case in limbo.open_cases(embedded.stack)[0]}
    assert conserved(embedded)


@pytest.mark.parametrize(
    ("decision", "status", "balances", "losses"),
    [
        ("retry", "COMPENSATED", ("100.00", "0.59"), 0),
        ("write-off", "COMPENSATED", ("100.00", "7.72"), 4772),
        ("complete", "SETTLED", ("51.80", "7.72"), 0),
    ],
)
def test_each_decision_leads_out_with_the_money_where_it_says(
    embedded: Embedded, decision: str, status: str, balances: tuple[str, str], losses: int
) -> None:
    one = stuck(embedded)
    if decision == "retry":
        one.pay_back()
    before = table_scan.check(embedded.stack).totals["EUR"]["losses"]

    code, output, message = resolve(embedded, one.key, decision)

    assert (code, message) == (0, "")
    assert json.loads(output)["status"] == status
    assert one.balances() == balances
    assert before - table_scan.check(embedded.stack).totals["EUR"]["losses"] == losses
    assert conserved(embedded)
    assert statement.show(embedded.stack, one.payee)["limbo_keys"] == []
    row = one.row()
    assert (row["escrow"], row["resolutions"]) == (0, 1)
    assert not {"waiting", "stuck_step", "gsi1pk"} & row.keys()
    entry = embedded.stack.store.read(keys.entry(one.key, "resolve:1"))
    assert entry is not None
    assert (entry["decision"], entry["reason"]) == (decision, REASON)


def test_a_retry_whose_cause_is_still_there_is_stuck_again(embedded: Embedded) -> None:
    one = stuck(embedded)

    first, _, _ = resolve(embedded, one.key, "retry")
    embedded.wait_for(lambda: "waiting" in one.row())
    repeated, _, message = resolve(embedded, one.key, "retry")
    second, _, _ = resolve(embedded, one.key, "write-off")

    assert (first, repeated, second) == (5, 5, 0)
    assert "that was carried out as case 1, and it is stuck again as case 2" in message
    assert one.balances() == ("100.00", "7.72")
    steps = {entry.rpartition(f"{one.key}:")[2] for entry in embedded.entries(one.key)}
    assert {"limbo:1", "resolve:1", "limbo:2", "resolve:2"} <= steps
    assert conserved(embedded)


def test_a_decision_may_be_repeated_but_not_replaced_by_another(embedded: Embedded) -> None:
    one = stuck(embedded)
    first = resolve(embedded, one.key, "write-off")
    before = embedded.rows()

    again = resolve(embedded, one.key, "write-off")
    other, output, message = resolve(embedded, one.key, "complete")
    for_another_reason, _, _ = resolve(embedded, one.key, "write-off", "another reason")

    assert again == first
    assert (other, output, for_another_reason) == (6, "", 6)
    assert "was resolved by write-off at" in message
    assert len(message.splitlines()) == 1
    assert embedded.rows() == before


def test_of_two_decisions_at_once_one_is_carried_out_and_the_other_is_told(embedded: Embedded) -> None:
    one = stuck(embedded)

    results = at_once(
        [lambda d=decision: resolve(embedded, one.key, d) for decision in ("write-off", "complete")]
    )

    assert sorted(code for code, _, _ in results) == [0, 6]
    assert one.row()["resolutions"] == 1
    assert conserved(embedded)


def test_a_decision_is_carried_out_if_no_execution_waits_for_it_any_more(embedded: Embedded) -> None:
    one = stuck(embedded)
    embedded.step_functions.stop_execution(executionArn=one.row()["waiting"]["execution"])

    code, output, _ = resolve(embedded, one.key, "write-off")

    assert (code, json.loads(output)["status"]) == (0, "COMPENSATED")
    assert one.balances() == ("100.00", "7.72")
    assert conserved(embedded)


def test_a_decision_that_was_interrupted_is_driven_to_its_end_and_announced(embedded: Embedded) -> None:
    """Committed by the function, while the execution that waited for it is gone and announces nothing."""
    one = stuck(embedded)
    embedded.step_functions.stop_execution(executionArn=one.row()["waiting"]["execution"])
    who = "arn:aws:iam::000000000000:root"
    decision = {"decision": "write-off", "reason": REASON, "by": who}
    embedded.invoke("ResolveLimbo", wire(one), resolution=decision, case=1)
    assert one.row()["status"] == "COMPENSATING"

    with pager(embedded.stack) as receive:
        code, output, _ = resolve(embedded, one.key, "write-off")
        news = receive("out of LIMBO")

    assert (code, json.loads(output)["status"]) == (0, "COMPENSATED")
    assert (news["key"], news["decision"]) == (one.key, "write-off")
    assert one.balances() == ("100.00", "7.72")
    assert conserved(embedded)


def test_a_decision_on_a_case_that_is_not_open_is_refused(embedded: Embedded) -> None:
    one = stuck(embedded)
    before = embedded.rows()

    finished = embedded.settle("limbo", "resolve", one.key, "write-off", "--case", "2", "--reason", REASON)

    assert (finished.returncode, finished.stdout) == (6, "")
    assert finished.stderr == f"settle: {one.key}: is LIMBO, and has no case 2\n"
    assert embedded.rows() == before


def test_a_decision_that_makes_no_sense_is_refused_on_the_next_alert(embedded: Embedded) -> None:
    one = stuck(embedded)
    waiting = one.row()["waiting"]

    with pager(embedded.stack) as receive:
        embedded.step_functions.send_task_success(
            taskToken=waiting["token"], output=json.dumps({"decision": "forget it", "reason": "x", "by": "y"})
        )
        alert = receive(one.key)

    assert alert["refused"] == "resolution.decision: must be one of retry, write-off, complete"
    assert one.row()["status"] == "LIMBO"
    embedded.wait_for(lambda: one.row().get("waiting") not in (None, waiting))
    assert resolve(embedded, one.key, "write-off")[0] == 0


def test_an_account_leaves_limbo_with_the_last_of_its_settlements(embedded: Embedded) -> None:
    one = settled(embedded)
    second = pay(embedded, one.shop, one.payee, "30.00")["key"]
    assert pay(embedded, one.payee, one.shop, "37.00")["status"] == "SETTLED"
    for key in (one.key, second):
        assert reversal.reverse(embedded.stack, key, "both came back")["status"] == "LIMBO"
    assert statement.show(embedded.stack, one.payee)["limbo_keys"] == sorted((one.key, second))

    resolution.resolve(embedded.stack, one.key, Decision.WRITE_OFF, REASON)
    between = pay(embedded, one.payee, one.shop, "0.10")
    resolution.resolve(embedded.stack, second, Decision.WRITE_OFF, REASON)
    after = pay(embedded, one.payee, one.shop, "0.10")

    assert (between["status"], between["failure"]["error"]) == ("REJECTED", "AccountInLimbo")
    assert after["status"] == "SETTLED"
    assert conserved(embedded)


def test_a_completed_settlement_is_not_reversed_again(embedded: Embedded) -> None:
    one = stuck(embedded)
    assert resolve(embedded, one.key, "complete")[0] == 0
    before = embedded.rows()

    finished = embedded.settle("reverse", one.key, "--reason", "after all")

    assert (finished.returncode, finished.stdout) == (6, "")
    assert "it was completed out of LIMBO" in finished.stderr
    assert embedded.rows() == before


def test_a_zombie_of_each_step_finds_that_it_is_too_late(embedded: Embedded) -> None:
    """The functions themselves, called again by a stray caller while the settlement is in LIMBO."""
    one = stuck(embedded)
    settlement, failed = wire(one), {"Error": "x", "Cause": ""}
    before = embedded.rows()

    answers: dict[str, Any] = {
        state: embedded.invoke(state, settlement, claimed_at=one.row()["claimed_at"], error=failed)
        for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee", "RejectSettlement")
    }

    assert answers.pop("RejectSettlement")["errorType"] == "StepFenced"
    assert all("errorType" not in answer for answer in answers.values()), "each has its entry, and replays it"
    assert embedded.rows() == before


def wire(one: Stuck) -> dict[str, str]:
    return {
        **{"key": one.key, "payer": one.payer, "payee": one.payee},
        **{"amount": "48.20", "currency": "EUR", "fee": "0.48"},
    }
