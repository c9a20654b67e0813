"""A VerifyKyc environment as a process, run by `test_circuit_processes.py`.

Each input line is a payment and the provider's answer: `up`, `down`, or `hang`, on which the process waits to
be killed. It prints how each call ended.
"""

import sys
import time
from dataclasses import replace
from typing import Any

import boto3

from settlement.core.model.errors import KycCircuitOpen, KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.http.circuit import Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.kyc.circuit import CIRCUIT, guarded
from tests.kyc.environments import DOWN, PAYMENT
from tests.kyc.raw import WAIT_SECONDS_MAX
from tests.world.environment import NOW
from tests.world.provider import APPROVED

assert NOW, "the environment is set"

RECOVERY_SECONDS = 4


def ask(settlement: Settlement, answer: str) -> Any:
    if answer == "hang":
        print("asks", flush=True)
        time.sleep(WAIT_SECONDS_MAX)
    if answer == "down":
        raise DOWN
    return APPROVED


def main(table_name: str, failures: str) -> None:
    thresholds = Thresholds(
        failures=int(failures), within_seconds=WAIT_SECONDS_MAX, recovery_seconds=RECOVERY_SECONDS
    )
    circuit = SharedCircuit(CIRCUIT, boto3.client("dynamodb"), table_name, thresholds, lambda state: None)
    ask_guarded = guarded(ask, circuit, lambda state: None)
    print("ready", flush=True)
    for line in sys.stdin:
        key, answer = line.split()
        try:
            ask_guarded(replace(PAYMENT, key=key), answer)
            print("answered", flush=True)
        except KycCircuitOpen:
            print("refused", flush=True)
        except KycUnavailable as unavailable:
            print("unavailable" if unavailable is DOWN else "refused", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
