"""The permissions of each function's role: the writes of its step, and never an update of an entry."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from infra.config import STAGES
from infra.table import IMMUTABLE_ATTRIBUTES, INDEX
from settlement.adapters.kyc_circuit import CIRCUIT
from settlement.ledger import conditions, forward
from settlement.ledger import keys as ledger_keys
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.conftest import NOW
from tests.infra.iam import Statement, attribute, statements
from tests.infra.machines import executions
from tests.infra.sent import all_writes, assigned, is_entry, names_in, parking, reads, writes
from tests.infra.test_functions import FUNCTIONS, properties
from tests.support import templates

ACTIONS = {"Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem"}
KEY_ATTRIBUTES = {"pk", "sk"}
LISTS = {"RecoverStalled"}
"""The functions that may query the index."""

FOLLOWS = {"RecoverStalled"}
"""The functions that may read the status of the compensating machine's executions."""

ROWS = {
    "ClaimKey": ("SETTLEMENT#*",),
    "VerifyKyc": ("SETTLEMENT#*", "CIRCUIT"),
    "KycDecided": ("SETTLEMENT#*", "KYC_EVENT#*"),
    "RecoverStalled": ("SETTLEMENT#*",),
    "StartSettlements": ("SETTLEMENT#*",),
}
"""The only partition keys of these functions."""

CALLS = {
    "VerifyKyc": {"secretsmanager", "events"},
    "KycDecided": {"secretsmanager", "states"},
    "RecoverStalled": {"states"},
    "StartSettlements": {"states", "sqs"},
}
"""The services that a function calls besides those of every function."""

each_role = pytest.mark.parametrize(
    ("stage", "state"), [(stage, state) for stage in STAGES for state in FUNCTIONS]
)

each_updating_role = pytest.mark.parametrize(
    ("stage", "state"),
    [(stage, state) for stage in STAGES for state in FUNCTIONS if "dynamodb:UpdateItem" in FUNCTIONS[state]],
)


def granted(stage: str, state: str) -> list[Statement]:
    return statements(attribute(properties(stage, state)["Role"]), stage)


def about(service: str, found: list[Statement], effect: str = "Allow") -> list[Statement]:
    return [
        one
        for one in found
        if one.effect == effect and any(action.split(":")[0] in (service, "*") for action in one.actions)
    ]


@each_role
def test_a_role_may_take_its_granted_actions_on_the_table_and_no_others(stage: str, state: str) -> None:
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    allowed = about("dynamodb", granted(stage, state))
    listing = {(f"${{{table}.Arn}}/index/{INDEX}",): {"dynamodb:Query"}} if state in LISTS else {}

    assert len(allowed) == 1 + len(listing)
    assert {one.resources: one.actions for one in allowed} == {(table,): set(FUNCTIONS[state])} | listing


