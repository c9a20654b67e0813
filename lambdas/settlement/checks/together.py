"""Asks all checks at once, each in its own thread, under one deadline.

A thread that misses the deadline cannot be stopped. It continues, and its answer is lost.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any

STUCK_MAX = 8
"""Maximum stuck threads of a check in one environment. Above it, this environment stops asking the check."""

_stuck: dict[str, list[Future[Any]]] = {}


class TooLate(Exception):
    pass


def ask(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Return each call's answer, or its exception."""
    begun = {name: _begin(name, call) for name, call in calls.items()}
    wait([future for future in begun.values() if isinstance(future, Future)], timeout=max(0, seconds))
    return {name: _answer(name, future) for name, future in begun.items()}


def _begin(name: str, call: Callable[[], Any]) -> Future[Any] | TooLate:
    still = _stuck[name] = [future for future in _stuck.get(name, []) if not future.done()]
    if len(still) >= STUCK_MAX:
        return TooLate(f"is not asked: {len(still)} earlier calls are stuck")
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # SystemExit, too, must not end the thread in silence
            future.set_exception(error)

    threading.Thread(target=run, name=f"check-{name}", daemon=True).start()
    return future


def _answer(name: str, future: Future[Any] | TooLate) -> Any:
    if isinstance(future, TooLate):
        return future
    if not future.done():
        _stuck[name].append(future)
        return TooLate("gave no answer in time")
    return future.exception() or future.result()
