"""Puts events about the circuit's changes on the stage's bus.

A lost event is only logged. An opened circuit also raises an alarm, by its metric.
"""

import json
import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.telemetry import logger
from settlement.http.circuit import State
from settlement.kyc.circuit import CIRCUIT

_client = LazyClient("events", Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}))


def tell(state: State, runbook: str) -> None:
    detail = {
        "summary": f"the circuit around the KYC provider is {state.value}",
        "circuit": CIRCUIT.name,
        "state": state.value,
        "runbook": runbook,
    }
    entry = {
        "Source": "settlement",
        "DetailType": "KycCircuitChanged",
        "Detail": json.dumps(detail),
        "EventBusName": os.environ["EVENT_BUS"],
    }
    try:
        failed = _client.put_events(Entries=[entry])["FailedEntryCount"]
    except (ClientError, BotoCoreError) as error:
        failed = type(error).__name__
    if failed:
        logger.warning("event not taken", failed=failed)
