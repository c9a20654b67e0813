"""What a function gets from its deployment."""

import json
import os
from datetime import UTC, timedelta

from handlers import _runtime
from settlement.paging import Paging
from settlement.terms import Terms


def test_the_clock_knows_its_zone() -> None:
    assert _runtime.now().tzinfo is UTC
    assert _runtime.now().utcoffset() == timedelta(0)


def test_the_terms_are_the_deployments(terms: Terms) -> None:
    assert _runtime.terms == terms


def test_how_to_page_is_the_deployments() -> None:
    assert _runtime.paging == Paging(
        runbook="docs/runbooks/limbo.md",
        show_command="settle limbo show {key}",
        again_after_seconds=1800,
    )
    assert json.loads(os.environ["PAGING"]) == vars(_runtime.paging)
