"""Valid payloads of every function, for fuzzing."""

import json
from typing import Any

from settlement.core.model import executions
from settlement.core.store.wire import from_wire, to_wire
from tests.fuzz.mutation import Choices, copied, mutated, text
from tests.unit import states
from tests.world import reading
from tests.world.constants import (
    CLAIMED_AT,
    EXECUTION_ARN,
    KEY,
    ORDER,
    REJECTED_BY_KYC,
    REPLAYED,
    SPENT,
    WIRE,
)
from tests.world.rooms import there
from tests.world.services import VERDICT, released

_SETTLEMENT = {"settlement": WIRE, "execution": "execution-1"}
_WITH_REQUEST = {"execution": "execution-1", "execution_arn": EXECUTION_ARN}
_QUEUED = {**_WITH_REQUEST, "execution": executions.queued(KEY, json.dumps(WIRE))}
"""The context of the execution that owns the queue's claim."""

_ALL, _NONE = ["fee", "hold", "release", "verify"], list[str]()
_FOUND = {
    "settlement": WIRE,
    "steps": _ALL,
    "reversed": _NONE,
    "finished": False,
    "in_limbo": True,
    "fee_due": True,
    "release_due": True,
    "case": 1,
    "alerts": 0,
}
_DECIDED = {**ORDER, "decision": "retry"}
_YEN = {**WIRE, "amount": "4820", "fee": "48", "currency": "JPY"}
_WITHOUT_FEE = {name: value for name, value in WIRE.items() if name != "fee"}
_NAMED = {**WIRE, "payer_name": "Alice Muster", "payee_name": "Bob Muster"}
_LABELLED = {**WIRE, "reference": "invoice 2026/4711", "metadata": {"shop": "web", "cart": "c-77120"}}
REQUESTS = [WIRE, _WITHOUT_FEE, {**WIRE, "deadline_seconds": 7_200}, _YEN, _NAMED, _LABELLED]


_REVERSAL = {**_SETTLEMENT, "execution": "compensation-1"}


def _state(**more: Any) -> dict[str, Any]:
    return {"state": {"settlement": WIRE, **more}, "execution": "compensation-1"}


_ENTRY = {"pk": {"S": "ENTRIES#merchant.shop#3"}, "sk": {"S": f"{CLAIMED_AT}#{KEY}:release"}}

_ROW = json.loads(json.dumps(to_wire(states.row())))


def _changed(old: Any, new: Any) -> dict[str, Any]:
    images = {name: image for name, image in (("OldImage", old), ("NewImage", new)) if image}
    keys = {name: _ROW[name] for name in ("pk", "sk")}
    return {"dynamodb": {"ApproximateCreationDateTime": 1_795_300_000, "Keys": keys, **images}}


_ON_ACCOUNTS = [
    {"key": KEY, "account": account, "reason": "x", **order}
    for account in ("alice", "bob")
    for order in (
        {"order": "open", "currency": "EUR"},
        {"order": "deposit", "currency": "EUR", "amount": "1.00", "reference": "bank-1"},
        {"order": "withdraw", "currency": "EUR", "amount": "1.00", "reference": "bank-1"},
        *({"order": order} for order in ("freeze", "unfreeze", "close")),
    )
]

