import os
from collections.abc import Generator, Iterator

import psutil
import pytest

from tests.e2e.embedded import Embedded, embedded_aws
from tests.e2e.provider import CREDENTIALS, SIGNING, Payment, control, in_review, put_secret, secret

LOG_CHARACTERS_MAX = 6_000


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure how busy the machine was, and the end of the embedded AWS's log."""
    report = yield
    if report.failed:
        free = psutil.virtual_memory().available // 2**20
        report.sections.append(("machine", f"load {os.getloadavg()}, {free} MiB free"))
        for one in item.funcargs.values():
            log = one.home / "embedded/log" if isinstance(one, Embedded) else None
            if log and log.is_file():
                text = log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
                report.sections.append(("embedded AWS", text))
    return report


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """One embedded AWS with the real app, for all tests that do not break it.

    Its schedules are off, because tests compare the whole table, and recovery would reverse other tests' late
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
