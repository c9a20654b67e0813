"""The stage's KYC provider, as the deployment describes it: client, credentials, and the circuit."""

import json
import os

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
from settlement.telemetry import logger, metrics
from settlement.verdict import Verdict

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

    Where it does not know the API key, a newer one is looked for: keys are rotated without a deployment.
    """
    api_key = _api_key()
    answer = _guarded_ask(settlement, api_key)
    if isinstance(answer, kyc.Refused) and answer.wants_another_key:
        renewed = _api_key(fresh=True)
        if renewed != api_key:
            answer = _guarded_ask(settlement, renewed)
    if isinstance(answer, kyc.Refused):
        raise KycRequestRefused(f"kyc: the provider refuses the request with status {answer.http_status}")
    return answer


def _api_key(*, fresh: bool = False) -> str:
    api_key = _secrets.read(_secret_id, fresh=fresh).get("api_key")
    if not (isinstance(api_key, str) and api_key.isascii() and api_key.isprintable()):
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
    """1 for as long as the circuit is not closed: with the change, and with each call that it refuses."""
    metrics.add_metric(
        name="KycCircuitOpen", unit=MetricUnit.Count, value=int(state is not CircuitState.CLOSED)
    )


_circuit = breaker.SharedCircuit(
    boto3.client("dynamodb", config=CLIENT_CONFIG), os.environ["TABLE_NAME"], _thresholds, _changed
)
_guarded_ask = breaker.guarded(_client.ask, _circuit, _thresholds, _measure)
