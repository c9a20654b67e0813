import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import KEY, Request, parse_request
from settlement.core.model.stage_config import StageConfig

IF_MATCH = "If-Match"
_ETAG = re.compile(r'"(0|[1-9][0-9]{0,14})"', re.ASCII)


class Cancel(NamedTuple):
    request: Request
    seen: int | None


def parse_cancel(
    key: object, headers: Mapping[str, str], body: Mapping[str, Any], config: StageConfig
) -> Cancel:
    """Parse a call to cancel a settlement. Header names are in lower case. Raises InvalidRequest.

    The body repeats the whole request: only its owner knows it and may cancel.
    """
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must match ^{KEY.pattern}$")
    given = headers.get(IF_MATCH.lower())
    seen = None if given is None else _ETAG.fullmatch(given.strip())
    if given is not None and seen is None:
        raise InvalidRequest(f'{IF_MATCH}: must be the ETag of its outcome, such as "3"')
    request = parse_request({"key": key, **body}, config)
    if request.key != key:
        raise InvalidRequest("key: must be that of the path, or be left out")
    return Cancel(request, int(seen[1]) if seen else None)
