"""The only way to a KYC provider: one HTTP exchange, bounded in time and size, and what its answer means."""

import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError

from settlement import kyc_opensanctions, kyc_verifications
from settlement.errors import KycUnavailable
from settlement.request import Settlement
from settlement.telemetry import logger
from settlement.terms import Terms
from settlement.verdict import Verdict

logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings quote what a provider has sent

ANSWER_BYTES_MAX = 65_536
"""The longest answer that is read; whatever sends more is not speaking the contract."""

IDLE_SECONDS_MAX = 30
"""How long a connection is kept without use. Gateways on the way forget one after minutes, and tell nobody:
the question that finds out would count as a failure of the provider.
"""

_TRANSIENT_STATUSES = frozenset({408, 425, 429})  # and every status from 500 up


@dataclass(frozen=True)
class Refused:
    """The provider does not accept the request: an answer, and a final one."""

    http_status: int

    @property
    def wants_another_key(self) -> bool:
        """Whether it may be the API key that is not accepted."""
        return self.http_status in (401, 403)


class Provider(Protocol):
    """What a provider's own file must have: its shape of a question and of an answer."""

    NAME: str

    def path(self, dataset: str) -> str: ...  # noqa: D102
    def authorization(self, api_key: str) -> str: ...  # noqa: D102
    def body(self, settlement: Settlement, terms: Terms) -> dict[str, Any]: ...  # noqa: D102
    def read(self, content: object, settlement: Settlement) -> Verdict: ...  # noqa: D102


_MODULES: tuple[Provider, ...] = (kyc_verifications, kyc_opensanctions)
PROVIDERS: Mapping[str, Provider] = {module.NAME: module for module in _MODULES}
"""The providers that a stage may choose from, by the names that its settings use."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the stage's provider is, which it is, and how long to wait for it.

    `read_timeout_seconds` bounds each silence; an exchange ends after both timeouts together at the latest.
    """

    url: str
    provider: str
    dataset: str
    connect_timeout_seconds: int
    read_timeout_seconds: int


class Client:
    """Asks the provider. Its connection is kept for the next question; it serves one thread."""

    def __init__(self, endpoint: Endpoint, terms: Terms) -> None:
        self._endpoint, self._terms = endpoint, terms
        self._provider = PROVIDERS[endpoint.provider]
        self._socket: socket.socket | None = None
        self._too_late = False
        self._used_at = time.time()
        url = urllib3.util.parse_url(endpoint.url)
        self._path = (url.path or "").rstrip("/") + self._provider.path(endpoint.dataset)
        self._security: dict[str, Any] = {}
        if url.scheme == "https":
            self._security = {"cert_reqs": "CERT_REQUIRED", "ssl_context": ssl.create_default_context()}
        self._pool = self._new_pool()

    def ask(self, settlement: Settlement, api_key: str) -> Verdict | Refused:
        """Ask about a payment, once. A refusal of the request is an answer, so it is returned and not raised.

        Raises KycUnavailable where no answer, none in time, or none that makes sense has come.
        """
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": self._provider.authorization(api_key),
            "Content-Type": "application/json",
            "Idempotency-Key": f"{settlement.key}:verify",
            "User-Agent": "settlement-saga",
        }
        body = json.dumps(self._provider.body(settlement, self._terms)).encode()
        status, content = self._exchange(headers, body)
        logger.info("kyc", provider=self._provider.NAME, http_status=status)
        if status in _TRANSIENT_STATUSES or status >= 500:
            raise KycUnavailable(f"kyc: the provider answers with status {status}")
        if 400 <= status < 500:
            return Refused(status)
        if status not in (200, 201):
            raise KycUnavailable(f"kyc: the provider answers with status {status}, which is no verdict")
        try:
            # A score is only ever shown: as text it is what the provider has sent.
            return self._provider.read(json.loads(content, parse_float=str), settlement)
        except (ValueError, RecursionError) as error:
            self._renew()  # who knows what is still on its way
            raise KycUnavailable("kyc: the provider's answer is not what its contract says") from error

    def _exchange(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Send and receive within the time for all of it, which a timeout for each silence cannot grant."""
        if time.time() - self._used_at > IDLE_SECONDS_MAX:
            self._renew()
        seconds = self._endpoint.connect_timeout_seconds + self._endpoint.read_timeout_seconds
        self._too_late = False
        timer = threading.Timer(seconds, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            response = self._pool.urlopen(
                "POST",
                self._path,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
                enforce_content_length=True,
            )
            content = b""
            while part := response.read(ANSWER_BYTES_MAX, decode_content=False):
                content += part
                if len(content) > ANSWER_BYTES_MAX:
                    response.close()
                    raise KycUnavailable(f"kyc: the answer is longer than {ANSWER_BYTES_MAX} bytes")
            response.release_conn()
        except (HTTPError, OSError) as error:
            raise KycUnavailable(f"kyc: {type(error).__name__}") from error
        finally:
            timer.cancel()
            self._used_at = time.time()
        if self._too_late:  # what looks like the end of the answer may be our own
            raise KycUnavailable(f"kyc: the exchange took longer than {seconds} s")
        return response.status, content

    def _renew(self) -> None:
        self._pool.close()
        self._pool = self._new_pool()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        endpoint = self._endpoint
        timeout = urllib3.Timeout(
            connect=endpoint.connect_timeout_seconds, read=endpoint.read_timeout_seconds
        )
        pool = urllib3.connection_from_url(endpoint.url, maxsize=1, timeout=timeout, **self._security)
        pool.ConnectionCls = self._remembering(pool.ConnectionCls)
        return pool

    def _hang_up(self) -> None:
        self._too_late = True
        if self._socket is not None:
            with suppress(OSError):  # past TLS, whose own shutdown another thread must not touch
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _remembering(self, connection_class: Any) -> Any:
        client = self

        class Remembering(connection_class):  # type: ignore[misc]
            """A connection that leaves word of its socket, so that it can be cut off from outside."""

            def connect(self: HTTPConnection) -> None:
                client._socket = None
                super().connect()  # type: ignore[misc]
                client._socket = self.sock
                if client._too_late:  # looking up the name is bounded by nobody
                    raise ConnectTimeoutError("connected too late")

        return Remembering
