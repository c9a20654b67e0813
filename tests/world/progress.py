"""Prints how many tests have ended, and which ones run for long."""

import time
from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest

EVERY_SECONDS = 10

LONG_SECONDS = 60
"""Running time after which a test is named repeatedly, also in an aborted run's last lines."""


class Progress:
    def __init__(self, print_line: Any) -> None:
        self._print_line = print_line
        self._began = self._told = time.monotonic()
        self._total = self._ended = 0
        self._running: dict[str, float] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[object]) -> None:
        self._tell(f"{len(specs)} processes collect the tests")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if not self._total:
            self._tell(f"{len(ids)} tests")
        self._total = len(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = self._total or len(session.items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._ended += 1
        if time.monotonic() - self._told >= EVERY_SECONDS:
            self._tell(f"{self._ended} of {self._total} tests, now in {nodeid.partition('::')[0]}")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("passed", "", "PASSED") if report.passed and report.when == "call" else None

    def watch(self) -> None:
        """Name long-running tests until the process ends."""
        while True:
            time.sleep(LONG_SECONDS)
            now = time.monotonic()
            for name, since in list(self._running.items()):
                if now - since >= LONG_SECONDS:
                    self._tell(f"{self._ended} of {self._total} tests; {name} runs for {now - since:.0f} s")

    def _tell(self, text: str) -> None:
        self._told = time.monotonic()
        self._print_line(f"{self._told - self._began:4.0f} s  {text}")


@pytest.hookimpl(trylast=True)  # after the terminal reporter
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a process of xdist: only the controller prints
        return
    reporter = config.pluginmanager.getplugin("terminalreporter")
    progress = Progress(lambda line: reporter.write_line(line, flush=True))
    config.pluginmanager.register(progress)
    Thread(target=progress.watch, daemon=True).start()
