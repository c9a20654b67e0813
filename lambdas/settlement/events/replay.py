from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import fields_of, is_key
from settlement.core.model.request import KEY

REPLAY = "replay"

REPLAYED_MAX = 50
"""Maximum settlements of a replay. Each costs a read; together they cost five calls of the bus."""


def parse_replay(raw: object) -> list[str]:
    """The keys without duplicates. Raises InvalidRequest."""
    keys = fields_of(raw, ("keys",))["keys"]
    if not isinstance(keys, list) or not 0 < len(keys) <= REPLAYED_MAX or not all(map(is_key, keys)):
        raise InvalidRequest(f"keys: must be a list of 1 to {REPLAYED_MAX} keys that match ^{KEY.pattern}$")
    return list(dict.fromkeys(keys))
