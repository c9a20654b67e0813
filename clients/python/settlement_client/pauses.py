import random

_PAUSES_SECONDS = (1, 2, 4, 8, 16)


def pause_seconds(failures: int) -> float:
    """Return the pause after the nth failure in a row: a random part of 1, 2, 4, 8, then 16 s.

    Full jitter: callers that fail together do not retry together.
    """
    return random.random() * _PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS)) - 1]  # noqa: S311 (no secret)
