"""A failed settlement is reversed once, on both machines, by any caller, wherever an execution dies."""

import json
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError

from settle.actions import reversal
from settle.actions.start import start
from settle.machines import Machine
from settle.queries import table_scan
from settlement.ledger import keys
from tests.e2e.embedded import Embedded, at_once, new_account, new_key
from tests.e2e.stuck import pay, settled

CAP = "1000000.00"


def status_of(embedded: Embedded, key: str) -> str:
    status: str = embedded.settlement(key)["status"]
    return status


@pytest.mark.parametrize(("machine", "told"), [("express", "COMPENSATING"), ("standard", "COMPENSATED")])
def test_a_refused_release_gives_the_payer_everything_back(
    embedded: Embedded, machine: str, told: str
) -> None:
    """Express cannot wait for the end and says so; Standard tells the end."""
    payer, rich = new_account(embedded, "alice", "100.00"), new_account(embedded, "rich", CAP)

    outcome = pay(embedded, payer, rich, "48.20", Machine(machine))

    assert (outcome["status"], outcome["replayed"]) == (told, False)
    cause = "payee: the account would hold more than this stage allows in EUR"
    assert outcome["failure"] == {"step": "release", "error": "CapExceeded", "cause": cause}
    embedded.wait_for(lambda: status_of(embedded, outcome["key"]) == "COMPENSATED")
    row = embedded.settlement(outcome["key"])
    assert (row["escrow"], row["steps"], row["reversed"]) == (0, {"hold", "verify"}, {"hold"})
    assert row["failure"] == outcome["failure"]
    assert "gsi1pk" not in row
    assert embedded.entries(outcome["key"]) == [
        f"{outcome['key']}:{step}"
        for step in ("compensate:fee", "compensate:hold", "compensate:release", "hold", "verify")
    ]
    assert embedded.available(payer) == "100.00"
    assert table_scan.check(embedded.stack).conserved


