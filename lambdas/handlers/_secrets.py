"""What the functions share with the KYC provider, from Secrets Manager: cached, and read again in time."""

from typing import Any

from aws_lambda_powertools.utilities.parameters import SecretsProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError, TransformParameterError
from botocore.config import Config

from settlement.errors import KycUnavailable
from settlement.telemetry import count

_provider = SecretsProvider(
    boto_config=Config(
        connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
    )
)


def read(secret_id: str, *, cache_seconds: int, fresh: bool = False) -> dict[str, Any]:
    """The secret's JSON object, cached; `fresh` reads past that. Raises KycUnavailable without one."""
    try:
        secret = _provider.get(secret_id, max_age=cache_seconds, transform="json", force_fetch=fresh)
    except (GetParameterError, TransformParameterError) as error:
        count("KycSecretUnreadable")
        raise KycUnavailable(f"secret: {type(error).__name__}") from None
    if not isinstance(secret, dict):
        raise KycUnavailable("secret: must be a JSON object")
    return secret
