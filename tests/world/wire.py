from collections.abc import Mapping
from typing import Any

from settlement.core.store.wire import to_wire
from tests.world import values


def normal(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.normal(value) for name, value in to_wire(row).items()}
