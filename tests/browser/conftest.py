from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Looking, browser
from tests.settle.conftest import desk, ledger

__all__ = ["desk", "ledger"]

Looks = Callable[..., Looking]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def look(chromium: Browser) -> Iterator[Looks]:
    """Yield a function that opens windows. At the end, check that the browser's console is empty."""
    opened = list[Looking]()

    def looks(scheme: str = "light") -> Looking:
        opened.append(Looking(chromium, scheme))  # type: ignore[arg-type]
        return opened[-1]

    yield looks
    said = [line for one in opened for line in one.said]
    for one in opened:
        one.close()
    assert said == []
