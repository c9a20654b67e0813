"""The stage's KYC provider, as the deployment describes it: client, credentials, and the circuit."""

import json
import os
from datetime import datetime, timedelta

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _runtime, _secrets
from settlement import breaker, kyc
from settlement.errors import KycRequestRefused, KycUnavailable
from settlement.request import Settlement
from settlement.store import CLIENT_CONFIG
from settlement.telemetry import count, logger, metrics
from settlement.verdict import Verdict

SECRET_CACHE_SECONDS = 60
"""How long an API key is used after it was replaced, unless the provider does not know it any more."""

_config = json.loads(os.environ["KYC"])
review_seconds: int = _config["review_seconds"]
_secret_id: str = _config["secret_id"]
_thresholds = breaker.Thresholds(**_config["breaker"])
_client = kyc.Client(kyc.Endpoint(**_config["endpoint"]), _runtime.terms)
_events = boto3.client(
    "events", config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
)


def ask(settlement: Settlement) -> Verdict:
    """Ask the provider about a payment. Raises KycUnavailable and KycRequestRefused.

    Where it does not know the API key, a newer one is looked for: keys are rotated without a deployment. Who
    tries again asks with that one: there is not the time for a second exchange in one call.
    """
    api_key = _api_key()
    answer = _guarded_ask(settlement, api_key)
    if isinstance(answer, kyc.Refused):
        if answer.wants_another_key and _api_key(fresh=True) != api_key:
            raise KycUnavailable("kyc: the API key has just been renewed")
        raise KycRequestRefused(f"kyc: the provider refuses the request with status {answer.http_status}")
    return answer


def review_ends(now: datetime) -> datetime:
    """When a review that begins now is over."""
    return now + timedelta(seconds=review_seconds)


def _api_key(*, fresh: bool = False) -> str:
    secret = _secrets.read(_secret_id, cache_seconds=SECRET_CACHE_SECONDS, fresh=fresh)
    api_key = secret.get("api_key")
    if not (isinstance(api_key, str) and api_key and api_key.isascii() and api_key.isprintable()):
        count("KycSecretUnreadable")
        raise KycUnavailable("secret: api_key must be a string of printable ASCII")
    return api_key


def _changed(state: CircuitState) -> None:
    """Tell of a change of the circuit: a log line, a metric, and an event on the bus."""
    _measure(state)
    logger.warning("circuit", circuit=breaker.CIRCUIT, state=state.value)
    detail = {
        "summary": f"the circuit around the KYC provider is {state.value}",
        "circuit": breaker.CIRCUIT,
        "state": state.value,
        "runbook": _config["runbook"],
    }
    entry = {
        "Source": "settlement",
        "DetailType": "KycCircuitChanged",
        "Detail": json.dumps(detail),
        "EventBusName": os.environ["EVENT_BUS"],
    }
    try:
        failed = _events.put_events(Entries=[entry])["FailedEntryCount"]
    except (ClientError, BotoCoreError) as error:
        failed = type(error).__name__
    if failed:
        logger.warning("event not taken", failed=failed)


def _measure(state: CircuitState) -> None:
    """With each change of the circuit, each call that it refuses (1), and each that is answered (0)."""
    metrics.add_metric(
        name="KycCircuitOpen", unit=MetricUnit.Count, value=int(state is not CircuitState.CLOSED)
    )


_circuit = breaker.SharedCircuit(
    boto3.client("dynamodb", config=CLIENT_CONFIG), os.environ["TABLE_NAME"], _thresholds, _changed
)
_guarded_ask = breaker.guarded(_client.ask, _circuit, _thresholds, _measure)
