"""A check's clock, HTTP client and secrets, in a function."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import urllib3
from aws_lambda_powertools.utilities.parameters import SecretsProvider
from botocore.config import Config
from urllib3.exceptions import HTTPError

from settlement.aws import clients
from settlement.checks.check import Reply

BODY_BYTES_MAX = 65_536
SECRET_CACHE_SECONDS = 60

_secrets = SecretsProvider(
    boto3_client=clients.session.client(
        "secretsmanager",
        config=Config(
            connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
        ),
    )
)


@dataclass(frozen=True)
class CheckTools:
    """A check's tools. `secret_ids` maps its secrets' names to ARNs."""

    now: Callable[[], datetime]
    seconds: float
    secret_ids: Mapping[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        return self.seconds - (time.monotonic() - self.began)

    def http(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        if self.seconds_left <= 0:
            raise TimeoutError("the check's time is over")
        pool = urllib3.PoolManager(maxsize=1, retries=False)
        try:
            response: Any = pool.request(
                method,
                url,
                headers=headers,
                body=body,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(total=self.seconds_left),
            )
            return Reply(response.status, self._read(response))
        except HTTPError as error:
            raise OSError(f"{type(error).__name__}") from error
        finally:
            pool.clear()

    def _read(self, response: Any) -> bytes:
        content = b""
        while part := response.read(4_096, decode_content=False):
            content += part
            if len(content) > BODY_BYTES_MAX:
                raise OSError(f"the answer is longer than {BODY_BYTES_MAX} bytes")
            if self.seconds_left <= 0:
                raise TimeoutError("the check's time is over")
        return content

    def secret(self, name: str) -> str:
        if name not in self.secret_ids:
            raise KeyError(f"{name} is no secret of this check")
        value = _secrets.get(self.secret_ids[name], max_age=SECRET_CACHE_SECONDS)
        if not isinstance(value, str):
            raise ValueError(f"{name} is no text")
        return value
