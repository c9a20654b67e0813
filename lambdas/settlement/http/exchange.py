"""One HTTP exchange with a provider, limited in time and size."""

import logging
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from settlement.http.connection import Addresses, Cutoff, NoAnswer

logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings quote the provider's answer

ANSWER_BYTES_MAX = 65_536
"""Maximum answer size: 100 times the contracts' answers."""

IDLE_SECONDS_MAX = 30
"""Longest idle time of a connection. Gateways silently drop idle ones after minutes.

On a dropped connection, the next exchange would count as the provider's failure.
"""


class Exchanger:
    """Makes one thread's HTTP exchanges, over a connection that stays open.

    An exchange lasts at most `connect_seconds` + `read_seconds`. All addresses share `connect_seconds`.
    `read_seconds` also limits each silence of the provider.
    """

    def __init__(self, url: str, connect_seconds: int, read_seconds: int) -> None:
        self.url, self.connect_seconds, self.read_seconds = url, connect_seconds, read_seconds
        self._cutoff: Cutoff
        self._used_at = time.time()
        parsed = urllib3.util.parse_url(url)
        self.base_path = (parsed.path or "").rstrip("/")
        self._security: dict[str, Any] = {}
        if parsed.scheme == "https":
            self._security = {"cert_reqs": "CERT_REQUIRED", "ssl_context": ssl.create_default_context()}
        self._pool = self._new_pool()
        self._addresses = Addresses(self._pool.host, self._pool.port or 0)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        """Return status and body. Raises NoAnswer at the time limit of the whole exchange."""
        if time.time() - self._used_at > IDLE_SECONDS_MAX:
            self.renew()
        self._cutoff = cutoff = Cutoff(self.connect_seconds + self.read_seconds)
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
                    raise NoAnswer(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
            response.release_conn()
            answered = not cutoff.is_over
        except (HTTPError, OSError) as error:
            told = cutoff.told if cutoff.is_over else type(error).__name__
            raise NoAnswer(told) from error
        finally:
            cutoff.cancel()
            self._addresses.note(answered=answered)
            self._used_at = time.time()
        if cutoff.is_over:  # the end of the answer may be our own hang-up
            raise NoAnswer(cutoff.told)
        return response.status, content

    def renew(self) -> None:
        """Replace the connection. The old one may still carry the rest of a broken answer."""
        self._pool.close()
        self._pool = self._new_pool()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        timeout = urllib3.Timeout(connect=self.connect_seconds, read=self.read_seconds)
        pool = urllib3.connection_from_url(self.url, maxsize=1, timeout=timeout, **self._security)
        pool.ConnectionCls = self._bounded(pool.ConnectionCls)
        return pool

    def _bounded(self, connection_class: Any) -> Any:
        exchanger = self

        class _Bounded(connection_class):  # type: ignore[misc]
            def _new_conn(self: HTTPConnection) -> socket.socket:
                return exchanger._addresses.connect(exchanger.connect_seconds, exchanger._cutoff)

            def request(self: HTTPConnection, *arguments: Any, **named: Any) -> None:
                if self.sock:  # kept since an earlier exchange
                    exchanger._cutoff.watch(self.sock)
                super().request(*arguments, **named)  # type: ignore[misc]

        return _Bounded
