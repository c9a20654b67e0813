"""Every handler logs and counts: enough to find a settlement, and no account and no amount."""

import importlib
import pkgutil
from typing import Any

import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError, EndpointConnectionError

import handlers
from handlers import _dependencies
from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.model import errors
from settlement.model.errors import SettlementError
from settlement.model.request import parse_settlement
from tests.conftest import NOW
from tests.unit.observation import (
    CONTEXT,
    EVENT,
    EXECUTION,
    KEY,
    STARTS,
    STATE,
    WIRE,
    Output,
    assert_telling_nothing,
)

ROW = {
    **keys.settlement(KEY),
    **{name: WIRE[name] for name in ("payer", "payee", "currency")},
    "status": "LIMBO",
    "resolutions": 0,
    "steps": {"fee", "hold", "release", "verify"},
    "stuck_step": "compensate:fee",
    "failure": {"step": "compensate:fee", "error": "InsufficientFunds", "cause": "canary"},
    "reversed_for": {"step": "release", "error": "InsufficientFunds", "cause": "canary"},
    "gsi1sk": "2026-11-20T12:00:00.123Z",
    "request_hash": "another",
    "amount": 91827364,
    "fee": 564738,
    "available": 73737373,
    "escrow": 91827364,
    "claimed_at": "2026-11-20T12:00:00.123Z",
    "finished_at": "2026-11-20T12:00:00.123Z",
    "deadline_at": "2026-11-20T12:15:00.123Z",
    "owner": EXECUTION,
    "owner_epoch": 0,
    "verdict": "APPROVED",
    "decision": "APPROVED",
    "reference": "ver_1",
    "reason": "canary",
    "provider": "verifications",
    "posted_at": "2026-11-20T12:00:00.123Z",
}
STEPS = {
    "claim_key": "claim",
    "hold_funds": "hold",
    "verify_kyc": "verify",
    "release_funds": "release",
    "collect_fee": "fee",
    "reject_settlement": "reject",
    "report_outcome": "report",
    "begin_compensation": "compensate",
    "refund_fee": "compensate:fee",
    "reclaim_funds": "compensate:release",
    "void_hold": "compensate:hold",
    "enter_limbo": "limbo",
    "prepare_alert": "alert",
    "await_resolution": "await",
    "resolve_limbo": "resolve",
}
TRIGGERED = {"kyc_decided": "decide", "recover_stalled": "recover", "start_settlements": "start"}
"""The functions that no state machine calls: see test_telemetry_of_triggered.py."""

COUNTED = {
    "claim_key": "Claimed",
    "verify_kyc": "StepReplayed",
    "collect_fee": "Settled",
    "reject_settlement": "Rejected",
    "void_hold": "Compensated",
    "enter_limbo": "LimboEntered",
}
"""The further metric of a call that succeeds: a verdict is found, the rest is done."""

TAKES_THE_STATE = {"begin_compensation", "prepare_alert", "report_outcome"}


CALLS = [*((name, STATE) for name in STEPS), *(("begin_compensation", start) for start in STARTS)]
"""Each handler with the state of a running machine; BeginCompensation also with each of its inputs."""


def event_for(name: str, state: dict[str, Any], settlement: Any = WIRE) -> dict[str, Any]:
    if name in TAKES_THE_STATE:
        given = {"execution": EXECUTION, "execution_arn": EVENT["execution_arn"]}
        return given | {"state": state | {"settlement": settlement}}
    return EVENT | {"settlement": settlement}


def wire(row: dict[str, Any]) -> dict[str, Any]:
    return {name: TypeSerializer().serialize(value) for name, value in row.items()}


class Accepting:
    """A DynamoDB that commits every write."""

    UNITS = {"CapacityUnits": 2.0}  # noqa: RUF012

    def put_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS}

    def update_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS, "Attributes": wire(ROW)}

    def get_item(self, **_: Any) -> Any:
        ours = parse_settlement(WIRE, _dependencies.config).request_hash
        return {"ConsumedCapacity": self.UNITS, "Item": wire(ROW | {"request_hash": ours})}

    def transact_write_items(self, **_: Any) -> Any:
        return {"ConsumedCapacity": [self.UNITS]}


class Refusing(Accepting):
    """A DynamoDB that refuses every write, and returns the row in the way."""

    def put_item(self, **_: Any) -> Any:
        error = {"Code": "ConditionalCheckFailedException", "Message": "canary"}
        raise ClientError({"Error": error, "Item": wire(ROW)}, "PutItem")

    update_item = put_item

    def get_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS}

    def transact_write_items(self, **_: Any) -> Any:
        error = {"Code": "TransactionCanceledException", "Message": "canary"}
        reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": wire(ROW)}]
        raise ClientError(
            {"Error": error, "CancellationReasons": reasons},
            "TransactWriteItems",
        )


class Unreachable(Refusing):
    """A DynamoDB that cannot be reached."""

    def put_item(self, **_: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")

    update_item = get_item = transact_write_items = put_item


def test_every_handler_is_called_here() -> None:
    names = {module.name for module in pkgutil.iter_modules(handlers.__path__)}

    assert {name for name in names if not name.startswith("_")} == STEPS.keys() | TRIGGERED.keys()


@pytest.mark.parametrize("client", [Accepting, Refusing, Unreachable])
@pytest.mark.parametrize(("name", "state"), CALLS)
def test_every_line_has_the_key_and_neither_amounts_nor_accounts(
    name: str,
    state: dict[str, Any],
    client: type[Accepting],
    output: Output,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_dependencies, "store", Store(client(), "table", pause=lambda failed_tries: None))
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    handler = importlib.import_module(f"handlers.{name}").handler

    try:
        handler(event_for(name, state), CONTEXT)
        refused = None
    except SettlementError as error:
        refused = type(error).__name__

    lines, metrics, text = output.take()
    assert lines
    for line in lines:
        assert (line["key"], line["step"], line["execution"]) == (KEY, STEPS[name], EXECUTION)
    assert (refused is None) == (client is Accepting)
    assert metrics.count("StepCalled") == 1
    done = {COUNTED[name]} if name in COUNTED else set()
    assert (metrics[-1] == refused) if refused else (set(metrics) == {"StepCalled"} | done)
    assert (lines[-1]["message"], lines[-1].get("error")) == ("refused" if refused else "completed", refused)
    assert_telling_nothing(text)


@pytest.mark.parametrize(("name", "state"), CALLS)
def test_a_broken_request_is_not_logged_either(name: str, state: dict[str, Any], output: Output) -> None:
    handler = importlib.import_module(f"handlers.{name}").handler
    broken = WIRE | {"amount": "918273.645", "payer": "canary:payer", "canary": "91827364"}

    with pytest.raises(errors.InvalidRequest):
        handler(event_for(name, state, broken), CONTEXT)

    lines, metrics, text = output.take()
    assert [line["error"] for line in lines] == ["InvalidRequest"]
    assert metrics == ["StepCalled", "InvalidRequest"]
    assert_telling_nothing(text)
