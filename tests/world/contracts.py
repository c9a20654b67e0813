import json
from pathlib import Path
from typing import Any

import jsonschema_rs

CONTRACTS = Path(__file__).parents[2] / "docs" / "contracts"
OUTCOME, EVENT = "settlement-outcome", "settlement-event"
PAYOUT_EVENT, PAYRUN_EVENT = "payout-event", "payrun-event"


def schema(name: str) -> Any:
    return json.loads((CONTRACTS / f"{name}.schema.json").read_text())


_OUTCOME = jsonschema_rs.validator_for(schema(OUTCOME))
_EVENT = jsonschema_rs.validator_for(
    schema(EVENT), registry=jsonschema_rs.Registry([(schema(OUTCOME)["$id"], schema(OUTCOME))])
)
_EVENTS = {
    "settlement": _EVENT,
    "payout": jsonschema_rs.validator_for(schema(PAYOUT_EVENT)),
    "payrun": jsonschema_rs.validator_for(schema(PAYRUN_EVENT)),
}
_PAGES = {
    "LimboEntered": jsonschema_rs.validator_for(schema("limbo-entered")),
    "LimboResolved": jsonschema_rs.validator_for(schema("limbo-resolved")),
    "GlassBroken": jsonschema_rs.validator_for(schema("glass-broken")),
    "KycCircuitChanged": jsonschema_rs.validator_for(schema("kyc-circuit-changed")),
}


def checked_outcome(outcome: Any) -> Any:
    return _checked(_OUTCOME, outcome, "an outcome")


def checked_event(event: Any) -> Any:
    about = event["type"].partition(".")[0]
    of = "" if about == "settlement" else f"{about}:"
    assert event["id"] == f"{of}{event['subject']}:{event['sequence']}", event["id"]
    assert event["subject"] == event["data"]["run" if about == "payrun" else "key"], event["id"]
    return _checked(_EVENTS[about], event, "an event")


def checked_page(kind: str, detail: Any) -> Any:
    return _checked(_PAGES[kind], detail, f"a {kind}")


def _checked(validator: Any, document: Any, kind: str) -> Any:
    if not validator.is_valid(document):
        faults = [f"{fault.instance_path}: {fault.message}" for fault in validator.iter_errors(document)]
        raise AssertionError(f"{document} breaks the contract of {kind}: {'; '.join(faults)}")
    return document
