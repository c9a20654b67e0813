import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import yaml

from tests.unit.contracts import CONTRACTS, EVENT, PAYOUT_EVENT, PAYRUN_EVENT, SCHEMAS
from tests.world.templates import PROJECT

DOCUMENT: dict[str, Any] = yaml.safe_load((CONTRACTS / "events.asyncapi.yaml").read_text())
OFFICIAL = PROJECT / "node_modules/@asyncapi/specs/schemas/3.0.0.json"
MESSAGES = DOCUMENT["components"]["messages"]
OF: dict[str, tuple[str, str]] = {
    "settlement": ("", EVENT),
    "payout": ("payout_", PAYOUT_EVENT),
    "payrun": ("payrun_", PAYRUN_EVENT),
}


def references(part: Any) -> Iterator[str]:
    members = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for member in members:
        yield from references(member)
    if isinstance(part, dict) and "$ref" in part:
        yield part["$ref"]


def faults(document: Any) -> list[str]:
    validator = jsonschema_rs.validator_for(json.loads(OFFICIAL.read_text()))
    return [fault.message for fault in validator.iter_errors(document)]


def test_the_document_is_asyncapi() -> None:
    assert faults(DOCUMENT) == []
    assert faults({**DOCUMENT, "operations": {"tell": {"action": "shout"}}})


def test_the_documents_messages_are_the_event_types() -> None:
    assert {(name, message["name"], message["summary"]) for name, message in MESSAGES.items()} == {
        (f"{before}{name}", f"{about}.{name}", of["description"])
        for about, (before, schema) in OF.items()
        for name, of in SCHEMAS[schema]["$defs"].items()
    }
    for channel in DOCUMENT["channels"].values():
        assert channel["messages"].keys() == MESSAGES.keys()


def test_each_reference_in_the_document_can_be_resolved() -> None:
    for reference in references(DOCUMENT):
        file, _, fragment = reference.partition("#")
        found: Any = json.loads((CONTRACTS / file).read_text()) if file else DOCUMENT
        for step in filter(None, fragment.split("/")):
            found = found[step]


def test_each_message_refers_to_its_own_event_type() -> None:
    for name, message in MESSAGES.items():
        before, schema = OF[message["name"].partition(".")[0]]
        file = f"{schema}.schema.json"
        assert [*references(message["payload"])] == [file, f"{file}#/$defs/{name.removeprefix(before)}"]