@each_role
def test_the_input_of_strangers_reaches_rows_of_settlements_only(stage: str, state: str) -> None:
    """A mistake in the code that reads it, then, is no way to an account's balance."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)
    (allowed,) = (one for one in about("dynamodb", granted(stage, state)) if one.resources == (table,))

    bound = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(ROWS.get(state, ()))}}
    assert allowed.conditions == (bound if state in ROWS else {})
    assert not [each for each in ROWS.get(state, ()) if fnmatchcase(ledger_keys.account("alice")["pk"], each)]


@pytest.mark.parametrize("state", ROWS)
def test_the_partition_keys_of_a_function_cover_the_writes_of_its_step(
    settlement: Settlement, config: StageConfig, state: str
) -> None:
    """DynamoDB refuses the whole transaction for one key that is not among them."""
    sent = [write.parameters for write in writes(settlement, config)[state]]
    keys = {(one.get("Key") or one["Item"])["pk"] for one in sent}
    if state == "VerifyKyc":
        keys.add(ledger_keys.circuit(CIRCUIT)["pk"])

    assert keys
    assert {key for key in keys if not any(fnmatchcase(key, each) for each in ROWS[state])} == set()
    assert {each for each in ROWS[state] if not any(fnmatchcase(key, each) for key in keys)} == set()


@pytest.mark.parametrize("state", FUNCTIONS)
def test_the_grants_are_the_actions_of_the_steps(
    settlement: Settlement, config: StageConfig, state: str
) -> None:
    sent = {ACTIONS[write.action] for write in writes(settlement, config)[state]}

    assert set(FUNCTIONS[state]) == sent | ({"dynamodb:GetItem"} if reads(state) else set())


def test_every_state_sends_or_reads_something(settlement: Settlement, config: StageConfig) -> None:
    assert writes(settlement, config).keys() == FUNCTIONS.keys()
    assert {state for state, of_state in writes(settlement, config).items() if not of_state} == {
        "ReportOutcome",
        "PrepareAlert",
    }


@each_role
def test_no_role_may_delete_scan_or_batch_and_only_one_may_query(stage: str, state: str) -> None:
    allowed = {action for one in about("dynamodb", granted(stage, state)) for action in one.actions}

    listing = {"dynamodb:Query"} if state in LISTS else set()
    assert allowed - listing <= {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}


@each_role
def test_a_role_reaches_only_the_table_its_key_logs_traces_and_the_services_it_calls(
    stage: str, state: str
) -> None:
    services = {action.split(":")[0] for one in granted(stage, state) for action in one.actions}

    assert services == {"dynamodb", "kms", "logs", "xray"} | CALLS.get(state, set())


@each_role
def test_only_traces_are_granted_without_a_resource(stage: str, state: str) -> None:
    """X-Ray has no resources to name, and executions have no names before they start."""
    patterns = {one.actions: one.resources for one in granted(stage, state) if "*" in str(one.resources)}

    expected = {frozenset({"xray:PutTelemetryRecords", "xray:PutTraceSegments"}): ("*",)}
    if state in FOLLOWS:
        expected[frozenset({"states:DescribeExecution"})] = (executions(stage, "Compensation"),)
    assert patterns == expected


@each_role
def test_a_role_writes_to_its_own_log_group_only(stage: str, state: str) -> None:
    (allowed,) = about("logs", granted(stage, state))

    assert allowed.actions == {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert allowed.resources == (properties(stage, state)["LoggingConfig"]["LogGroup"]["Ref"],)


@each_role
def test_the_key_is_used_through_dynamodb_only(stage: str, state: str) -> None:
    (allowed,) = about("kms", granted(stage, state))

    assert allowed.resources == (table_key(stage),)
    assert allowed.actions <= {
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey*",
        "kms:ReEncrypt*",
    }
    region = {"Fn::Join": ["", ["dynamodb.", {"Ref": "AWS::Region"}, ".amazonaws.com"]]}
    assert allowed.conditions == {"StringEquals": {"kms:ViaService": region}}


@each_updating_role
def test_a_role_that_may_update_rows_may_not_update_an_entry(stage: str, state: str) -> None:
    """The Deny covers every row: it protects the attributes that a settlement shares with entries, too."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    (denied,) = about("dynamodb", granted(stage, state), "Deny")

    assert denied.actions == {"dynamodb:UpdateItem"}
    assert denied.resources == (table,)
    assert {"credit", "debit", "posted_at", "side", "step"} <= denied_attributes(denied)
    assert denied_attributes(denied) == set(IMMUTABLE_ATTRIBUTES)


def test_no_role_may_change_any_attribute_of_an_entry(settlement: Settlement, config: StageConfig) -> None:
    """Append-only, but for attributes that a step's own update needs on other rows."""
    entries = [write.parameters["Item"] for write in all_writes(settlement, config) if is_entry(write)]
    of_entries = {name for entry in entries for name in entry} - KEY_ATTRIBUTES

    assert {"account", "by", "cause", "decision", "error", "reason", "reference"} <= of_entries
    assert of_entries - touched(settlement, config) - set(IMMUTABLE_ATTRIBUTES) == set()


def test_no_role_may_change_who_pays_whom_and_how_much(settlement: Settlement, config: StageConfig) -> None:
    """A reversal moves the row's amounts: changed in between, it would refund another amount."""
    named = replace(settlement, deadline_seconds=60, payer_name="Alice Muster", payee_name="Bob Muster")
    claimed = forward.claim(named, "owner", NOW, config).parameters["Item"]
    agreed = {"payer", "payee", "payer_name", "payee_name", "amount", "fee", "deadline_seconds"}

    assert agreed <= claimed.keys()
    assert agreed <= set(IMMUTABLE_ATTRIBUTES)


