"""What a function gets from its deployment."""

from datetime import UTC, timedelta

from handlers import _runtime
from settlement.terms import Terms


def test_the_clock_knows_its_zone() -> None:
    assert _runtime.now().tzinfo is UTC
    assert _runtime.now().utcoffset() == timedelta(0)


def test_the_terms_are_the_deployments(terms: Terms) -> None:
    assert _runtime.terms == terms