PAYLOADS: dict[str, list[Any]] = {
    "hold_funds": [
        *({"settlement": request, **_WITH_REQUEST} for request in REQUESTS),
        {"settlement": WIRE, **_QUEUED},
    ],
    "verify_kyc": [_SETTLEMENT],
    "release_funds": [_SETTLEMENT],
    "collect_fee": [{**_SETTLEMENT, "claimed_at": CLAIMED_AT}],
    "reject_settlement": [
        *({"settlement": request, **_WITH_REQUEST, "error": REJECTED_BY_KYC} for request in REQUESTS),
        {"settlement": WIRE, **_QUEUED, "error": REJECTED_BY_KYC},
    ],
    "report_outcome": [
        {"settlement": request, "state": state, **_WITH_REQUEST}
        for request in (WIRE, _WITHOUT_FEE)
        for state in (
            REPLAYED,
            {"settlement": WIRE, "in_review": {"Error": "InReview", "Cause": ""}},
            {"settlement": WIRE, "error": REJECTED_BY_KYC},
            {"Error": "StepFenced", "Cause": ""},
            _FOUND,
        )
    ],
    "begin_compensation": [
        _state(error=REJECTED_BY_KYC, owner="execution-1"),
        _state(error=REJECTED_BY_KYC),
        _state(order="reverse"),
        _state(order="resolve:1"),
        _state(reversal=ORDER),
        _state(resolution=_DECIDED),
        _state(),
        {"state": _FOUND | {"error": SPENT}, "execution": "compensation-1"},
    ],
    "refund_fee": [_REVERSAL],
    "reclaim_funds": [_REVERSAL],
    "void_hold": [{**_REVERSAL, "steps": steps} for steps in (_ALL, ["hold"], [])],
    "enter_limbo": [
        {**_SETTLEMENT, "execution": "compensation-1", "case": 1, "reversed": _NONE, "stuck": {step: SPENT}}
        for step in ("fee", "release", "hold")
    ],
    "prepare_alert": [
        {"state": {**_FOUND, **more}, "execution": "compensation-1", "execution_arn": EXECUTION_ARN}
        for more in ({}, {"error": SPENT}, {"error": {"Error": "States.Timeout", "Cause": ""}})
    ],
    "await_resolution": [{**_SETTLEMENT, "token": "token-2", "execution_arn": EXECUTION_ARN}],
    "resolve_limbo": [
        {
            **_SETTLEMENT,
            "execution": "compensation-1",
            "case": 1,
            "resolution": resolution,
        }
        for resolution in ({"case": 1}, {}, _DECIDED)
    ],
    "recover_stalled": [{"key": KEY, "owner": f"{KEY}-decided"}, {}],
    "take_order": [
        *(
            {"key": KEY, "case": 1, "decision": one, "reason": "x"}
            for one in ("retry", "write-off", "complete")
        ),
        {"key": KEY, "reason": "x"},
        {"key": KEY, "reason": "x", "expected_status": "PROCESSING"},
        {"key": KEY},
        {"key": KEY, "digest": "0" * 64},
        {"key": KEY, "part": 1, "amount": "1.00", "reason": "x"},
        *there(
            "merchants", {"account": "merchant.shop", "since": "2026-11-20", "from": "0#2026-11-20T12:00"}
        ),
        {},
        *_ON_ACCOUNTS,
    ],
    "kyc_decided": [VERDICT, {**VERDICT, "decision": "REJECTED", "reason": "a listed party"}],
    **dict(
        there(
            "checks",
            (
                "check_decided",
                [
                    {"token": f"{KEY}:check:delivered", "decision": "approve", "evidence": {"parcel": "1"}},
                    {"token": f"{KEY}:check:delivered", "decision": "refuse", "reason": "lost"},
                ],
            ),
        )
    ),
    "start_settlements": REQUESTS,
    "sweep_merchants": [released(from_wire(_ENTRY))],
    "publish_events": [
        *({"Records": [_changed(old, new)]} for old, new in ((None, _ROW), (_ROW, _ROW), (_ROW, None))),
        {"Records": [{"dynamodb": {"Keys": _ENTRY}}]},
        {"replay": [KEY, "order-2026-999999"]},
    ],
    "accept_settlements": REQUESTS,
    "cancel_settlement": REQUESTS,
    "read_settlements": [
        reading.outcome(KEY),
        reading.outcome(KEY, {"wait": "20", "after": "1"}, if_none_match='"1"'),
        reading.entries("alice"),
        reading.entries("fees:EUR", from_="2026-11-20", to="2026-11-21T12:00:00Z", limit="2"),
        reading.entries("alice", cursor="WyJhIiwiYiJd"),
        *(reading.listing(status=status) for status in ("PROCESSING", "COMPENSATING", "LIMBO", "SETTLED")),
        reading.listing(account="bob", since="2026-11-20"),
        reading.journal(since="2026-11-20T12:00:00Z", limit="2"),
        reading.journal(cursor="WyJhIiwiYiJd"),
    ],
    "send_page": [
        {"detail-type": kind, "detail": {"key": KEY, "summary": "x", "reason": "x", "account": "bob"}}
        for kind in ("LimboEntered", "LimboResolved", "GlassBroken", "Another")
    ],
    "seal_journal": [
        {
            "Records": [
                {
                    "eventName": "INSERT",
                    "dynamodb": {
                        "ApproximateCreationDateTime": 1_795_300_000,
                        "SequenceNumber": "1",
                        "Keys": _ENTRY,
                        "NewImage": {**_ENTRY, "reason": {"S": "a person's words"}},
                    },
                }
            ]
        },
        {},
    ],
}
"""Payloads of a function's machine, caller or queue.

For the webhook, the start queue and orders these are message bodies.
"""

_ANY, _TEXT = "any", "text"
_ERROR: dict[tuple[str, ...], str] = {("error", "Error"): _TEXT, ("error", "Cause"): _TEXT}
_WHOLE = (
    *("recover_stalled", "start_settlements", "kyc_decided", "take_order", "accept_settlements"),
    *("cancel_settlement", "check_decided"),
)
FROM_OUTSIDE: dict[str, dict[tuple[str, ...], str]] = {
    **{name: {("settlement",): _ANY} for name in PAYLOADS},
    "begin_compensation": {("state",): _ANY},
    "report_outcome": {("settlement",): _ANY} | {("state", *path): _TEXT for path in _ERROR},
    "prepare_alert": {("state", "settlement"): _ANY} | {("state", *path): _TEXT for path in _ERROR},
    "reject_settlement": {("settlement",): _ANY, **_ERROR},
    "enter_limbo": {("settlement",): _ANY}
    | {("stuck", step, name): _TEXT for step in ("fee", "release", "hold") for name in ("Error", "Cause")},
    "resolve_limbo": {("settlement",): _ANY, ("resolution",): _ANY},
    **{name: {(): _ANY} for name in _WHOLE},
    "sweep_merchants": {},
    "read_settlements": dict.fromkeys(
        ((name,) for name in ("pathParameters", "queryStringParameters", "headers")), _ANY
    ),
    "send_page": {("detail",): _ANY},
    # A writer of the table decides the content of an image.
    "seal_journal": {},
    "publish_events": {},
}
"""Payload parts from outside: any JSON, or an error's text.

The rest comes from AWS or from another function.
"""


def hostile(name: str, choices: Choices) -> Any:
    """Return a payload with changes in the parts from outside."""
    payloads = PAYLOADS[name]
    paths = FROM_OUTSIDE[name]
    root = {"": copied(payloads[choices.below(len(payloads))])}
    for path, kind in paths.items():
        if len(paths) > 1 and choices.below(2):
            continue
        holder, place = root, ""
        for step in path:
            holder, place = holder[place], step
            if place not in holder:
                break
        else:
            change = mutated if kind == _ANY else text
            holder[place] = change(holder[place], choices)
    return root[""]


def anyhow(name: str, choices: Choices) -> Any:
    """Return a payload with changes anywhere."""
    payloads = PAYLOADS[name]
    return mutated(payloads[choices.below(len(payloads))], choices)
