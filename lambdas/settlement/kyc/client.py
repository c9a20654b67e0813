"""One HTTP exchange with the KYC provider, bounded in time and size."""

import json
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from settlement.core.model import strict_json
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import Verdict
from settlement.core.telemetry import note
from settlement.kyc import opensanctions, verifications
from settlement.kyc.connection import Addresses, Cutoff

logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings quote the provider's answer

ANSWER_BYTES_MAX = 65_536
"""100 times an answer of the contract."""

IDLE_SECONDS_MAX = 30
"""Gateways silently drop idle connections after minutes, and the next question would count as the provider's
failure.
"""

_TRANSIENT_STATUSES = frozenset({408, 425, 429})  # and every status from 500 up


@dataclass(frozen=True)
class Refused:
    """A final answer: the request is refused."""

    http_status: int

    @property
    def wants_another_key(self) -> bool:
        """Whether the API key may be the cause."""
        return self.http_status in (401, 403)


class Provider(Protocol):
    NAME: str

    def path(self, dataset: str) -> str: ...
    def authorization(self, api_key: str) -> str: ...
    def body(self, settlement: Settlement, config: StageConfig) -> dict[str, Any]: ...
    def read(self, content: object, settlement: Settlement) -> Verdict: ...


_MODULES: tuple[Provider, ...] = (verifications, opensanctions)
PROVIDERS: Mapping[str, Provider] = {module.NAME: module for module in _MODULES}


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """`health_path` may be empty.

    `connect_timeout_seconds` bounds the attempts at all addresses, `read_timeout_seconds` each silence. Their
    sum bounds the whole exchange, including DNS lookup and TLS handshake.
    """

    url: str
    provider: str
    dataset: str
    connect_timeout_seconds: int
    read_timeout_seconds: int
    health_path: str = ""

    @property
    def exchange_seconds(self) -> int:
        return self.connect_timeout_seconds + self.read_timeout_seconds


class Client:
    """For one thread. It keeps its connection."""

    def __init__(self, endpoint: Endpoint, config: StageConfig) -> None:
        self.endpoint, self._config = endpoint, config
        self._provider = PROVIDERS[endpoint.provider]
        self._cutoff: Cutoff
        self._used_at = time.time()
        url = urllib3.util.parse_url(endpoint.url)
        base = (url.path or "").rstrip("/")
        self._path, self._health_path = (
            base + self._provider.path(endpoint.dataset),
            base + endpoint.health_path,
        )
        self._security: dict[str, Any] = {}
        if url.scheme == "https":
            self._security = {"cert_reqs": "CERT_REQUIRED", "ssl_context": ssl.create_default_context()}
        self._pool = self._new_pool()
        self._addresses = Addresses(self._pool.host, self._pool.port or 0)

    def ensure_can_ask(self, settlement: Settlement) -> None:
        """Raise KycRequestRefused if a field that the provider needs is missing."""
        self._provider.body(settlement, self._config)

    def ask(self, settlement: Settlement, api_key: str) -> Verdict | Refused:
        """Ask once; return a refusal as an answer. Raises KycUnavailable without a valid answer in time."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": self._provider.authorization(api_key),
            "Content-Type": "application/json",
            "Idempotency-Key": f"{settlement.key}:verify",
            "User-Agent": "settlement-saga",
        }
        body = json.dumps(self._provider.body(settlement, self._config)).encode()
        status, content = self._exchange("POST", self._path, headers, body)
        note("kyc", {"provider": self._provider.NAME, "http_status": status})
        if status in _TRANSIENT_STATUSES or status >= 500:
            raise KycUnavailable(f"kyc: the provider answers with status {status}")
        if 400 <= status < 500:
            return Refused(status)
        if status not in (200, 201):
            raise KycUnavailable(f"kyc: the provider answers with status {status}, which is no verdict")
        try:
            # A score is only ever shown: as text it stays as the provider sent it.
            return self._provider.read(strict_json.parse(content, parse_float=str), settlement)
        except ValueError as error:
            self._renew()  # the connection may still carry the rest of a broken answer
            raise KycUnavailable("kyc: the provider's answer is not what its contract says") from error

    def is_healthy(self) -> bool:
        """Whether the health check, without an API key, answers 200."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "settlement-saga"}
        try:
            status, _ = self._exchange("GET", self._health_path, headers, None)
        except KycUnavailable:
            return False
        note("kyc", {"provider": self._provider.NAME, "health_status": status})
        return status == 200

    def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        """One time limit: a read timeout bounds only each silence."""
        if time.time() - self._used_at > IDLE_SECONDS_MAX:
            self._renew()
        self._cutoff = cutoff = Cutoff(self.endpoint.exchange_seconds)
        answered = False
        try:
            response = self._pool.urlopen(
                method,
                path,
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
            answered = not cutoff.is_over
        except (HTTPError, OSError) as error:
            told = cutoff.told if cutoff.is_over else f"kyc: {type(error).__name__}"
            raise KycUnavailable(told) from error
        finally:
            cutoff.cancel()
            self._addresses.note(answered=answered)
            self._used_at = time.time()
        if cutoff.is_over:  # the end of the answer may be our own hang-up
            raise KycUnavailable(cutoff.told)
        return response.status, content

    def _renew(self) -> None:
        self._pool.close()
        self._pool = self._new_pool()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        endpoint = self.endpoint
        timeout = urllib3.Timeout(
            connect=endpoint.connect_timeout_seconds, read=endpoint.read_timeout_seconds
        )
        pool = urllib3.connection_from_url(endpoint.url, maxsize=1, timeout=timeout, **self._security)
        pool.ConnectionCls = self._bounded(pool.ConnectionCls)
        return pool

    def _bounded(self, connection_class: Any) -> Any:
        client = self

        class _Bounded(connection_class):  # type: ignore[misc]
            """A connection that the exchange's time limit can cut off."""

            def _new_conn(self: HTTPConnection) -> socket.socket:
                return client._addresses.connect(client.endpoint.connect_timeout_seconds, client._cutoff)

            def request(self: HTTPConnection, *arguments: Any, **named: Any) -> None:
                if self.sock:  # kept since an earlier exchange
                    client._cutoff.watch(self.sock)
                super().request(*arguments, **named)  # type: ignore[misc]

        return _Bounded
