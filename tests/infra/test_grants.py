from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product

import pytest

from infra.grants import MONEY_ATTRIBUTES
from infra.rooms import HANDLERS
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.core.ledger import forward, keys
from settlement.core.ledger.conditions import ABSENT
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.saga import REVERSIBLE, Step
from settlement.core.model.settlement import OPTIONAL
from settlement.kyc.circuit import CIRCUIT
from settlement.retention.expiry import STEPS
from tests.infra.stack import FUNCTIONS, OF_PAYS_OUT
from tests.infra.writes import ALL, PARKING, UPDATES, WRITES, assigned, named, names_in
from tests.unit.vectors import CONFIG, EXECUTION, SETTLEMENT
from tests.world.environment import NOW
from tests.world.rooms import is_there, there

IMMUTABLE = set(IMMUTABLE_ATTRIBUTES)
ROWS: dict[str, Row] = {
    "account": keys.account("alice"),
    "settlement": keys.settlement("k"),
    "entry": keys.entry("alice", "then", "k", "hold"),
    "entry of fees": keys.entry("fees:EUR", "then", "k", "fee"),
    "evidence": keys.evidence("k", "verify"),
    "waiting": keys.waiting("k"),
    "proposal": keys.proposal("k"),
    "event": keys.event("evt-1"),
    "circuit": keys.circuit(CIRCUIT.name),
    "merchant": keys.account("merchant.shop"),
    "entry of a merchant": keys.entry("merchant.shop", "then", "k", "release"),
    "order": keys.order("k"),
    "bank's line": keys.bank_line("0" * 64),
    "line of an order": keys.banked("k"),
    "order of lines": keys.bank_proposed("k"),
}
if is_there("payouts"):
    ROWS |= {
        "payout": keys.payout("k"),
        "destination": keys.destination("landlord"),
        "decision about a payout": keys.payout_approved("k", 1, "5c" * 32),
    }
ROWS |= {"pay run": keys.payrun("k"), "decision about a pay run": keys.payrun_proposed("k")}
if is_there("merchants"):
    ROWS["swept"] = keys.swept("ENTRIES#merchant.shop#3", "2026-11-22T06:04")

STRANGERS = (
    *("VerifyKyc", "KycDecided", "RecoverStalled"),
    *there("doors", "StartSettlements", "AcceptSettlements", "CancelSettlement"),
)
"""Functions with input from outside the account."""

NAMED = replace(
    SETTLEMENT,
    deadline_seconds=60,
    payer_name="Alice Muster",
    payee_name="Bob Muster",
    reference="invoice 1",
    metadata={"cart": "c-1"},
)
PUT = [write.parameters["Item"] for write in ALL if write.action == "Put"]
OF_ENTRIES = {
    name
    for row in PUT
    if "posted_at" in row
    and not row["pk"].startswith(("PAYOUT_CASE#", "PAYRUN_DECISION#"))  # no function may update such a row
    for name in row
} - {"pk", "sk"}
TOUCHED = {name for update in UPDATES for name in named(update)}
"""Attributes of entries and evidence, and attributes that updates change or test."""


def granted(function: str) -> set[tuple[str, str]]:
    return {(action, pattern) for action, patterns in FUNCTIONS[function].items() for pattern in patterns}


def admits(grants: Mapping[str, tuple[str, ...]], action: str, row: Row) -> bool:
    """Return whether an action on a row is granted, alone or in a transaction."""
    rows = (*grants.get(action, ()), *grants.get(action.removesuffix("Item"), ()))
    return any(fnmatchcase(row["pk"], pattern) for pattern in rows)


def test_this_table_covers_every_functions_grants_and_writes() -> None:
    assert WRITES.keys() == FUNCTIONS.keys()
    assert {name for name, writes in WRITES.items() if not writes} == {
        *("ReportOutcome", "PrepareAlert", "ResolveLimbo", "ReadSettlements"),
        *("SealJournal", "SendPage", "PublishEvents", "ReconcileBooks"),
    }


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


def test_money_is_written_only_in_transactions() -> None:
    """A lone balance or entry write would create or destroy money."""
    for function, grants in FUNCTIONS.items():
        for action, kind in product(
            ("PutItem", "UpdateItem"), ("account", "merchant", "entry", *there("merchants", "swept"))
        ):
            alone = {action: grants.get(action, ())}
            assert not any(fnmatchcase(ROWS[kind]["pk"], one) for one in alone[action]), (function, kind)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function_may_name_exactly_the_money_attributes_it_writes(
    function: str,
) -> None:
    found: set[str] = set()
    for write in WRITES[function]:
        row = write.parameters.get("Item", {})
        aliases = write.parameters.get("ExpressionAttributeNames", {})
        texts = [write.parameters.get(name, "") for name in ("UpdateExpression", "ConditionExpression")]
        found |= row.keys() | names_in(" ".join(texts), aliases)

    assert set(HANDLERS[function].names) == found & set(MONEY_ATTRIBUTES)


def test_only_functions_with_expiring_entries_may_put_an_expiry() -> None:
    found = {
        function
        for function, writes in WRITES.items()
        if any(write.parameters.get("Item", {}).get("step") in STEPS for write in writes)
    }

    assert {name for name, handler in {**HANDLERS, **OF_PAYS_OUT}.items() if handler.expires} == found


def test_each_steps_slots_are_money_attributes() -> None:
    """IAM denies them to each function that does not name them."""
    assert {slot for step in REVERSIBLE for slot in (step.slot, step.reversal_slot)} < {*MONEY_ATTRIBUTES}
    assert {step.slot for step in Step} < {*MONEY_ATTRIBUTES}


