import json
import re
from typing import Any

import pytest

from settlement.events.changes import SNAPSHOT, EventType
from tests.unit.contracts import EVENT, SCHEMAS, faults
from tests.world.templates import PROJECT

SCHEMA = SCHEMAS[EVENT]
PAGE = (PROJECT / "docs/calling/events.md").read_text()
TYPES = [*EventType, SNAPSHOT]
SETTLED: dict[str, Any] = SCHEMA["examples"][0]


def test_the_contract_has_the_types_of_the_code() -> None:
    assert [*SCHEMA["$defs"]] == TYPES
    assert SCHEMA["properties"]["type"]["enum"] == [f"settlement.{name}" for name in TYPES]
    assert SCHEMA["oneOf"] == [{"$ref": f"#/$defs/{name}"} for name in TYPES]


def test_the_page_lists_the_contracts_types_with_their_statuses() -> None:
    rows = re.findall(r"^\| `settlement\.(\w+)` \| (.+?) \| (.+) \|$", PAGE, flags=re.MULTILINE)

    assert rows == [(name, statuses(name), SCHEMA["$defs"][name]["description"]) for name in TYPES]


def test_the_documented_example_event_equals_the_contracts_example() -> None:
    (shown,) = (
        json.loads(text) for text in re.findall(r"```json\n(.+?)```", PAGE, re.DOTALL) if "id" in text
    )

    assert shown == SETTLED


@pytest.mark.parametrize(
    "change",
    [
        {"type": "settlement.held"},  # of an outcome that is settled
        {"type": "settlement.paid"},
        {"type": "settlement.snapshot"},  # without `replayed`
        {"type": "settlement.reversed_in_part"},  # without what was reversed
        {"sequence": "0"},
        {"sequence": 4},
        {"sequence": "04"},
        {"id": "order-2026-000101"},
        {"specversion": "0.3"},
        {"time": "2026-11-20 12:00"},
        {"data": {}},
        {"data": {**SETTLED["data"], "status": "PAID"}},
        {"replayed": False},
        {"source": ""},
    ],
)
def test_the_contract_refuses_an_event_that_no_function_sends(change: dict[str, Any]) -> None:
    assert not faults(EVENT, SETTLED)

    assert faults(EVENT, SETTLED | change)


@pytest.mark.parametrize("name", SCHEMA["required"])
def test_each_attribute_is_required(name: str) -> None:
    assert faults(EVENT, {field: value for field, value in SETTLED.items() if field != name})


def statuses(name: str) -> str:
    data = SCHEMA["$defs"][name]["properties"].get("data", {"properties": {"status": {"enum": ["any"]}}})
    return ", ".join(data["properties"]["status"]["enum"])
