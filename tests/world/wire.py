"""Rows in the wire's format, in the form in which equal values are equal."""

from collections.abc import Mapping
from typing import Any

from settlement.core.store.wire import to_wire
from tests.world import values


def normal(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row on the wire, each value in its one form."""
    return {name: values.normal(value) for name, value in to_wire(row).items()}
