"""Removes one condition from one write of the production code; the simulator must notice."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any
from unittest import mock

from settlement.accounts import account_orders
from settlement.core.ledger import (
    balances,
    conditions,
    entries,
    forward,
    kyc_review,
    limbo,
    reversal,
    takeover,
    transaction,
)
from settlement.core.ledger.conditions import Condition
from settlement.core.ledger.transaction import Write
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.orders import parts, proposals
from tests.world.rooms import is_there

_OF_ROOMS = ("settlement.doors.cancellation", "settlement.merchants.sweep")
MODULES = (
    *(
        account_orders,
        balances,
        entries,
        forward,
        kyc_review,
        limbo,
        parts,
        proposals,
        reversal,
    ),
    takeover,
    *(import_module(name) for name in _OF_ROOMS if is_there(name.split(".")[1])),
)
Modules = tuple[ModuleType, ...]
GONE = {name.rpartition(".")[2] for name in _OF_ROOMS} - {one.__name__.rpartition(".")[2] for one in MODULES}
"""Modules of rooms that have been deleted."""

_SETTLEMENT = Settlement(
    key="order-2026-000101", payer="alice", payee="bob", amount=4_820, currency="EUR", fee=48
)
_NOW = datetime(2026, 11, 21, tzinfo=UTC)

SAMPLES: Mapping[str, Callable[[], Condition]] = {
    **{f"status_is({status})": partial(conditions.status_is, status) for status in Status},
    "status_as_expected": lambda: conditions.status_as_expected(Status.SETTLED),
    "same_request": lambda: conditions.same_request(_SETTLEMENT),
    "owner_is": lambda: conditions.owner_is("execution"),
    "is_still_of": lambda: conditions.is_still_of("execution"),
    "case_unchanged": lambda: conditions.case_unchanged(0),
    "this_review": lambda: conditions.this_review("ver_0101"),
    "version_unchanged": lambda: conditions.version_unchanged(1),
    "listed_at": lambda: conditions.listed_at("2026-11-21"),
    "overdue": lambda: conditions.overdue(_NOW),
    "before_deadline": lambda: conditions.before_deadline(_NOW),
    **{f"committed({step})": partial(conditions.committed, step) for step in Step},
    **{f"not_committed({step})": partial(conditions.not_committed, step) for step in Step},
    **{f"not_reversed({step})": partial(conditions.not_reversed, step) for step in REVERSIBLE},
    "is_undone(fee)": lambda: conditions.is_undone(Step.FEE),
    "parts_are": lambda: conditions.parts_are(1),
    "within_rest": lambda: conditions.within_rest(0),
    "no_later_case": lambda: conditions.no_later_case(1),
    "escrow_holds": lambda: conditions.escrow_holds(0),
    "sequence_is": lambda: conditions.sequence_is(1),
    "same_currency": lambda: conditions.same_currency("EUR"),
    "sufficient": lambda: conditions.sufficient(0),
    "digest_is": lambda: conditions.digest_is("digest"),
    "not_yet": lambda: conditions.not_yet("ada"),
    "approvals_are": lambda: conditions.approvals_are(0),
    "still_valid": lambda: conditions.still_valid(_NOW),
    "replaces": lambda: conditions.replaces(1),
    "below_cap": lambda: conditions.below_cap(0),
}
"""One call per condition builder, by readable name.

A builder that takes a status or step has a sample for each.
"""

EXPRESSIONS: Mapping[str, str] = {
    **{name: found.expression for name, found in vars(conditions).items() if isinstance(found, Condition)},
    **{name: build().expression for name, build in SAMPLES.items()},
}

NAMES: Mapping[str, str] = {expression: name for name, expression in EXPRESSIONS.items()}

_CASES: dict[str, Callable[[dict[str, Any]], str]] = {
    "entries.transfer": lambda known: _kind(known["step"]),
    "entries.evidence": lambda known: _kind(known["step"]),
    "parts.count": lambda known: "first" if known["order"].part == 1 else "later",
    "limbo.enter": lambda known: "as it is done" if known["case"].done else "as it is stuck",
    "limbo.leave": lambda known: str(known["resolution"].decision),
    "takeover.take_over": lambda known: (
        "OVERDUE" if "expired_at" in known["changes"] else known["state"].status
    ),
    "reversal.begin": lambda known: "for every owner" if known["owner"] is None else "for its owner",
}
"""The case that selects a write's conditions, if the step does not."""

Change = Callable[[Write, str], Write]
Atom = tuple[str, str]
"""The place that makes a write, and the condition's name."""


class Placed(str):
    """A condition expression with the place that makes its write."""

    place = ""


@contextmanager
def placed() -> Iterator[None]:
    def mark(write: Write, at: str) -> Write:
        condition = Placed(write.parameters["ConditionExpression"])
        condition.place = at
        return replace(write, parameters={**write.parameters, "ConditionExpression": condition})

    with _changed(mark):
        yield


@contextmanager
def without(atoms: Iterable[Atom], modules: Modules = MODULES) -> Iterator[None]:
    def weaken(write: Write, at: str) -> Write:
        # The text stays but is always true, since DynamoDB refuses unused values.
        texts = [EXPRESSIONS.get(condition, condition) for place, condition in atoms if place == at]
        demanded = [
            f"({text} OR NOT {text})" if text in texts else text
            for text in write.parameters["ConditionExpression"].split(" AND ")
        ]
        return replace(write, parameters={**write.parameters, "ConditionExpression": " AND ".join(demanded)})

    with _changed(weaken, modules):
        yield


@contextmanager
def demanded(modules: Modules = MODULES) -> Iterator[set[Atom]]:
    """Collect the conditions of all writes made meanwhile, as (place, condition)."""
    found: set[Atom] = set()

    def note(write: Write, at: str) -> Write:
        found.update(
            (at, NAMES.get(text, text)) for text in write.parameters["ConditionExpression"].split(" AND ")
        )
        return write

    with _changed(note, modules):
        yield found


@contextmanager
def _changed(change: Change, modules: Modules = MODULES) -> Iterator[None]:
    def put(*given: Any, **named: Any) -> Write:
        return change(transaction.put(*given, **named), _place(sys._getframe(1)))

    def update(*given: Any, **named: Any) -> Write:
        return change(transaction.update(*given, **named), _place(sys._getframe(1)))

    def update_with_event(*given: Any, **named: Any) -> Write:
        return change(transaction.update_with_event(*given, **named), _place(sys._getframe(1)))

    with ExitStack() as stack:
        for module in modules:
            for name, replaced in (
                ("put", put),
                ("update", update),
                ("update_with_event", update_with_event),
            ):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, replaced))
        yield


def _place(frame: FrameType) -> str:
    """Return the writing function, and its step or case, such as `forward.advance hold`."""
    module, known = frame.f_globals["__name__"].rpartition(".")[2], frame.f_locals
    place = f"{module}.{frame.f_code.co_name}"
    if place in _CASES:
        return f"{place} {_CASES[place](known)}"
    return f"{place} {known['step']}" if "step" in known else place


def _kind(step: str) -> str:
    """Return an entry's step without the number of case, proposal or approval."""
    return re.sub(r"(:[0-9]+)+$", "", step)
