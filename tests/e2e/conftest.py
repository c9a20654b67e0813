from collections.abc import Iterator

import pytest

from tests.e2e.embedded import Embedded, embedded_aws


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """One embedded AWS with the real app on it, for all tests that do not break it."""
    with embedded_aws() as embedded:
        embedded.up()
        yield embedded
