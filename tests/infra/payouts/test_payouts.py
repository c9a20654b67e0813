import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from moto.events.models import EventPattern

from infra import bank
from infra.grants import MONEY_ATTRIBUTES
from infra.payouts import CHANGES, OPTIONAL
from infra.table import DESTINATION, IMMUTABLE_ATTRIBUTES, IMMUTABLE_OF_PAYOUTS
from infra.table import PAYOUT as PAYOUT_ROWS
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.payouts import lines, moves, payout, policy, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import Status
from tests.infra.payouts.stage import ON, PAYOUTS
from tests.infra.stack import changed, each_stage_on_aws, granted_in
from tests.infra.writes import named
from tests.unit.payouts.rows import LIMITS, LINE, NOTES, PAYABLE, PAYOUT, STATES
from tests.unit.payouts.vectors import DEBIT
from tests.world.environment import NOW
from tests.world.stream import record


def resources(stage: str = "prod") -> dict[str, Any]:
    return changed(stage, **ON)


def properties(name: str, stage: str = "prod") -> Any:
    return resources(stage)[name]["Properties"]


def variables(function: str) -> Any:
    return properties(function)["Environment"]["Variables"]


def moved() -> list[Write]:
    found: list[Write] = []
    for step, rule in moves.RULES.items():
        for status in rule.money:
            before = STATES[status]
            after = moves.after(before, step, NOW, **NOTES.get(step, {}))
            found += writes.move(before, after, step, NOW)
    before = STATES[Status.CONFIRMED]
    after = moves.after(before, Move.RETURN, NOW, trouble="closed", in_suspense=1)
    returned = STATES[Status.RETURNED]
    noted = moves.counted(returned, NOW, debit_line=LINE)
    return [
        *found,
        *writes.move(before, after, Move.RETURN, NOW, to_suspense=True),
        *writes.note_line(returned, noted, DEBIT, NOW),
    ]


def hinted() -> list[Write]:
    before = STATES[Status.ACCEPTED]
    return [*writes.note(before, moves.brought_forward(before, NOW - 10 * policy.HINTED), "hint")]


WRITES = {
    "ReservePayout": [*writes.reserve(PAYOUT, PAYABLE, LIMITS, NOW)],
    "ServePayouts": [*writes.reserve(PAYOUT, PAYABLE, LIMITS, NOW)],
    "FollowPayouts": [*moved(), lines.booked(LINE), lines.refused(LINE, "2026-11-29", "another amount")],
    "BankEvents": hinted(),
}


def attributes(write: Write) -> set[str]:
    return set(write.parameters["Item"]) if write.action == "Put" else named(write)


@pytest.mark.parametrize("function", OPTIONAL)
def test_each_write_of_a_payouts_function_is_granted(function: str) -> None:
    for write in WRITES[function]:
        row = write.parameters.get("Item") or write.parameters["Key"]
        assert any(fnmatchcase(row["pk"], one) for one in OPTIONAL[function].rows[write.action]), row["pk"]


@pytest.mark.parametrize("function", OPTIONAL)
def test_each_granted_row_kind_is_written_by_its_payouts_function(function: str) -> None:
    """Only transactions are compared, because the circuit writes its own row outside them."""
    rows = OPTIONAL[function].rows
    keys = {
        (one.action, (one.parameters.get("Item") or one.parameters["Key"])["pk"]) for one in WRITES[function]
    }

    for action in ("Put", "Update"):
        for pattern in rows.get(action, ()):
            assert any(found == action and fnmatchcase(key, pattern) for found, key in keys), pattern


@pytest.mark.parametrize("function", OPTIONAL)
def test_a_payouts_function_has_exactly_the_money_attributes_it_writes(function: str) -> None:
    found = {name for write in WRITES[function] for name in attributes(write)}

    assert {*OPTIONAL[function].names} == found & {*MONEY_ATTRIBUTES}


@pytest.mark.parametrize("function", OPTIONAL)
def test_no_payouts_write_names_an_attribute_that_is_denied(function: str) -> None:
    denied = {"dynamodb:PutItem": set[str](), "dynamodb:UpdateItem": set[str]()}
    for one in granted_in(resources(), f"{function}Role"):
        if one.effect == "Deny":
            names = json.loads(one.condition)["ForAnyValue:StringEquals"]["dynamodb:Attributes"]
            denied[one.action] |= {*names}

    for write in WRITES[function]:
        assert not attributes(write) & denied[f"dynamodb:{write.action}Item"]
    changes = {*OPTIONAL[function].rows["Update"]} & {PAYOUT_ROWS, DESTINATION}
    assert (denied["dynamodb:UpdateItem"] >= {*IMMUTABLE_OF_PAYOUTS}) == bool(changes)


def test_a_banks_event_may_change_only_the_next_look() -> None:
    """Strangers can call BankEvents."""
    (denied,) = {
        one.condition
        for one in granted_in(resources(), "BankEventsRole")
        if (one.effect, one.action) == ("Deny", "dynamodb:PutItem")
    }
    names = {*json.loads(denied)["ForAnyValue:StringEquals"]["dynamodb:Attributes"], *IMMUTABLE_OF_PAYOUTS}
    stored = {name for state in STATES.values() for name in state.to_row()}

    assert stored - names - {*IMMUTABLE_ATTRIBUTES} == {"pk", "sk", "gsi1sk", "sequence"}
    assert {*payout._OWN} - {*IMMUTABLE_OF_PAYOUTS, "sequence"} <= names


