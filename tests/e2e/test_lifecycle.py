import json
import subprocess
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from settle.actions import accounts
from settle.local.processes import KYC_SIMULATOR
from settle.queries import table_scan
from tests.e2e.embedded import SETTLE, Embedded, at_once, embedded_aws, new_key
from tests.e2e.provider import control, payment

SECONDS_MAX = 120


@pytest.fixture(scope="module")
def raced() -> Iterator[tuple[Embedded, list[dict[str, object]]]]:
    """A home in which two people typed `up` at the same moment, and what each of them was told."""
    with embedded_aws() as embedded:
        yield embedded, at_once([embedded.up, embedded.up])


@pytest.fixture
def home() -> Iterator[Embedded]:
    with embedded_aws() as embedded:
        yield embedded


def until(condition: Callable[[], bool]) -> bool:
    """Wait for the condition, but not for ever; return whether it came true."""
    give_up_at = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.1)
    return True


def servers(embedded: Embedded) -> list[psutil.Process]:
    return [process for process in embedded.processes() if "ministack" in process.cmdline()]


def providers(embedded: Embedded) -> list[psutil.Process]:
    return [process for process in embedded.processes() if KYC_SIMULATOR in process.cmdline()]


def at_work(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended; one that has may wait a while for its parent to take note."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def settle_one(embedded: Embedded) -> str:
    """Settle one payment in a home of which nothing is known; return how it ended."""
    for account, deposit in (("alice", "100.00"), ("bob", "0")):
        opened = embedded.settle("account", "open", account, "--currency", "EUR", "--deposit", deposit)
        assert opened.returncode == 0, opened.stderr
    request = {"key": new_key("life"), "payer": "alice", "payee": "bob", "amount": "1.00", "currency": "EUR"}
    finished = embedded.settle("start", "-", "--json", stdin=json.dumps(request))
    assert finished.returncode == 0, finished.stderr
    status: str = json.loads(finished.stdout)["status"]
    return status


def test_two_concurrent_ups_start_one_embedded_aws(raced: tuple[Embedded, list[dict[str, object]]]) -> None:
    embedded, (first, second) = raced

    assert first == second
    assert len(servers(embedded)) == 1
    assert servers(embedded)[0].pid == embedded.running().pid
    assert len(providers(embedded)) == 1


def test_everything_listens_on_this_machine_only(embedded: Embedded) -> None:
    """Asked of the first embedded AWS that is up: a second one leaves alone the ports that the first took."""
    embedded.invoke("ClaimKey", {})  # so that there is a function with a server for it
    assert len(embedded.processes()) > 1

    listening = {
        connection.laddr
        for process in embedded.processes()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }

    assert listening
    assert {address.ip for address in listening} == {"127.0.0.1"}, listening
    assert embedded.running().kyc_port in {address.port for address in listening}


def test_a_provider_that_died_is_started_again_where_it_was_and_knows_its_secrets(
    raced: tuple[Embedded, list[dict[str, object]]],
) -> None:
    embedded, (before, _) = raced
    (provider,) = providers(embedded)
    provider.kill()
    provider.wait()

    again = embedded.up()

    assert again == before
    assert len(providers(embedded)) == 1
    one = payment(embedded, "review-approve")
    one.start()
    assert one.over()["status"] == "SETTLED", "by a webhook that was signed, and came to the right place"


def test_a_provider_that_was_never_told_its_secrets_is_told_by_the_next_up(
    raced: tuple[Embedded, list[dict[str, object]]],
) -> None:
    """As a crash of `up` leaves it, between its start and what it is told."""
    embedded, _ = raced
    control(embedded, api_keys=[], signing_secret="", webhook_url="")

    embedded.up()

    one = payment(embedded, "review-approve")
    one.start()
    assert until(lambda: one.row()["status"] == "SETTLED"), one.row()


def test_after_a_kill_in_the_middle_of_its_work_up_begins_afresh(
    raced: tuple[Embedded, list[dict[str, object]]],
) -> None:
    embedded, _ = raced
    stack, machines = embedded.stack, embedded.step_functions
    accounts.open_account(stack, "carla", "EUR", "100.00")
    accounts.open_account(stack, "dora", "EUR", "0")
    wanted = {"payer": "carla", "payee": "dora", "amount": "1.00", "currency": "EUR"}
    for _ in range(20):
        machines.start_execution(
            stateMachineArn=stack.outputs["SettlementStandardArn"],
            input=json.dumps(wanted | {"key": new_key("killed")}),
        )
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
    assert table_scan.check(afresh.stack).conserved


def test_down_stops_all_of_it_and_may_be_repeated(raced: tuple[Embedded, list[dict[str, object]]]) -> None:
    embedded, _ = raced
    assert len(embedded.processes()) > 1

    first, second = (embedded.settle("local", "down", "--json") for _ in range(2))

    assert (first.returncode, json.loads(first.stdout)) == (0, {"stopped": True})
    assert (second.returncode, json.loads(second.stdout)) == (0, {"stopped": False})
    assert at_work(embedded.processes()) == []
    assert sorted(file.name for file in embedded.home.iterdir()) == ["lock"]
    assert embedded.settle("local", "status").returncode == 3


def test_after_a_kill_in_the_middle_of_a_deployment_up_begins_afresh(home: Embedded) -> None:
    log = home.home / "up.log"
    with log.open("wb") as output:
        interrupted = subprocess.Popen([SETTLE, "local", "up"], env=home.environment, stderr=output)
        deploying = until(lambda: b"deploying" in log.read_bytes() or interrupted.poll() is not None)
        interrupted.kill()
        interrupted.wait()
    assert deploying
    assert interrupted.returncode == -9, log.read_text()
    left = home.processes()
    assert home.settle("local", "status").returncode == 3

    home.up()

    assert at_work(left) == []
    assert len(servers(home)) == 1
    assert settle_one(home) == "SETTLED"
