from collections.abc import Iterator

import pytest

from tests.settle.payouts.wire import SimulatedBank, banking


@pytest.fixture
def bank() -> Iterator[SimulatedBank]:
    with banking() as bank:
        yield bank
