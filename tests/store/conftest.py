"""Fixtures of the store's tests."""

import pytest

from settlement import telemetry
from settlement.request import Settlement
from settlement.terms import Terms
from tests.conftest import Ledger
from tests.store.saga import Saga


@pytest.fixture
def saga(ledger: Ledger, settlement: Settlement, terms: Terms) -> Saga:
    return Saga(ledger, settlement, terms)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the metrics that the store counts, in order; none of them reaches another test."""
    names: list[str] = []
    monkeypatch.setattr(telemetry, "count", names.append)
    return names
