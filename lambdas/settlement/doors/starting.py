import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from settlement.core.model import executions
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import KEY, Request, parse_request
from settlement.core.model.stage_config import StageConfig
from settlement.reading.queries import WAIT_SECONDS_MAX

KEY_HEADER = "Idempotency-Key"
_QUOTED = re.compile(r'"([^"\\]*)"')
_SECONDS = re.compile(r"[1-9][0-9]?", re.ASCII)


class Start(NamedTuple):
    """A request to start. `wait`: seconds to wait for the outcome, or 0."""

    request: Request
    wait: int

    @property
    def execution(self) -> str:
        """The execution's name. A repeat with the same content has the same name."""
        content = json.dumps(vars(self.request), sort_keys=True)
        return executions.queued(self.request.key, content)


def parse_start(headers: Mapping[str, str], body: Mapping[str, Any], config: StageConfig) -> Start:
    """Parse a call to start a settlement. Header names are in lower case. Raises InvalidRequest."""
    key = headers.get(KEY_HEADER.lower())
    if key is None:
        raise InvalidRequest(f"{KEY_HEADER}: missing")
    if not KEY.fullmatch(key):
        raise InvalidRequest(f"{KEY_HEADER}: must match ^{KEY.pattern}$")
    wait = _wait(headers.get("prefer", ""))
    request = parse_request({"key": key, **body}, config)
    if request.key != key:
        raise InvalidRequest(f"key: must be that of the header {KEY_HEADER}, or be left out")
    return Start(request, wait)


def _wait(prefer: str) -> int:
    """Seconds of the first `wait` preference. RFC 7240 says to ignore others."""
    for preference in _parts(prefer, ","):
        name, _, text = next(_parts(preference, ";"), "").partition("=")
        if name.strip().lower() == "wait":
            seconds = _QUOTED.sub(r"\1", text.strip())
            if not (_SECONDS.fullmatch(seconds) and int(seconds) <= WAIT_SECONDS_MAX):
                raise InvalidRequest(f"Prefer: wait must be a whole number from 1 to {WAIT_SECONDS_MAX}")
            return int(seconds)
    return 0


def _parts(text: str, separator: str) -> Iterator[str]:
    yield from (part[0] for part in re.finditer(rf'(?:[^"{separator}]|"(?:[^"\\]|\\.)*"?)+', text))
