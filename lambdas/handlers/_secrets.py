"""What the functions share with the KYC provider, from Secrets Manager: cached, and read again in time."""

from typing import Any

from aws_lambda_powertools.utilities.parameters import SecretsProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError, TransformParameterError
from botocore.config import Config

from settlement.errors import KycUnavailable

CACHE_SECONDS = 60
"""After a rotation both secrets must be good for this long, and the time that a call may take."""

_provider = SecretsProvider(
    boto_config=Config(
        connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
    )
)


def read(secret_id: str, *, fresh: bool = False) -> dict[str, Any]:
    """The secret's JSON object; `fresh` reads past the cache. Raises KycUnavailable where there is none."""
    try:
        secret = _provider.get(secret_id, max_age=CACHE_SECONDS, transform="json", force_fetch=fresh)
    except (GetParameterError, TransformParameterError) as error:
        raise KycUnavailable(f"secret: {type(error).__name__}") from None
    if not isinstance(secret, dict):
        raise KycUnavailable("secret: must be a JSON object")
    return secret