MOVING = {
    *("HoldFunds", "ReleaseFunds", "CollectFee"),
    *("RefundFee", "ReclaimFunds", "VoidHold", "TakeOrder"),
}
ONLY: list[tuple[str, str, set[str]]] = [
    # Any function that could put the row could choose the settlement's escrow.
    (
        *("PutItem", "settlement"),
        {
            *("HoldFunds", "RejectSettlement", "BeginCompensation"),
            *there("doors", "StartSettlements", "AcceptSettlements"),
        },
    ),
    # A balance only moves, under its condition.
    ("PutItem", "account", set()),
    ("UpdateItem", "account", MOVING - {"CollectFee", "RefundFee"} | {"EnterLimbo"}),
    *(("PutItem", kind, MOVING) for kind in ("entry", "entry of fees", "entry of a merchant")),
    *there("merchants", ("PutItem", "swept", {"SweepMerchants", "ReclaimFunds", "TakeOrder"})),
    *there("merchants", ("UpdateItem", "swept", set())),
    ("PutItem", "order", {"TakeOrder"}),
    ("PutItem", "event", {"KycDecided"}),
    # A refused write returns the row: a right to write is one to read the token in it.
    ("PutItem", "waiting", {"AwaitResolution"}),
    ("GetItem", "waiting", {"RecoverStalled", "TakeOrder"}),
    # Permanent.
    *(
        ("UpdateItem", kind, set())
        for kind in ("entry", "entry of fees", "evidence", "waiting", "event", "order")
    ),
    # FollowPayouts carries a decision out, and only some stages have it.
    *there(
        "payouts",
        ("GetItem", "payout", {"TakeOrder"}),
        ("PutItem", "payout", set()),
        ("UpdateItem", "payout", set()),
        *(("PutItem", kind, {"TakeOrder"}) for kind in ("destination", "decision about a payout")),
        ("UpdateItem", "destination", {"TakeOrder"}),
        ("UpdateItem", "decision about a payout", set()),
    ),
    # PayLines pays a run, and only some stages have it.
    *((action, "pay run", {"TakeOrder"}) for action in ("GetItem", "PutItem", "UpdateItem")),
    *((action, "decision about a pay run", {"TakeOrder"}) for action in ("GetItem", "PutItem")),
    ("UpdateItem", "decision about a pay run", set()),
]


@pytest.mark.parametrize(("action", "kind", "functions"), ONLY)
def test_only_listed_functions_may_access_a_row_kind(action: str, kind: str, functions: set[str]) -> None:
    found = {name for name, grants in FUNCTIONS.items() if admits(grants, action, ROWS[kind])}

    assert found == functions


def test_functions_that_read_strangers_input_cannot_move_money() -> None:
    """A mistake in reading their input then reaches neither an account nor the journal."""
    assert not MOVING & {*STRANGERS}


PLACE = ("gsi1pk", "gsi1sk")
"""Index attributes. IAM lets updates of settlements change them, so the proof checks those of orders."""


def test_entry_attributes_are_immutable_unless_updates_of_others_need_them() -> None:
    """Denying their updates is a second fence, which omits the attributes that conditions need."""
    assert {"account", "by", "cause", "decision", "error", "reason", "reference"} <= OF_ENTRIES
    assert {"credit", "debit", "posted_at", "side", "step"} <= IMMUTABLE
    assert {"currency", "request_hash", *PLACE} == OF_ENTRIES - IMMUTABLE
    assert OF_ENTRIES - IMMUTABLE <= TOUCHED


def test_attributes_written_once_are_immutable_and_replaced_ones_are_not() -> None:
    """A reversal moves the row's amounts, and a changed marker would let its event come again.

    A later waiting execution replaces an earlier one: listing `key` and `case` would suggest protection.
    """
    claimed = forward.claim(NAMED, EXECUTION, NOW, CONFIG).parameters["Item"]
    agreed = {"payer", "payee", "amount", "fee", "claimed_at", *OPTIONAL}
    marker, waiting = (next({*row} for row in PUT if row["sk"] == kind) for kind in ("EVENT", "WAITING"))

    assert agreed <= claimed.keys() & IMMUTABLE
    assert {"digest", "received_at"} <= marker & IMMUTABLE
    assert not waiting & IMMUTABLE


def test_no_step_needs_an_attribute_that_is_denied() -> None:
    """IAM also counts attributes in conditions, and a denied step would stall every settlement."""
    assert {"escrow", "available", "request_hash", "status"} <= TOUCHED
    assert {"resolutions", "resolution", "limbo_cases", "failure"} <= TOUCHED
    assert {"hold_at", "verify_at", "release_at", "fee_at"} <= TOUCHED
    assert {"fee_reversed_at", "release_reversed_at", "hold_reversed_at"} <= TOUCHED
    assert set() == TOUCHED & IMMUTABLE


def not_first(update: Write) -> bool:
    """Return whether a write updates an existing row, unlike the opening of an account."""
    return bool(update.parameters["ConditionExpression"] != ABSENT.expression)


def test_no_update_changes_an_attribute_that_conditions_rely_on() -> None:
    """IAM cannot deny these attributes, because a denial also counts attributes in conditions."""
    fixed = {"currency", "request_hash", "pk", "sk"}

    assert UPDATES
    changed = {name for update in UPDATES if not_first(update) for name in assigned(update)}
    assert changed & fixed == set()
    assert fixed - {"sk"} <= TOUCHED


@pytest.mark.parametrize("function", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "RefundFee", "ReclaimFunds"])
def test_a_step_that_finishes_nothing_does_not_touch_the_index(function: str) -> None:
    updates = [one for one in WRITES[function] if one.action == "Update" and one is not PARKING]

    assert updates
    assert {name for update in updates for name in assigned(update)} & {"gsi1pk", "gsi1sk"} == set()
