from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from settlement.proof import pages, payout_look, second_look


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(payout_look, "PAUSE_SECONDS", 0)


class _AtOnce(Executor):
    def __init__(self, threads: int) -> None:
        assert threads == 1

    def submit(self, act: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done = Future[Any]()
        done.set_result(act(*given, **named))
        return done


@pytest.fixture
def one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan without threads, for tests with many proofs."""
    monkeypatch.setattr(pages, "SEGMENTS", 1)
    monkeypatch.setattr(pages, "ThreadPoolExecutor", _AtOnce)
