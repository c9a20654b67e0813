"""The grants of each function follow from the writes of its step, action by action and row by row."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module

import pytest

from infra.functions import LAMBDAS
from infra.grants import GRANTS, STARTING, TRIGGERED
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.adapters.dynamodb import Store
from settlement.adapters.kyc_circuit import CIRCUIT
from settlement.ledger import forward, keys
from settlement.ledger.keys import Row
from tests.infra.stack import FUNCTIONS
from tests.infra.writes import ALL, PARKING, SWEEP, UPDATES, WRITES, assigned, named
from tests.unit.vectors import CONFIG, EXECUTION, SETTLEMENT
from tests.world.environment import NOW

ACTIONS = {"Put": "PutItem", "Update": "UpdateItem"}
IMMUTABLE = set(IMMUTABLE_ATTRIBUTES)
HELPERS = {path.stem for path in (LAMBDAS / "handlers").glob("_[a-z]*.py")}
"""The modules that handlers share."""

ROWS: dict[str, Row] = {
    "account": keys.account("alice"),
    "settlement": keys.settlement("k"),
    "entry": keys.entry("alice", "then", "k", "hold"),
    "entry of fees": keys.entry("fees:EUR", "then", "k", "fee"),
    "evidence": keys.evidence("k", "verify"),
    "waiting": keys.waiting("k"),
    "event": keys.event("evt-1"),
    "circuit": keys.circuit(CIRCUIT),
    "merchant": keys.account("merchant.shop"),
    "entry of a merchant": keys.entry("merchant.shop", "then", "k", "release"),
    "swept": SWEEP[0].parameters["Item"],
}
"""A row of each kind."""

READERS = {
    "settlement": "settlement",
    "listed_settlement": "settlement",
    "account": "account",
    "evidence": "evidence",
    "waiting": "waiting",
}
"""The store's methods that read a row, and the kind of the row."""

OF_CIRCUIT = ("GetItem", "PutItem", "UpdateItem")
"""The actions of VerifyKyc's circuit, which is no write of a step: test_circuit.py holds them against it."""

NAMED = replace(SETTLEMENT, deadline_seconds=60, payer_name="Alice Muster", payee_name="Bob Muster")
PUT = [write.parameters["Item"] for write in ALL if write.action == "Put"]
OF_ENTRIES = {name for row in PUT if "posted_at" in row for name in row} - {"pk", "sk"}
TOUCHED = {name for update in UPDATES for name in named(update)}
"""The attributes that entries and evidence have, and those that updates name in a change or a condition."""


