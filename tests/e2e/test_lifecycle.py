import json
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from settle.local.processes import KYC_SIMULATOR
from tests.e2e.embedded import (
    COMMAND_SECONDS_MAX,
    SETTLE,
    Embedded,
    at_once,
    at_work,
    embedded_aws,
    new_key,
    new_request,
)

pytestmark = pytest.mark.long
Raced = tuple[Embedded, list[dict[str, object]]]


@pytest.fixture(scope="module")
def raced() -> Iterator[Raced]:
    with embedded_aws() as embedded:
        yield embedded, at_once([embedded.up, embedded.up])


@pytest.fixture
def home() -> Iterator[Embedded]:
    with embedded_aws() as embedded:
        yield embedded


def servers(embedded: Embedded) -> list[psutil.Process]:
    return [process for process in embedded.processes() if "ministack" in process.cmdline()]


def providers(embedded: Embedded) -> list[psutil.Process]:
    return [process for process in embedded.processes() if KYC_SIMULATOR in process.cmdline()]


def opened(embedded: Embedded, account: str, deposit: str) -> None:
    """Open an account; repeat the order if a busy machine's first call of a function timed out."""
    words = ("account", "open", account, "--currency", "EUR", "--deposit", deposit)

    def opens() -> bool:
        finished = embedded.settle(*words)
        print(finished.stderr)
        assert finished.returncode == 0 or "not known to be: " in finished.stderr, finished
        return finished.returncode == 0

    embedded.wait_for(opens)


def settle_one(embedded: Embedded) -> str:
    for account, deposit in (("alice", "100.00"), ("bob", "0")):
        opened(embedded, account, deposit)
    request = {"key": new_key("life"), "payer": "alice", "payee": "bob", "amount": "1.00", "currency": "EUR"}
    return str(embedded.told("start", "-", stdin=json.dumps(request))["status"])


def test_two_concurrent_up_commands_start_one_embedded_aws(raced: Raced) -> None:
    embedded, (first, second) = raced

    assert first == second
    assert len(servers(embedded)) == 1
    assert servers(embedded)[0].pid == embedded.running().pid
    assert len(providers(embedded)) == 1


def test_up_starts_afresh_after_a_kill_during_payments(
    raced: Raced,
) -> None:
    embedded, _ = raced
    wanted = new_request(embedded, amount="1.00")
    for _ in range(20):
        embedded.run("SettlementStandardArn", wanted | {"key": new_key("killed")})
    orphans = embedded.processes()

    psutil.Process(embedded.running().pid).kill()
    status = embedded.settle("local", "status")
    up = embedded.settle("local", "up", "--json")

    assert (status.returncode, status.stdout) == (3, "")
    assert len(status.stderr.splitlines()) == 1
    assert up.returncode == 0, up.stderr
    assert at_work(orphans) == []
    assert len(servers(embedded)) == len(providers(embedded)) == 1
    afresh = Embedded(embedded.home)
    assert afresh.rows() == []
    assert settle_one(afresh) == "SETTLED"
    assert afresh.conserved()


def test_down_stops_all_processes_and_may_be_repeated(raced: Raced) -> None:
    embedded, _ = raced
    assert len(embedded.processes()) > 1

    first, second = (embedded.settle("local", "down", "--json") for _ in range(2))

    assert (first.returncode, json.loads(first.stdout)) == (0, {"stopped": True})
    assert (second.returncode, json.loads(second.stdout)) == (0, {"stopped": False})
    assert at_work(embedded.processes()) == []
    assert sorted(file.name for file in embedded.home.iterdir()) == ["lock"]
    assert embedded.settle("local", "status").returncode == 3


def test_up_starts_afresh_after_a_kill_during_deployment(home: Embedded) -> None:
    log = home.home / "up.log"
    with log.open("wb") as output:
        interrupted = subprocess.Popen([SETTLE, "local", "up"], env=home.environment, stderr=output)
        home.wait_for(lambda: b"deploying" in log.read_bytes() or interrupted.poll() is not None)
        interrupted.kill()
        interrupted.wait()
    assert interrupted.returncode == -9, log.read_text()
    left = home.processes()
    assert home.settle("local", "status").returncode == 3

    home.up()

    assert at_work(left) == []
    assert len(servers(home)) == 1
    assert settle_one(home) == "SETTLED"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_up_that_is_interrupted_while_deploying_leaves_no_process(
    home: Embedded, ending: signal.Signals
) -> None:
    log = home.home / "up.log"
    with log.open("wb") as output:
        ended = subprocess.Popen(
            [SETTLE, "local", "up"],
            env=home.environment,
            stderr=output,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 (`nohup` ignores it)
        )
        home.wait_for(lambda: b"deploying" in log.read_bytes() or ended.poll() is not None)
        ended.send_signal(ending)
        code = ended.wait(COMMAND_SECONDS_MAX)

    assert code == 128 + ending, log.read_text()
    home.wait_for(lambda: at_work(home.processes()) == [])  # what was killed may take a moment to die
    status = home.settle("local", "status")
    assert (status.returncode, status.stderr) == (
        3,
        "settle: the embedded AWS is not running; start it with `settle local up`\n",
    )
