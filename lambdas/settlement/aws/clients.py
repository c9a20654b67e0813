from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

session = boto3.Session()
_making = Lock()
"""One thread at a time makes clients, as a boto3 session demands."""


class LazyClient:
    """An AWS client, made on first use. Most calls need only the DynamoDB client."""

    def __init__(self, service: str, config: Config) -> None:
        self._service, self._config = service, config
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with _making:
            if self._client is None:
                self._client = session.client(self._service, config=self._config)
        return getattr(self._client, name)
