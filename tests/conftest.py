"""Fixtures for all tests, and the choice of the DynamoDB that a test runs on."""

from tests.world.environment import NOW  # isort: split

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest

from handlers import _dependencies
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from tests.world import engines, tables
from tests.world import ledger as ledgers
from tests.world.constants import NONCE
from tests.world.ledger import Ledger

__all__ = ["NOW"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=("dynoxide", "dynamodb-local"),
        help="the DynamoDB server of the tests that need one; by default Dynoxide, where it has a binary",
    )


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let xdist's processes begin at different files, and so share the rewriting of assertions."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Directory):
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Restore one order of tests for all xdist processes."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: str(item.path))


def pytest_collection_finish() -> None:
    """Freeze the imported objects, which the garbage collector would otherwise visit in every test."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Give a bytes parameter a printable id, because mutmut runs tests by their ids."""
    return repr(val)[2:-1] if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a DynamoDB server, which runs for as long as the tests do."""
    engine = request.config.getoption("--server")
    engine = engine or ("dynamodb-local" if engines.missing("dynoxide") else "dynoxide")
    if reason := engines.missing(engine):
        if os.environ.get("CI"):
            pytest.fail(f"CI must run a DynamoDB server, but {reason}")
        pytest.skip(f"needs a DynamoDB server: {reason}")
    with engines.server(engine) as endpoint_url:
        yield endpoint_url


@pytest.fixture(autouse=True)
def _nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the nonce of executions' names by one that tests know."""
    monkeypatch.setattr(_dependencies, "nonce", lambda: NONCE)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Restore the signal handlers that a command has replaced; outside tests, its process would end."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for one, handler in before.items():
        if signal.getsignal(one) is not handler:
            signal.signal(one, handler)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The table's engine: the model in memory, unless a folder or a test is marked `server`.

    `tests/store/test_memory.py` proves that the model answers as the servers do.
    """
    return "server" if request.node.get_closest_marker("server") else "memory"


@pytest.fixture
def ledger(engine: str, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """A fresh table, and the store over it."""
    if engine == "memory":
        yield ledgers.in_memory()
    else:
        assert engine == "server", engine
        with tables.on_server(request.getfixturevalue("server_url")) as made:
            yield made


@pytest.fixture(scope="session")
def config() -> StageConfig:
    return StageConfig.from_json(os.environ["STAGE_CONFIG"])


@pytest.fixture
def settlement() -> Settlement:
    """Alice pays Bob 48.20 EUR, of which 0.48 EUR are the fee."""
    return Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
    )
