import json
import re
from dataclasses import dataclass

PROVIDERS = ("opensanctions", "verifications")
"""Modules `lambdas/settlement/kyc/*.py`, each for a provider's API."""

SCREENS_BY_NAME = ("opensanctions",)
"""Providers that screen by name. They would approve an account id: it matches no list."""

NOT_NAMED = "https://kyc.invalid"
"""Placeholder for a missing address: `.invalid` never exists (RFC 2606)."""

_BOUNDS = {
    "connect_timeout_seconds": (1, 10),
    "read_timeout_seconds": (1, 60),
    "failures": (3, 50),
    "failures_within_seconds": (60, 86_400),
    "recovery_seconds": (1, 3600),
    "review_seconds": (60, 30 * 86_400),
}


@dataclass(frozen=True, kw_only=True)
class KycSettings:
    """The KYC provider, its timeouts and its circuit.

    An exchange lasts at most the sum of both timeouts. The first limits all connection attempts, the second
    each silence.
    """

    url: str = NOT_NAMED
    provider: str = "verifications"
    dataset: str = "default"
    connect_timeout_seconds: int = 1
    read_timeout_seconds: int = 3
    health_path: str = ""
    failures: int = 10
    failures_within_seconds: int = 900
    recovery_seconds: int = 30
    review_seconds: int = 86_400

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise ValueError(f"provider: must be one of {', '.join(PROVIDERS)}")
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^\s?#]*)?", self.url):
            raise ValueError("kyc_url: must be an address without user, query or fragment")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.dataset):
            raise ValueError("dataset: must be letters, digits, _ and -")
        if not re.fullmatch(r"(/[A-Za-z0-9._~/-]*)?", self.health_path):
            raise ValueError("health_path: must be empty, or a path that begins with / and has no query")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name}: must be a whole number from {least} to {most}")
        if self.recovery_seconds <= self.exchange_seconds:
            raise ValueError("recovery_seconds: must be longer than a probe takes, which is both timeouts")

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https://")

    @property
    def exchange_seconds(self) -> int:
        return self.connect_timeout_seconds + self.read_timeout_seconds

    def to_json(self, *, secret_id: str, runbook: str) -> str:
        """Return VerifyKyc's settings. `secret_id` names the API key's secret."""
        return json.dumps(
            {
                "endpoint": {
                    "url": self.url,
                    "provider": self.provider,
                    "dataset": self.dataset,
                    "connect_timeout_seconds": self.connect_timeout_seconds,
                    "read_timeout_seconds": self.read_timeout_seconds,
                    "health_path": self.health_path,
                },
                "breaker": {
                    "failures": self.failures,
                    "within_seconds": self.failures_within_seconds,
                    "recovery_seconds": self.recovery_seconds,
                },
                "review_seconds": self.review_seconds,
                "secret_id": secret_id,
                "runbook": runbook,
            }
        )
