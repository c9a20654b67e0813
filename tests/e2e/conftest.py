from collections.abc import Iterator

import pytest

from tests.e2e.embedded import Embedded, embedded_aws
from tests.e2e.provider import CREDENTIALS, SIGNING, Payment, control, in_review, put_secret, secret


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """One embedded AWS with the real app, for all tests that do not break it.

    Its schedules are off: tests compare the whole table, and recovery would reverse other tests' late
    settlements.
    """
    with embedded_aws() as embedded:
        embedded.up()
        embedded.schedule(enabled=False)
        yield embedded


@pytest.fixture(scope="session")
def parked(embedded: Embedded) -> Payment:
    """A payment in review that is never decided."""
    return in_review(embedded)


@pytest.fixture
def secrets_restored(embedded: Embedded) -> Iterator[None]:
    before = {output: secret(embedded, output) for output in (CREDENTIALS, SIGNING)}
    yield
    for output, content in before.items():
        put_secret(embedded, output, content)
    for function in ("VerifyKyc", "KycDecided"):
        embedded.renew(function)
    control(embedded, api_keys=[before[CREDENTIALS]["api_key"]], signing_secret=before[SIGNING]["current"])
