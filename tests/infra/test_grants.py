"""The grants of each function follow from the writes of its step, and none may update an entry."""

import inspect
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module

import pytest

from infra.functions import LAMBDAS
from infra.grants import GRANTS, KEYS, TRIGGERED
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.adapters.kyc_circuit import CIRCUIT
from settlement.ledger import forward, keys
from tests.infra.stack import FUNCTIONS, only
from tests.infra.writes import ALL, PARKING, UPDATES, WRITES, assigned, named
from tests.unit.vectors import CONFIG, EXECUTION, SETTLEMENT
from tests.world.environment import NOW

ACTIONS = {"Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem"}
IMMUTABLE = set(IMMUTABLE_ATTRIBUTES)
HELPERS = {path.stem for path in (LAMBDAS / "handlers").glob("_[a-z]*.py")}
"""The modules that handlers share."""

NAMED = replace(SETTLEMENT, deadline_seconds=60, payer_name="Alice Muster", payee_name="Bob Muster")
PUT = [write.parameters["Item"] for write in ALL if write.action == "Put"]
OF_ENTRIES = {name for row in PUT if "posted_at" in row for name in row} - {"pk", "sk"}
TOUCHED = {name for update in UPDATES for name in named(update)}
"""The attributes that entries have, and those that updates name in a change or in a condition."""


def reads(function: str) -> bool:
    """Return whether a handler, or a helper that it imports, reads a row, by their source."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", function).lower()
    source = inspect.getsource(import_module(f"handlers.{module}"))
    helpers = sorted(set(re.findall(r"\b(_[a-z_]+)\.", source)) & HELPERS)
    sources = [source, *(inspect.getsource(import_module(f"handlers.{helper}")) for helper in helpers)]
    return any(re.search(r"\bstore\.(settlement|account|entry|read)\(", one) for one in sources)


def test_every_function_has_its_grants_and_its_writes_here() -> None:
    assert WRITES.keys() == FUNCTIONS.keys()
    assert not GRANTS.keys() & TRIGGERED.keys()
    assert {name for name, writes in WRITES.items() if not writes} == {"ReportOutcome", "PrepareAlert"}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_grants_are_the_actions_of_the_step(function: str) -> None:
    """None deletes, scans or batches: no step does."""
    sent = {ACTIONS[write.action] for write in WRITES[function]}

    assert set(FUNCTIONS[function]) == sent | ({"dynamodb:GetItem"} if reads(function) else set())


def test_the_input_of_strangers_reaches_no_balance() -> None:
    """A mistake in the code that reads it, then, is no way to an account."""
    assert KEYS.keys() == {"ClaimKey", *TRIGGERED, "VerifyKyc"}
    for function, patterns in KEYS.items():
        assert not [each for each in patterns if fnmatchcase(keys.account("alice")["pk"], each)], function


@pytest.mark.parametrize("function", KEYS)
def test_the_partition_keys_of_a_function_are_those_of_its_writes(function: str) -> None:
    """DynamoDB refuses the whole transaction for one key that is not among them."""
    sent = [write.parameters for write in WRITES[function]]
    used = {(one.get("Key") or one["Item"])["pk"] for one in sent}
    if function == "VerifyKyc":
        used.add(keys.circuit(CIRCUIT)["pk"])

    assert {key for key in used if not any(fnmatchcase(key, each) for each in KEYS[function])} == set()
    assert {each for each in KEYS[function] if not any(fnmatchcase(key, each) for key in used)} == set()


def test_no_role_may_change_an_attribute_of_an_entry_but_those_that_updates_of_other_rows_need() -> None:
    """IAM cannot tell rows apart, so an update may name attributes that conditions or the index need."""
    assert {"account", "by", "cause", "decision", "error", "reason", "reference"} <= OF_ENTRIES
    assert {"credit", "debit", "posted_at", "side", "step"} <= IMMUTABLE
    assert {"currency", "request_hash", "gsi1pk", "gsi1sk"} == OF_ENTRIES - IMMUTABLE
    assert OF_ENTRIES - IMMUTABLE <= TOUCHED


def test_no_role_may_change_an_agreed_payment_or_when_it_was_claimed() -> None:
    """A reversal moves the row's amounts: changed in between, it would refund another amount."""
    claimed = forward.claim(NAMED, EXECUTION, NOW, CONFIG).parameters["Item"]
    agreed = {"payer", "payee", "payer_name", "payee_name", "amount", "fee", "deadline_seconds", "claimed_at"}

    assert agreed <= claimed.keys()
    assert agreed <= IMMUTABLE


def test_no_role_may_change_a_webhooks_marker() -> None:
    """Otherwise the event could come again with other content."""
    (marker, *_) = [row for row in PUT if row["sk"] == "EVENT"]

    assert {"digest", "received_at"} <= marker.keys() & IMMUTABLE


def test_no_step_needs_an_update_that_is_denied() -> None:
    """IAM counts the attributes of conditions, too. A denied step would stall every settlement."""
    assert {"escrow", "steps", "available", "request_hash", "status"} <= TOUCHED
    assert {"reversed", "resolutions", "resolution", "waiting", "limbo_keys", "failure"} <= TOUCHED
    assert set() == TOUCHED & IMMUTABLE


def test_no_update_changes_an_attribute_of_the_index_or_one_that_conditions_rely_on() -> None:
    (index,) = only("prod", "DynamoDB::Table")["GlobalSecondaryIndexes"]
    fixed = {"currency", "request_hash", "pk", "sk", *index["Projection"]["NonKeyAttributes"]}

    assert UPDATES
    assert {name for update in UPDATES for name in assigned(update)} & fixed == set()


@pytest.mark.parametrize("function", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "RefundFee", "ReclaimFunds"])
def test_a_step_that_finishes_nothing_leaves_the_index_alone(function: str) -> None:
    """It is written when a settlement is claimed, in review, finished, in LIMBO or resolved."""
    updates = [one for one in WRITES[function] if one.action == "Update" and one is not PARKING]

    assert updates
    assert {name for update in updates for name in assigned(update)} & {"gsi1pk", "gsi1sk"} == set()
