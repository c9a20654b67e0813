import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.core.model.errors import KycRequestRefused, KycUnavailable, StoreUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.core.telemetry import count, logger, metrics
from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.kyc import circuit as kyc_circuit
from settlement.kyc import circuit_events, shared_secrets
from settlement.kyc import client as kyc_client

SECRET_CACHE_SECONDS = 60
"""How long a replaced API key stays in use. The provider still accepts it."""

RESERVED_SECONDS = 2
"""Time kept after an exchange, to count its failure or record its verdict."""

_config = json.loads(os.environ["KYC"])
review_seconds: int = _config["review_seconds"]
_secret_id: str = _config["secret_id"]
_thresholds = Thresholds(**_config["breaker"])
_client = kyc_client.Client(kyc_client.Endpoint(**_config["endpoint"]), _dependencies.config)


def ask(settlement: Settlement, context: Any) -> Verdict:
    """Ask the provider. Raises the errors of `_verification.Provider.ask`.

    Keys rotate without a deployment, so a refused API key is read again. The next try uses the new key: this
    try has no time for a second exchange.
    """
    _client.ensure_can_ask(settlement)  # before the circuit: a refusal must not take the lease of the probe
    api_key = _api_key()
    answer = _guarded_ask(settlement, api_key, context)
    if isinstance(answer, kyc_client.Refused):
        if answer.wants_another_key and _api_key(fresh=True) != api_key:
            raise KycUnavailable("kyc: the API key has just been renewed")
        raise KycRequestRefused(f"kyc: the provider refuses the request with status {answer.http_status}")
    return answer


def check_health() -> None:
    kyc_circuit.check_health(_circuit, _client.is_healthy)


def probe_now() -> dict[str, Any]:
    is_healthy = _health_check()
    try:
        state = kyc_circuit.probe_now(_circuit, is_healthy)
    except (ClientError, BotoCoreError) as error:
        raise StoreUnavailable(f"kyc: the circuit is not read: {type(error).__name__}") from None
    probe = "health" if is_healthy else "payment"
    return {"circuit": kyc_circuit.CIRCUIT.name, "state": state.value, "probe": probe}


def review_ends(now: datetime) -> datetime:
    return now + timedelta(seconds=review_seconds)


def _health_check() -> Callable[[], bool] | None:
    return _client.is_healthy if _client.endpoint.health_path else None


def _ask_in_time(settlement: Settlement, api_key: str, context: Any) -> Verdict | kyc_client.Refused:
    """Ask the provider, only if time is left for a whole exchange.

    Otherwise raise StoreUnavailable. The circuit counts neither this nor an exchange that Lambda cuts off.
    """
    seconds_needed = _client.endpoint.exchange_seconds + RESERVED_SECONDS
    if context.get_remaining_time_in_millis() < seconds_needed * 1000:
        raise StoreUnavailable("kyc: not asked, as too little of the call's time is left")
    return _client.ask(settlement, api_key)


def _api_key(*, fresh: bool = False) -> str:
    secret = shared_secrets.read(_secret_id, cache_seconds=SECRET_CACHE_SECONDS, fresh=fresh)
    api_key = secret.get("api_key")
    if not (isinstance(api_key, str) and api_key and api_key.isascii() and api_key.isprintable()):
        count("KycSecretUnreadable")
        raise KycUnavailable("secret: api_key must be a string of printable ASCII")
    return api_key


def _changed(state: State) -> None:
    _measure(state)
    logger.warning("circuit", circuit=kyc_circuit.CIRCUIT.name, state=state.value)
    circuit_events.tell(state, _config["runbook"])


def _measure(state: State) -> None:
    metrics.add_metric(name="KycCircuit", unit=MetricUnit.Count, value=int(state is not State.CLOSED))


_circuit = SharedCircuit(
    kyc_circuit.CIRCUIT, _dependencies.dynamodb, os.environ["TABLE_NAME"], _thresholds, _changed
)
_guarded_ask = kyc_circuit.guarded(_ask_in_time, _circuit, _measure)
