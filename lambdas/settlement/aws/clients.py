"""Clients of AWS. Each is made when it is first used: most calls need no other than DynamoDB's."""

from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

session = boto3.Session()
_making = Lock()
"""A session makes one client at a time."""


class LazyClient:
    """A client of AWS that is made when it is first used."""

    def __init__(self, service: str, config: Config) -> None:
        self._service, self._config = service, config
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the client."""
        with _making:
            if self._client is None:
                self._client = session.client(self._service, config=self._config)
        return getattr(self._client, name)
