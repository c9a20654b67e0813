import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settlement.core.model import strict_json
from settlement.core.model.request import KEY

INPUT_BYTES_MAX = 262_144
"""AWS's limit on an execution's input."""


def read_requests(file: str) -> list[str]:
    """Return a file's raw requests, as `numbered` reads them."""
    return list(numbered(file).values())


def numbered(file: str) -> dict[int, str]:
    """Return raw requests by line number: the whole file if it is one JSON value, else its lines.

    `-` reads standard input. Raises CommandFailed.
    """
    text = _text(file)
    requests = {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    with suppress(ValueError, RecursionError):
        json.loads(text)  # lenient: key_of applies the strict rules to the whole request
        requests = {1: text}
    if not requests:
        raise CommandFailed(Exit.USAGE, f"file: {file} holds no request")
    for number, request in requests.items():
        try:
            key_of(request)
        except CommandFailed as failure:
            raise CommandFailed(failure.code, f"line {number}: {failure}; nothing was sent") from failure
    return requests


def _text(file: str) -> str:
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except UnicodeDecodeError as error:
        told = f"file: {file} must be UTF-8, and is not at byte {error.start}"
        raise CommandFailed(Exit.USAGE, told) from error
    except OSError as error:
        told = f"file: {file} cannot be read: {error.strerror or error}"
        raise CommandFailed(Exit.USAGE, told) from error


def labelled(request: str, reference: str | None, metadata: Mapping[str, str]) -> str:
    """Add a reference and metadata to a request. Raises CommandFailed if it has its own."""
    added: dict[str, Any] = {"reference": reference} if reference is not None else {}
    added |= {"metadata": metadata} if metadata else {}
    if not added:
        return request
    content = json.loads(request)
    if not isinstance(content, dict):
        raise CommandFailed(Exit.USAGE, "request: must be a JSON object")
    if named := sorted(added.keys() & content.keys()):
        raise CommandFailed(Exit.USAGE, f"{', '.join(named)}: the request has its own; nothing was sent")
    return json.dumps(content | added)


def key_of(request: str) -> str:
    """Return the request's key, or "refused" if the machine will refuse the request.

    Raises CommandFailed for malformed JSON or excessive size.
    """
    try:
        content = strict_json.parse(request)
    except strict_json.Malformed as fault:
        raise CommandFailed(Exit.USAGE, f"request: {fault}") from fault
    if len(request.encode()) > INPUT_BYTES_MAX:
        raise CommandFailed(Exit.USAGE, f"request: must be at most {INPUT_BYTES_MAX} bytes")
    key = content.get("key") if isinstance(content, dict) else None
    return key if isinstance(key, str) and KEY.fullmatch(key) else "refused"
