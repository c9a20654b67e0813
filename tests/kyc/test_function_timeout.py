"""A provider failure is counted because the exchange ends well before Lambda's timeout."""

import subprocess
import sys

import pytest

from settlement.core.ledger import keys
from tests.kyc.network import FUNCTION_SECONDS
from tests.kyc.raw import WAIT_SECONDS_MAX
from tests.world.ledger import Ledger
from tests.world.templates import PROJECT

TROUBLES = {
    "silent 1": "KycUnavailable: kyc: no connection to any of 1 addresses",
    "silent 2": "KycUnavailable: kyc: no connection to any of 2 addresses",
    "silent 8": "KycUnavailable: kyc: no connection to any of 8 addresses",
    "silent 64": "KycUnavailable: kyc: no connection to any of 64 addresses",
    "lookup": "KycUnavailable: kyc: the provider's name was not looked up in time",
    "handshake": "KycUnavailable: kyc: ReadTimeoutError",
}


def called(ledger: Ledger, *arguments: str, seconds: int = FUNCTION_SECONDS) -> str | None:
    """Ask in a process; return its answer, or None if its time ran out."""
    endpoint = {"AWS_ENDPOINT_URL_DYNAMODB": ledger.client.meta.endpoint_url}
    path = {"PYTHONPATH": f"{PROJECT}:{PROJECT / 'lambdas'}", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kyc.function_process", ledger.table_name, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=endpoint | path,
        cwd=PROJECT,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "called\n"
        try:
            answer, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(WAIT_SECONDS_MAX)
            return None
        return answer.strip()


def failures(ledger: Ledger) -> int:
    return int((ledger.row(keys.circuit("kyc")) or {}).get("failure_count", 0))


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_provider_failure_is_counted_before_the_function_is_ended(ledger: Ledger, trouble: str) -> None:
    assert called(ledger, trouble) == TROUBLES[trouble]
    assert failures(ledger) == 1


def test_a_function_that_lambda_ends_counts_no_failure(ledger: Ledger) -> None:
    """A slow name server caused this before an exchange had one time limit."""
    assert called(ledger, "lookup", "unbounded", seconds=4) is None
    assert failures(ledger) == 0