def read_by(function: str) -> Iterator[str]:
    """Yield the kinds of rows that a handler, or a helper that it imports, reads, by their source."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", function).lower()
    source = inspect.getsource(import_module(f"handlers.{module}"))
    helpers = sorted(set(re.findall(r"\b(_[a-z_]+)\.", source)) & HELPERS)
    for one in (source, *(inspect.getsource(import_module(f"handlers.{helper}")) for helper in helpers)):
        yield from (READERS[name] for name in re.findall(r"\bstore\.(\w+)\(", one) if name in READERS)
        yield from re.findall(r"\bstore\.read\(keys\.(\w+)\(", one)


def used_by(function: str) -> set[tuple[str, str]]:
    """Return each action of a function, with the partition key of a row."""
    used = {("GetItem", ROWS[kind]["pk"]) for kind in read_by(function)}
    for write in WRITES[function]:
        row = write.parameters.get("Key") or write.parameters["Item"]
        used.add((ACTIONS[write.action], row["pk"]))
    if SWEEP[0] in WRITES[function]:
        used |= {("GetItem", ROWS["swept"]["pk"]), ("Query", ROWS["entry of a merchant"]["pk"])}
    if function == "VerifyKyc":
        used |= {(action, keys.circuit(CIRCUIT)["pk"]) for action in OF_CIRCUIT}
    return used


def granted(function: str) -> set[tuple[str, str]]:
    """Return each action of a function, with each pattern of partition keys."""
    return {(action, pattern) for action, patterns in FUNCTIONS[function].items() for pattern in patterns}


def admits(grants: Mapping[str, tuple[str, ...]], action: str, row: Row) -> bool:
    return any(fnmatchcase(row["pk"], pattern) for pattern in grants.get(action, ()))


def allowed(action: str, *kinds: str) -> set[str]:
    """Return the functions that may take an action on a row of any of these kinds."""
    return {
        function
        for function, grants in FUNCTIONS.items()
        for kind in kinds
        if admits(grants, action, ROWS[kind])
    }


def test_every_function_has_its_grants_and_its_writes_here() -> None:
    assert WRITES.keys() == FUNCTIONS.keys()
    assert not GRANTS.keys() & TRIGGERED.keys()
    assert {name for name, writes in WRITES.items() if not writes} == {"ReportOutcome", "PrepareAlert"}


def test_every_method_of_the_store_that_reads_a_row_is_known_here() -> None:
    """A read that these tests overlook would be denied on AWS."""
    sources = {name: inspect.getsource(one) for name, one in inspect.getmembers(Store, inspect.isfunction)}
    reading = {
        name for name, source in sources.items() if re.search(r"self\.(read|listed_settlement)\(", source)
    }

    assert reading == READERS.keys()


def test_a_pattern_matches_rows_of_one_kind_only() -> None:
    patterns = {pattern for function in FUNCTIONS for _, pattern in granted(function)}
    kinds = {
        pattern: {row["pk"] for row in ROWS.values() if fnmatchcase(row["pk"], pattern)}
        for pattern in patterns
    }

    assert {pattern.partition("#")[0] for pattern in patterns} == {
        row["pk"].partition("#")[0] for row in ROWS.values()
    }
    for pattern, matched in kinds.items():
        assert {key.partition("#")[0] for key in matched} == {pattern.partition("#")[0]}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_grants_are_the_actions_of_the_step_on_its_rows(function: str) -> None:
    """None deletes, scans or batches: no step does. DynamoDB refuses a whole transaction for one row that is
    not granted; a row that no write needs is an open door.
    """
    used, open_to = used_by(function), granted(function)

    def matches(use: tuple[str, str], grant: tuple[str, str]) -> bool:
        return use[0] == grant[0] and fnmatchcase(use[1], grant[1])

    assert {use for use in used if not any(matches(use, grant) for grant in open_to)} == set()
    assert {grant for grant in open_to if not any(matches(use, grant) for use in used)} == set()


def test_the_input_of_strangers_moves_no_money() -> None:
    """A mistake in the code that reads it, then, is no way to an account or into the journal."""
    for function in ("VerifyKyc", *STARTING):
        for action in ("PutItem", "UpdateItem"):
            for kind in ("account", "entry", "entry of fees"):
                assert not admits(FUNCTIONS[function], action, ROWS[kind]), (function, action, kind)


def test_a_settlement_is_put_by_the_hold_and_the_queue_or_as_rejected() -> None:
    """Any other function that could put the row could put a settlement as it likes, with its escrow."""
    assert allowed("PutItem", "settlement") == {
        "HoldFunds",
        "StartSettlements",
        "RejectSettlement",
        "BeginCompensation",
    }


def test_no_role_puts_a_balance_or_updates_a_row_that_is_put_once() -> None:
    """A balance only moves, by its condition. Entries, evidence and markers stay as they were written; a row
    of who waits is replaced as a whole.
    """
    assert allowed("PutItem", "account") == set()
    assert allowed("UpdateItem", "entry", "entry of fees", "evidence", "waiting", "event") == set()


def test_money_is_moved_by_the_steps_that_move_it() -> None:
    moving = {
        "HoldFunds",
        "ReleaseFunds",
        "CollectFee",
        "RefundFee",
        "ReclaimFunds",
        "VoidHold",
        "ResolveLimbo",
    }

    assert allowed("PutItem", "entry") == allowed("PutItem", "entry of fees") == moving
    assert allowed("UpdateItem", "account") == moving - {"CollectFee", "RefundFee"} | {"EnterLimbo"}


def test_a_sweep_moves_the_balances_of_merchants_alone_and_writes_no_entry() -> None:
    granted_to = FUNCTIONS["SweepMerchants"]

    assert admits(granted_to, "UpdateItem", ROWS["merchant"])
    assert not admits(granted_to, "UpdateItem", ROWS["account"])
    assert not any(admits(granted_to, "PutItem", ROWS[kind]) for kind in ("entry", "entry of a merchant"))
    assert allowed("PutItem", "swept") == {"SweepMerchants", "ReclaimFunds"}


def test_only_recovery_reads_whose_token_resumes_a_machine() -> None:
    assert allowed("GetItem", "waiting") == {"RecoverStalled"}
    assert allowed("PutItem", "waiting") == {"AwaitResolution"}


def test_no_role_may_change_an_attribute_of_an_entry_but_those_that_updates_of_other_rows_need() -> None:
    """A second fence, should a grant of updates ever reach too far. It leaves out what conditions need."""
    assert {"account", "by", "cause", "decision", "error", "reason", "reference"} <= OF_ENTRIES
    assert {"credit", "debit", "posted_at", "side", "step"} <= IMMUTABLE
    assert {"currency", "request_hash"} == OF_ENTRIES - IMMUTABLE
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
    assert {"escrow", "available", "request_hash", "status"} <= TOUCHED
    assert {"resolutions", "resolution", "limbo_keys", "failure"} <= TOUCHED
    assert {"hold_at", "verify_at", "release_at", "fee_at"} <= TOUCHED
    assert {"fee_reversed_at", "release_reversed_at", "hold_reversed_at"} <= TOUCHED
    assert set() == TOUCHED & IMMUTABLE


def test_no_update_changes_an_attribute_that_conditions_rely_on() -> None:
    """IAM cannot deny these, as it counts the attributes of conditions, too."""
    fixed = {"currency", "request_hash", "pk", "sk"}

    assert UPDATES
    assert {name for update in UPDATES for name in assigned(update)} & fixed == set()
    assert fixed - {"sk"} <= TOUCHED


def test_no_attribute_of_a_row_that_is_replaced_is_immutable() -> None:
    """A later execution waits in the place of an earlier one. No role updates the row, so that the denial of
    updates would protect nothing there, and `key` and `case` would read as if they did.
    """
    (waiting,) = [row for row in PUT if row["sk"] == "WAITING"]

    assert not waiting.keys() & IMMUTABLE


@pytest.mark.parametrize("function", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "RefundFee", "ReclaimFunds"])
def test_a_step_that_finishes_nothing_leaves_the_index_alone(function: str) -> None:
    """It is written when a settlement is claimed, in review, finished, in LIMBO or resolved."""
    updates = [one for one in WRITES[function] if one.action == "Update" and one is not PARKING]

    assert updates
    assert {name for update in updates for name in assigned(update)} & {"gsi1pk", "gsi1sk"} == set()