def test_no_role_may_change_when_a_settlement_was_claimed(
    settlement: Settlement, config: StageConfig
) -> None:
    """The age of a stalled settlement counts from there."""
    claimed = forward.claim(settlement, "owner", NOW, config).parameters["Item"]

    assert "claimed_at" in claimed
    assert "claimed_at" in IMMUTABLE_ATTRIBUTES
    assert "claimed_at" not in touched(settlement, config)


def test_no_role_may_change_a_webhooks_marker(settlement: Settlement, config: StageConfig) -> None:
    """Otherwise the event could come again with other content."""
    markers = [
        one.parameters["Item"]
        for one in writes(settlement, config)["KycDecided"]
        if one.parameters.get("Item", {}).get("sk") == "EVENT"
    ]

    assert {name for marker in markers for name in marker} >= {"digest", "received_at"}
    assert {"digest", "received_at"} <= set(IMMUTABLE_ATTRIBUTES)


def test_no_step_needs_an_update_that_is_denied(settlement: Settlement, config: StageConfig) -> None:
    """IAM counts the attributes of conditions, too. A denied step would stall every settlement."""
    found = touched(settlement, config)

    assert {"escrow", "steps", "available", "request_hash", "status"} <= found
    assert {"reversed", "resolutions", "resolution", "waiting", "limbo_keys", "failure"} <= found
    assert found & set(IMMUTABLE_ATTRIBUTES) == set()


def test_an_entry_shares_as_few_attributes_as_possible_with_other_rows(
    settlement: Settlement, config: StageConfig
) -> None:
    """IAM cannot tell rows apart, so an update may name attributes that conditions or the index need."""
    entries = [write.parameters["Item"] for write in all_writes(settlement, config) if is_entry(write)]
    of_entries = {name for entry in entries for name in entry} - KEY_ATTRIBUTES

    assert of_entries - set(IMMUTABLE_ATTRIBUTES) == {"currency", "request_hash", "gsi1pk", "gsi1sk"}


def test_no_update_changes_an_attribute_that_conditions_rely_on(
    settlement: Settlement, config: StageConfig
) -> None:
    updates = [write for write in all_writes(settlement, config) if write.action == "Update"]

    assert updates
    for update in updates:
        assert not assigned(update) & {"currency", "request_hash", *KEY_ATTRIBUTES}


def test_a_deadline_is_moved_by_the_beginning_and_the_end_of_a_review_only(
    settlement: Settlement, config: StageConfig
) -> None:
    """And only while there is time left: an overdue settlement stays overdue."""
    moving = {
        state: [one for one in of_state if one.action == "Update" and "deadline_at" in assigned(one)]
        for state, of_state in writes(settlement, config).items()
    }

    assert {state for state, updates in moving.items() if updates} == {"VerifyKyc", "KycDecided"}
    assert [one.parameters for one in moving["VerifyKyc"]] == [parking(settlement).parameters]
    needed = (conditions.before_deadline(NOW), conditions.NO_VERDICT, conditions.NOT_EXPIRED)
    for update in moving["VerifyKyc"] + moving["KycDecided"]:
        found = update.parameters["ConditionExpression"].split(" AND ")
        assert {one.expression for one in needed} <= set(found)


def table_key(stage: str) -> str:
    (table,) = templates.resources("AWS::DynamoDB::Table", stage).values()
    return attribute(table["Properties"]["SSESpecification"]["KMSMasterKeyId"])


def touched(settlement: Settlement, config: StageConfig) -> set[str]:
    """Return the attributes that the updates of all states name."""
    sent = all_writes(settlement, config)
    return {name for write in sent if write.action == "Update" for name in names_in(write)}


def denied_attributes(denied: Statement) -> set[str]:
    assert denied.conditions.keys() == {"ForAnyValue:StringEquals"}
    attributes: Any = denied.conditions["ForAnyValue:StringEquals"]["dynamodb:Attributes"]
    return set(attributes)