@each_stage_on_aws
def test_each_secret_of_the_bank_has_one_reader(stage: str) -> None:
    readers = {
        (secret, function)
        for function in (*OPTIONAL, "TakeOrder", "ReadStatements", "VerifyKyc", "KycDecided")
        for one in granted_in(resources(stage), f"{function}Role")
        for secret in ("PayoutsCredentials", "PayoutsSigning")
        if one.action == "secretsmanager:GetSecretValue" and secret in one.resource
    }

    assert readers == {("PayoutsCredentials", "FollowPayouts"), ("PayoutsSigning", "BankEvents")}
    assert variables("BankEvents")["BANK_SIGNING_SECRET"] == "${PayoutsSigning.Id}"
    assert "PAYOUTS" not in variables("BankEvents")


def test_only_follow_payouts_gets_the_banks_settings_and_secret() -> None:
    told = json.loads(variables("FollowPayouts")["PAYOUTS"])
    limits = {"payout": {"EUR": 500_000}, "day": {"EUR": 2_000_000}, "rest_seconds": 86_400}

    assert told.pop("limits") == limits
    assert told["bank"]["url"] == PAYOUTS.url
    assert told["bank"].keys() == {
        *("url", "name", "window_seconds", "refusals", "connect_timeout_seconds", "read_timeout_seconds"),
    }
    assert told["breaker"].keys() == {"failures", "within_seconds", "recovery_seconds"}
    assert told["secret_id"] == "${PayoutsCredentials.Id}"
    for function in ("ReservePayout", "ServePayouts", "TakeOrder"):
        assert json.loads(variables(function)["PAYOUTS"]) == {"limits": limits}


def test_functions_that_check_row_signatures_have_all_row_keys() -> None:
    """Functions sign with the last key in ROW_KEYS."""
    in_turn = changed("dev", **ON, row_keys=3, signing_key=2)
    for function in ("ReservePayout", "ServePayouts", "FollowPayouts", "TakeOrder"):
        keys = in_turn[function]["Properties"]["Environment"]["Variables"]["ROW_KEYS"].split()
        assert [one.partition(":")[0] for one in keys] == ["1", "3", "2"]
    assert "ROW_KEYS" not in in_turn["BankEvents"]["Properties"]["Environment"]["Variables"]


@each_stage_on_aws
def test_the_schedule_calls_the_follower_each_minute_without_retries(stage: str) -> None:
    schedule, invocations = (properties(name, stage) for name in ("PayoutsEachMinute", "FollowPayouts"))

    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert (schedule["Target"]["Arn"], schedule["Target"]["Input"]) == ("${FollowPayouts.Arn}", "{}")
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert invocations["Timeout"] == 55


def calls(role: str) -> set[tuple[str, str]]:
    found = granted_in(resources(), role)
    return {(one.action, one.resource) for one in found if one.action.startswith(("lambda:", "states:"))}


def test_payouts_functions_call_only_the_follower_and_start_no_machine() -> None:
    assert calls("ServePayoutsRole") == {("lambda:InvokeFunction", "${FollowPayouts.Arn}")}
    assert variables("ServePayouts")["FOLLOW_PAYOUTS"] == "${FollowPayouts.Arn}"
    for function in ("ReservePayout", "FollowPayouts", "BankEvents"):
        assert calls(f"{function}Role") == set()


def test_take_order_is_allowed_to_call_follow_payouts() -> None:
    assert variables("TakeOrder")["FOLLOW_PAYOUTS"] == "${FollowPayouts.Arn}"
    assert ("lambda:InvokeFunction", "${FollowPayouts.Arn}") in calls("TakeOrderRole")


def test_read_statements_may_write_payout_lines_only_with_payouts() -> None:
    reading = changed("prod", statements_every_minutes=60)

    assert "PAYOUT_LINE#*" in str(granted_in(resources(), "ReadStatementsRole"))
    assert "PAYOUT" not in str(granted_in(reading, "ReadStatementsRole"))
    assert "PAYOUTS" not in str(reading["TakeOrder"])
    assert not reading.keys() & {*OPTIONAL, "PayOut", "SettlementsPayer"}
    assert "PAYOUT_LINE#*" not in str(bank.OPTIONAL)


def test_payers_pay_and_follow_payouts_and_readers_only_read_them() -> None:
    def paths(policy: str) -> set[str]:
        (statement,) = properties(policy)["PolicyDocument"]["Statement"]
        return {one.partition("/*/")[2] for one in statement["Resource"]}

    assert paths("SettlementsPayer") == {"POST/payouts", "GET/payouts/*"}
    assert {one for one in paths("SettlementsReader") if "payouts" in one} == {"GET/payouts/*"}
    for kind in ("Viewer", "Operator", "Approver", "BreakGlass"):
        text = str(properties(f"People{kind}"))
        assert ("GET/payouts/*" in text, "POST/payouts" in text) == (True, False)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (keys.payout("payout-2026-000101"), True),
        (keys.payout_reference(PAYOUT.reference), False),
        (keys.payout_day("alice", "2026-11-29"), False),
        (keys.payout_line(LINE), False),
        (keys.payout_approved("payout-2026-000101", 1, LINE), False),
    ],
)
def test_only_a_payouts_own_row_becomes_an_event(row: Row, wanted: bool) -> None:
    found = record(None, {name: {"S": text} for name, text in row.items()}, at=0)

    assert EventPattern(None, CHANGES).matches_event(found) is wanted  # type: ignore[arg-type]


def test_the_stream_filter_passes_changes_of_payouts() -> None:
    (mapping,) = (
        one["Properties"]
        for name, one in resources().items()
        if one["Type"] == "AWS::Lambda::EventSourceMapping" and name.startswith("Outcomes")
    )

    assert json.loads(mapping["FilterCriteria"]["Filters"][-1]["Pattern"]) == CHANGES
    assert len(mapping["FilterCriteria"]["Filters"]) <= 5, "Lambda's quota"
