"""Makes the tests fast and repeatable: without Hypothesis's database and the store's logs."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from settlement.core import telemetry

settings.register_profile("unit", deadline=None, database=None, print_blob=True)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def quiet_store() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(telemetry, "called", lambda operation, consumed: None)
        yield
