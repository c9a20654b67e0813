import os
from datetime import datetime
from typing import Any

from aws_lambda_powertools.utilities.parameters import SecretsProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError, TransformParameterError
from botocore.config import Config

from settlement.aws import clients
from settlement.core.model.errors import KycUnavailable
from settlement.core.telemetry import count, logger
from settlement.kyc.webhook_signature import signing_key

_provider = SecretsProvider(
    boto3_client=clients.session.client(
        "secretsmanager",
        config=Config(
            connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
        ),
    )
)

UNREADABLE = "KycSecretUnreadable"
"""Metric of unusable secrets, the KYC provider's and the checks'."""

SIGNING_CACHE_SECONDS = 10
"""How long a secret is cached. For this time, a signature by a new secret may be refused."""

_NO_END = "secret: previous_until must be a time with its offset, as 2026-11-22T06:04:00Z"


def signing_secrets(now: datetime, secret_id: str = "", *, metric: str = UNREADABLE) -> list[object]:
    """The current signing secret, and for a time the previous secret.

    An empty `secret_id` means the provider's secrets. `metric` counts unusable secrets, which do not
    block usable ones. Raises KycUnavailable if none is usable.
    """
    name = secret_id or os.environ["KYC_SIGNING_SECRET"]
    secret = read(name, cache_seconds=SIGNING_CACHE_SECONDS, metric=metric)
    active, fault = list[object](), None
    for name in ("current", "previous"):
        try:
            if secret.get(name) and (name == "current" or now < _end_of_previous(secret)):
                signing_key(secret[name])
                active.append(secret[name])
        except KycUnavailable as unusable:
            logger.error("signing secret", unusable=name, reason=str(unusable))
            fault = unusable
    if fault:
        count(metric)
    if not active:
        raise fault or _unusable("current must be a signing secret", metric)
    return active


def read(
    secret_id: str, *, cache_seconds: int, fresh: bool = False, metric: str = UNREADABLE
) -> dict[str, Any]:
    try:
        secret = _provider.get(secret_id, max_age=cache_seconds, transform="json", force_fetch=fresh)
    except (GetParameterError, TransformParameterError) as error:
        count(metric)
        raise KycUnavailable(f"secret: {type(error).__name__}") from None
    if not isinstance(secret, dict):
        raise _unusable("must be a JSON object", metric)
    return secret


def _end_of_previous(secret: dict[str, Any]) -> datetime:
    try:
        end = datetime.fromisoformat(secret["previous_until"])
        if end.tzinfo is None:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise KycUnavailable(_NO_END) from None
    return end


def _unusable(reason: str, metric: str) -> KycUnavailable:
    count(metric)
    return KycUnavailable(f"secret: {reason}")