def test_the_same_key_afterwards_tells_that_it_was_compensated(embedded: Embedded) -> None:
    request = {
        "key": new_key("again"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": "never-opened",
        "amount": "48.20",
        "currency": "EUR",
    }
    first = start(embedded.stack, Machine.STANDARD, json.dumps(request))
    assert first.outcome is not None

    again = start(embedded.stack, Machine.EXPRESS, json.dumps(request))

    assert again.outcome == first.outcome | {"replayed": True}
    assert again.outcome["status"] == "COMPENSATED"


def test_a_settled_payment_is_refunded_with_its_fee(embedded: Embedded) -> None:
    payer, payee = new_account(embedded, "gina", "100.00"), new_account(embedded, "hugo")
    key = pay(embedded, payer, payee, "48.20")["key"]

    finished = embedded.settle("reverse", key, "--reason", "the goods came back", "--json")

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["reversed"] == ["fee", "hold", "release"]
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
    entry = embedded.stack.store.read(keys.entry(key, "reverse"))
    assert entry is not None
    assert (entry["reason"], entry["by"]) == ("the goods came back", "arn:aws:iam::000000000000:root")
    again = embedded.settle("reverse", key, "--reason", "asked a second time", "--json")
    assert (again.returncode, again.stdout) == (0, finished.stdout)


def compensate(embedded: Embedded, key: str, settlement: dict[str, str], name: str) -> str:
    """Start the compensating machine as a person or a schedule may; return the execution's ARN."""
    started = embedded.step_functions.start_execution(
        stateMachineArn=embedded.stack.outputs["CompensationArn"],
        name=f"{key}-{name}",
        input=json.dumps({"settlement": settlement, "reversal": {"reason": "a test", "by": "a test"}}),
    )
    arn: str = started["executionArn"]
    return arn


def ended(embedded: Embedded, arn: str) -> dict[str, Any]:
    embedded.wait_for(lambda: described(embedded, arn)["status"] != "RUNNING")
    return described(embedded, arn)


def described(embedded: Embedded, arn: str) -> dict[str, Any]:
    found: dict[str, Any] = embedded.step_functions.describe_execution(executionArn=arn)
    return found


def a_settled_one(embedded: Embedded) -> tuple[str, dict[str, str], str, str]:
    payer, payee = new_account(embedded, "gina", "100.00"), new_account(embedded, "hugo")
    outcome = pay(embedded, payer, payee, "48.20")
    names = ("key", "payer", "payee", "amount", "currency", "fee")
    return outcome["key"], {name: outcome[name] for name in names}, payer, payee


def test_compensations_started_at_once_reverse_each_step_once(embedded: Embedded) -> None:
    key, settlement, payer, payee = a_settled_one(embedded)

    arns = at_once([lambda n=n: compensate(embedded, key, settlement, str(n)) for n in range(4)])

    outcomes = [ended(embedded, arn) for arn in arns]
    assert {one["status"] for one in outcomes} == {"SUCCEEDED"}
    assert {json.loads(one["output"])["status"] for one in outcomes} == {"COMPENSATED"}
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
    assert len(embedded.entries(key)) == len(set(embedded.entries(key))) == 4 + 3 + 1
    assert table_scan.check(embedded.stack).conserved


@pytest.mark.parametrize("state", ["BeginCompensation", "RefundFee", "ReclaimFunds", "VoidHold"])
def test_a_compensation_that_is_killed_is_finished_by_the_next_one(embedded: Embedded, state: str) -> None:
    """Killed in this state or soon after, with the state's own function still at work, or done."""
    key, settlement, payer, payee = a_settled_one(embedded)
    arn = compensate(embedded, key, settlement, "killed")
    embedded.wait_for(lambda: has_entered(embedded, arn, state))
    with suppress(ClientError):  # it may have ended by itself by now
        embedded.step_functions.stop_execution(executionArn=arn)

    again = ended(embedded, compensate(embedded, key, settlement, "again"))

    assert (again["status"], status_of(embedded, key)) == ("SUCCEEDED", "COMPENSATED")
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
    assert len(embedded.entries(key)) == 4 + 3 + 1
    assert table_scan.check(embedded.stack).conserved


def has_entered(embedded: Embedded, arn: str, state: str) -> bool:
    events = embedded.step_functions.get_execution_history(executionArn=arn)["events"]
    return any(event.get("stateEnteredEventDetails", {}).get("name") == state for event in events)


def test_a_name_that_is_taken_means_that_an_execution_runs(embedded: Embedded) -> None:
    payer, key = new_account(embedded, "alice", "100.00"), new_key("taken")
    request = {"key": key, "payer": payer, "payee": "never-opened", "amount": "48.20", "currency": "EUR"}
    embedded.step_functions.start_execution(
        stateMachineArn=embedded.stack.outputs["CompensationArn"],
        name=f"{key}-compensate-0",
        input=json.dumps({"settlement": "is none, so that it fails"}),
    )

    started = start(embedded.stack, Machine.EXPRESS, json.dumps(request))

    assert started.outcome is not None, started
    assert (started.outcome["status"], started.outcome["escrow"]) == ("COMPENSATING", "48.20")
    assert started.outcome["failure"]["error"] == "AccountNotFound", "and not that the name is taken"
    reversal.reverse(embedded.stack, key, "as the one that had the name did not do it")
    assert embedded.available(payer) == "100.00"


def test_an_unclaimed_key_is_finished_before_a_late_claim(embedded: Embedded) -> None:
    payer, payee = new_account(embedded, "alice", "100.00"), new_account(embedded, "bob")
    request = {
        "key": new_key("tombstone"),
        **{"payer": payer, "payee": payee, "amount": "48.20", "currency": "EUR", "fee": "0.48"},
    }
    compensation = embedded.step_functions.start_execution(
        stateMachineArn=embedded.stack.outputs["CompensationArn"],
        input=json.dumps({"settlement": request, "error": {"Error": "States.Timeout", "Cause": ""}}),
    )
    outcome = json.loads(ended(embedded, compensation["executionArn"])["output"])

    late = start(embedded.stack, Machine.EXPRESS, json.dumps(request))

    assert outcome["status"] == "REJECTED"
    assert late.outcome == outcome | {"replayed": True}
    assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")


@pytest.mark.parametrize(
    "order",
    [
        {"settlement": {"key": "x"}},
        {},
        [],
        {"settlement": None, "resolution": {"decision": "retry"}},
    ],
)
def test_what_is_no_settlement_is_refused_and_writes_nothing(embedded: Embedded, order: Any) -> None:
    before = embedded.rows()

    started = embedded.step_functions.start_execution(
        stateMachineArn=embedded.stack.outputs["CompensationArn"], input=json.dumps(order)
    )
    failed = ended(embedded, started["executionArn"])

    assert (failed["status"], failed["error"]) == ("FAILED", "InvalidRequest")
    assert embedded.rows() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("reverse", "no-request-has-this-key", "--reason", "x"), 3, "key: no request has claimed"),
        (("reverse", "{key}", "--reason", " "), 2, "reversal.reason: must be one line"),
        (("limbo", "show", "{key}"), 6, "is SETTLED, not in LIMBO"),
        (("limbo", "resolve", "{key}", "retry", "--reason", "x"), 6, "is SETTLED, not in LIMBO"),
        (("limbo", "resolve", "{key}", "retry", "--reason", ""), 2, "resolution.reason: must be one line"),
        (
            ("limbo", "resolve", "no-request-has-this-key", "retry", "--reason", "x"),
            3,
            "no request has claimed",
        ),
        (("limbo", "resolve", "{key}", "forget", "--reason", "x"), 2, "'forget' is not one of"),
        (("limbo", "resolve", "{key}", "retry"), 2, "--reason"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_and_writes_nothing(
    embedded: Embedded, arguments: tuple[str, ...], code: int, message: str
) -> None:
    one = settled(embedded)
    before = embedded.rows()

    finished = embedded.settle(*(argument.format(key=one.key) for argument in arguments))

    assert (finished.returncode, finished.stdout) == (code, "")
    assert message in finished.stderr
    assert embedded.rows() == before
