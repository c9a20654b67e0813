"""CPU time of cold imports in fresh processes, as ratios to a DynamoDB client of boto3."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median

_CLIENT = "import boto3; boto3.client('dynamodb')"
_SETUP = "import json, time; import tests.world.environment"
CASES = {
    "HoldFunds": "import handlers.core.hold_funds",
    "VerifyKyc": "import handlers.kyc.verify_kyc",
    "ReleaseFunds": "import handlers.core.release_funds",
    "CollectFee": "import handlers.core.collect_fee",
    "StartSettlements": "import handlers.doors.start_settlements",
    "KycDecided": "import handlers.kyc.kyc_decided",
    "AcceptSettlements": "import handlers.doors.accept_settlements",
    "ReadSettlements": "import handlers.reading.read_settlements",
    "TakeOrder": "import handlers.orders.take_order",
    "a Powertools idempotent function": f"import benchmarks.rivals.powertools; {_CLIENT}",
    "a function of AWS's samples": f"import benchmarks.rivals.aws_sample; {_CLIENT}",
    "a durable function": f"import aws_durable_execution_sdk_python; {_CLIENT}",
    "DBOS": "import dbos",
}
"""Imports of a cold start, by title."""


def run(rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return the median ratio of paired rounds for each case."""
    for case in CASES.values():  # the first import writes the bytecode
        _cpu_seconds(case)
    ratios: dict[str, list[float]] = {title: [] for title in CASES}
    for turn in range(rounds):
        for title, case in CASES.items():
            base, own = _cpu_seconds(_CLIENT), _cpu_seconds(case)
            ratios[title].append(own / base)
        say(f"imports: round {turn + 1} of {rounds}")
    return {title: median(found) for title, found in ratios.items()}


def _cpu_seconds(code: str) -> float:
    timed = f"{_SETUP}\nbegin = time.process_time()\n{code}\nprint(json.dumps(time.process_time() - begin))"
    environment = os.environ | {"TABLE_NAME": "none"}
    done = subprocess.run(
        [sys.executable, "-c", timed], check=True, capture_output=True, text=True, env=environment
    )
    return float(json.loads(done.stdout.splitlines()[-1]))
