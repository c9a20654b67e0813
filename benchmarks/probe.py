"""Reconcile one table in a fresh process, and print its CPU time and memory."""

import json
import os
import re
import sys
import time
from pathlib import Path

import boto3

from settle.stack import Stack
from settlement.proof import table_scan
from tests.world import environment

assert environment  # it sets the credentials and the stage's configuration


def main(url: str, table: str) -> None:
    """Print the measurements as a line of JSON. The proof must hold."""
    outputs = {"TableName": table, "StageConfig": os.environ["STAGE_CONFIG"]}
    stack = Stack("bench", outputs, boto3.Session(), url)
    stack.client("dynamodb").describe_table(TableName=table)  # what it loads is not the proof's
    before_kb, begin = _peak_kb(), time.process_time()
    proof = table_scan.proof(stack.store, stack.config.currencies)
    seconds = time.process_time() - begin
    assert proof["conserved"], (proof["faults"] + proof["unproven"])[:3]
    answer = {"seconds": seconds, "mb": (_peak_kb() - before_kb) / 1024, "settlements": proof["settlements"]}
    print(json.dumps(answer))


def _peak_kb() -> int:
    """Return this process's peak memory. `getrusage` would report its parent's."""
    (found,) = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
