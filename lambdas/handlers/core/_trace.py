from handlers import _dependencies
from settlement.core import telemetry


def header(key: str) -> str | None:
    """Return the X-Ray header of a new, sampled trace, if the stage's `log_full_keys` have the key."""
    if not telemetry.is_named(key):
        return None
    began = int(_dependencies.now().timestamp())
    return f"Root=1-{began:08x}-{''.join(_dependencies.nonce() for _ in range(3))};Sampled=1"
