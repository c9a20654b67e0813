import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from settlement.core.model import strict_json
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import Verdict
from settlement.core.telemetry import note
from settlement.http.connection import NoAnswer
from settlement.http.exchange import Exchanger
from settlement.kyc import opensanctions, verifications

_TRANSIENT_STATUSES = frozenset({408, 425, 429})  # and every status from 500 up


@dataclass(frozen=True)
class Refused:
    """The provider refuses the request. This answer is final."""

    http_status: int

    @property
    def wants_another_key(self) -> bool:
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
    """The provider's address. An empty `health_path` means: no health check.

    The two timeouts limit an exchange as in `Exchanger`. They include DNS lookup and TLS handshake.
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
    """A client for one thread. It keeps its connection."""

    def __init__(self, endpoint: Endpoint, config: StageConfig) -> None:
        self.endpoint, self._config = endpoint, config
        self._provider = PROVIDERS[endpoint.provider]
        self._exchanger = Exchanger(
            endpoint.url, endpoint.connect_timeout_seconds, endpoint.read_timeout_seconds
        )
        base = self._exchanger.base_path
        self._path, self._health_path = (
            base + self._provider.path(endpoint.dataset),
            base + endpoint.health_path,
        )

    def ensure_can_ask(self, settlement: Settlement) -> None:
        """Raise KycRequestRefused if a field is missing that the provider needs."""
        self._provider.body(settlement, self._config)

    def ask(self, settlement: Settlement, api_key: str) -> Verdict | Refused:
        """Ask once. Return the verdict or a refusal. Raises KycUnavailable without a valid answer in time."""
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
            self._exchanger.renew()
            raise KycUnavailable("kyc: the provider's answer is not what its contract says") from error

    def is_healthy(self) -> bool:
        """Whether the health check answers 200. It uses no API key."""
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
        try:
            return self._exchanger.exchange(method, path, headers, body)
        except NoAnswer as none:
            raise KycUnavailable(f"kyc: {none}") from none
