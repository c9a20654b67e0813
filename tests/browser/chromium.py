"""Chromium with recorded requests and console messages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.world.templates import PROJECT

PICTURES = os.environ.get("SCREENSHOTS")
"""Folder for page pictures, set by `make screenshots`."""

AXE = PROJECT / "node_modules" / "axe-core" / "axe.min.js"
WIDE, NARROW, PAPER = 1280, 390, 718
"""Window widths: desktop, telephone, and A4 paper within margins of 10 mm."""

TABS_MAX = 200
"""Limit of Tab presses. No page here has that many Tab stops."""

_FOCUSED = """() => {
  const one = document.activeElement;
  return one.getAttribute("aria-label") || (one.labels && one.labels.length && one.labels[0].innerText)
    || one.innerText || "";
}"""
_CUT = """() => {
  const told = (one) => `${one.tagName} ${one.innerText.slice(0, 60)}`;
  const found = [...document.querySelectorAll("body *")].filter((one) => {
    const box = one.getBoundingClientRect();
    const scrolls = one.closest("thead, [role=group]");
    const overflows = one instanceof HTMLElement && one.clientWidth && one.scrollWidth > one.clientWidth + 1;
    return box.width && !scrolls && (box.right > innerWidth + 1 || overflows);
  });
  const page = document.documentElement.scrollWidth;
  return [...(page > innerWidth ? [`the page: ${page}`] : []), ...found.map(told)];
}"""
"""Lists elements that overflow the window or themselves, except in drawings and table heads."""

_FAULTS = "() => axe.run({ resultTypes: ['violations'] })"
"""Runs axe for violations only, because describing passed rules takes a third of its time."""

MILLISECONDS_MAX = 300_000
_COMMANDS = ("chromium", "chromium-browser")


@contextmanager
def browser() -> Iterator[Browser]:
    path = next((found for name in _COMMANDS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("chromium is not installed: `apt-get install chromium`, as .ci/run does")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=as_root, timeout=MILLISECONDS_MAX)
        yield started
        started.close()


class Looking:
    """A browser window with separate cookies; records requests and console messages."""

    def __init__(self, chromium: Browser, scheme: Literal["light", "dark"] = "light") -> None:
        self.scheme = scheme
        self.context = chromium.new_context(color_scheme=scheme, viewport={"width": WIDE, "height": 800})
        self.context.set_default_timeout(MILLISECONDS_MAX)
        self.page: Page = self.context.new_page()
        self.said, self.asked = list[str](), list[str]()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def go(self, address: str) -> "Looking":
        self.page.goto(address)
        return self

    def enter(self, address: str) -> "Looking":
        self.page.goto(address)
        self.page.wait_for_url(lambda url: url.endswith("/"))
        return self

    def faults(self) -> list[str]:
        self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = self.page.evaluate(_FAULTS)
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]

    def cut(self) -> list[str]:
        """Return the elements that a narrow window or a sheet of paper cuts off."""
        self.resize(NARROW)
        found: list[str] = self.page.evaluate(_CUT)
        self.resize(PAPER)
        self.page.emulate_media(media="print")
        found += [f"printed: {one}" for one in self.page.evaluate(_CUT)]
        self.page.emulate_media(media="screen")
        self.resize(WIDE)
        return found

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 800})

    def tab_to(self, name: str) -> None:
        seen = []
        for _ in range(TABS_MAX):
            self.page.keyboard.press("Tab")
            seen.append(self.page.evaluate(_FOCUSED).strip())
            if seen[-1].startswith(name):
                return
        raise AssertionError(f"{name} is not reached by Tab: {seen[:30]}")

    def choose(self, name: str) -> None:
        """Choose a link or button by keyboard, and wait for its page."""
        self.tab_to(name)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def heading(self) -> str:
        return self.page.inner_text("h1")

    def picture(self, name: str, at: str = "body") -> None:
        """Take a picture from an element downwards, if PICTURES is set."""
        if PICTURES:
            self.page.locator(at).evaluate("one => one.scrollIntoView()")
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png")

    def pictures(self, name: str, at: str = "body") -> None:
        """Take a picture at each width, in the window's colour scheme."""
        scheme = "" if self.scheme == "light" else f"-{self.scheme}"
        self.picture(f"{name}{scheme}", at)
        self.resize(NARROW)
        self.picture(f"{name}-narrow{scheme}", at)
        self.resize(WIDE)

    def close(self) -> None:
        self.context.close()
