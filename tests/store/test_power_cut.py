"""SIGKILL of an on-disk server while threads settle: nothing is torn, and all settlements end.

The server may lose the last acknowledged calls, but then no later call may survive. `POWER_CUTS=100 pytest
tests/store/test_power_cut.py` kills it 100 times.
"""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AccountExists, StoreUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy import compensation
from settlement.core.store.dynamodb import CLIENT_CONFIG, Store
from settlement.core.store.wire import from_wire
from settlement.proof import Look, reconcile
from tests.world import engines, templates
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.journal import assert_recorded, journal
from tests.world.ledger import Ledger
from tests.world.openings import opening
from tests.world.saga import ORDER, Saga

SERVERS = [
    pytest.param("dynoxide", 1, id="dynoxide"),
    pytest.param("dynamodb-local", 5, id="dynamodb-local", marks=pytest.mark.long),
]

THREADS, NEW_EACH_TIME = 8, 30
ACCOUNTS = ("alice", "bob", "carol", "dan")
DEPOSIT, AMOUNT, FEE = 50_000_000, 4820, 48
WAIT_SECONDS_MAX = 120
TABLE = "settlements"


def order(saga: Saga) -> None:
    reverse = compensation.reverse_on_order(saga.settlement, ORDER, NOW, saga.config)
    saga.ledger.store.commit(reverse)


Plan = list[tuple[str, Callable[[Saga], Any]]]
QUEUED: Plan = [("claim", Saga.claim), ("hold", partial(Saga.send, step=Step.HOLD))]
DIRECT: Plan = [("hold", Saga.claim_and_hold)]
FORWARD: Plan = [
    ("evidence", Saga.put_evidence),
    ("verify", Saga.put_verdict),
    ("release", partial(Saga.send, step=Step.RELEASE)),
    ("fee", partial(Saga.send, step=Step.FEE)),
]
BACKWARD: Plan = [
    ("reverse", order),
    *((step.reversal, partial(Saga.send_reversal, step=step)) for step in REVERSIBLE),
]
"""A settlement's calls in order, named as in the table. All are writes."""


@dataclass(frozen=True)
class Call:
    """An acknowledged call; all threads share the tick counter."""

    key: str
    name: str
    sent: int
    acknowledged: int


@dataclass
class Bank:
    config: StageConfig
    queued: set[str] = field(default_factory=set)
    reversed_: set[str] = field(default_factory=set)
    settlements: dict[str, Settlement] = field(default_factory=dict)
    acknowledged: list[Call] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    tick: Iterator[int] = field(default_factory=count)
    progress: threading.Condition = field(default_factory=threading.Condition)

    def plan(self, key: str) -> Plan:
        begin = QUEUED if key in self.queued else DIRECT
        return begin + FORWARD + BACKWARD * (key in self.reversed_)

    def ask(self, many: int) -> None:
        """Add `many` settlements between random accounts.

        Every other one is queued, which claims its key alone; every third one is to be reversed.
        """
        for number in range(len(self.settlements), len(self.settlements) + many):
            payer, payee = random.sample(ACCOUNTS, 2)
            key = f"power-cut-{number:08}"
            self.settlements[key] = Settlement(
                key=key, payer=payer, payee=payee, amount=AMOUNT, currency="EUR", fee=FEE
            )
            self.done[key] = 0
            if number % 2 == 0:
                self.queued.add(key)
            if number % 3 == 0:
                self.reversed_.add(key)

    def unfinished(self) -> list[str]:
        return [key for key, done in list(self.done.items()) if done < len(self.plan(key))]

    def balances(self) -> dict[str, int]:
        """Return the final balance of each account; a reversed settlement moves nothing."""
        available = dict.fromkeys((keys.account(name)["pk"] for name in ACCOUNTS), DEPOSIT)
        for key, settlement in self.settlements.items():
            if key not in self.reversed_:
                available[keys.account(settlement.payer)["pk"]] -= settlement.amount
                available[keys.account(settlement.payee)["pk"]] += settlement.net
        return available

    def settle(self, ledger: Ledger) -> None:
        """Call next steps of random settlements until all have ended or the table is gone."""
        while unfinished := self.unfinished():
            key = random.choice(unfinished)
            done, plan = self.done[key], self.plan(key)
            if done == len(plan):
                continue  # another thread has just ended it
            name, call = plan[done]
            sent = next(self.tick)
            try:
                call(Saga(ledger, self.settlements[key], self.config))
            except StoreUnavailable as unavailable:
                if "TransactionConflict" in str(unavailable):
                    continue
                return
            with self.progress:
                self.acknowledged.append(Call(key, name, sent, next(self.tick)))
                self.done[key] = max(self.done[key], done + 1)  # another thread may be further
                self.progress.notify_all()

    def wait_for(self, more: int) -> None:
        enough = len(self.acknowledged) + more
        with self.progress:
            assert self.progress.wait_for(lambda: len(self.acknowledged) >= enough, WAIT_SECONDS_MAX)

    @contextmanager
    def threads(self, ledger: Ledger) -> Iterator[None]:
        """Settle in threads; on exit join them and check that none failed."""
        failures: list[BaseException] = []

        def run() -> None:
            try:
                self.settle(ledger)
            except BaseException as failure:
                failures.append(failure)

        started = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in started:
            thread.start()
        yield
        for thread in started:
            thread.join(WAIT_SECONDS_MAX)
        assert not any(thread.is_alive() for thread in started)
        assert failures == []


@contextmanager
def table(server: str, folder: Path) -> Iterator[Ledger]:
    """Serve the table in that folder; kill the server on exit."""
    with engines.server(server, folder) as endpoint_url:
        patient = Config(max_pool_connections=THREADS, read_timeout=WAIT_SECONDS_MAX)
        config = CLIENT_CONFIG.merge(patient)  # a slow answer is no lost one
        client = boto3.client("dynamodb", endpoint_url=endpoint_url, config=config)
        if TABLE not in client.list_tables()["TableNames"]:
            client.create_table(TableName=TABLE, **templates.table_definition())
        ledger = Ledger(client, TABLE, Store(client, TABLE, pause=lambda failed_tries: None))
        for name in ACCOUNTS:
            with suppress(AccountExists):
                ledger.store.transact(opening(name, DEPOSIT, "EUR", NOW))
        yield ledger


def committed(bank: Bank, found: list[Row]) -> dict[str, set[str]]:
    rows = {row["pk"].removeprefix("SETTLEMENT#"): row for row in found if row["sk"] == "SETTLEMENT"}
    names = {}
    for key in bank.settlements:
        names[key] = {"evidence" if name == "verify" else name for name in journal(found, key)}
        names[key] |= {"verify"} if "verify_at" in rows.get(key, {}) else set()
        if key in bank.queued:
            names[key] |= {"claim"} if key in rows else set()
        else:
            assert (key in rows) == ("hold" in names[key]), f"{key}: claimed without its hold"
    return names


def assert_whole(ledger: Ledger) -> list[Row]:
    """Check that no transaction is torn and return the rows.

    Balances, settlements, entries and index must agree.
    """
    found = ledger.rows()
    assert_conserved(found)
    assert_recorded(found)
    findings = reconcile(found, lambda key: Look.DISAGREES)
    assert (findings.faults, findings.conserved) == ([], True)
    pages = ledger.client.get_paginator("scan").paginate(TableName=TABLE, IndexName=keys.INDEX)
    indexed = [from_wire(item) for page in pages for item in page["Items"]]
    names = ("gsi1pk", "gsi1sk", "pk", "sk")
    assert sorted(tuple(row[name] for name in names) for row in indexed) == sorted(
        tuple(row[name] for name in names) for row in found if "gsi1pk" in row
    )
    return found


def forget_what_is_lost(bank: Bank, found: list[Row]) -> int:
    """Check that only the last calls are lost; restart the plan of each unfinished settlement.

    The surviving calls are a prefix of each plan, and no call sent after a lost one was acknowledged. Return
    the number of lost calls.
    """
    survived = committed(bank, found)
    for key in bank.settlements:
        planned = [name for name, _ in bank.plan(key)]
        assert survived[key] == set(planned[: len(survived[key])]), key
        if len(survived[key]) < len(planned):
            bank.done[key] = 0
    lost = [call for call in bank.acknowledged if call.name not in survived[call.key]]
    kept = [call for call in bank.acknowledged if call.name in survived[call.key]]
    if lost:
        first_lost = min(call.acknowledged for call in lost)
        assert [call for call in kept if call.sent > first_lost] == []
    bank.acknowledged = kept
    return len(lost)


def cut_between(bank: Bank, found: list[Row]) -> int:
    """Return the number of settlements with a verdict's evidence but without the verdict."""
    return sum("evidence" in names and "verify" not in names for names in committed(bank, found).values())


@pytest.mark.parametrize(("server", "cuts"), SERVERS)
def test_a_killed_database_tears_no_transaction_and_settlements_still_end(
    tmp_path: Path, config: StageConfig, server: str, cuts: int
) -> None:
    if reason := engines.missing(server):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs a DynamoDB server: {reason}")
    bank, lost, at_work, between = Bank(config), 0, 0, 0
    cuts = int(os.environ.get("POWER_CUTS", cuts))

    for _ in range(cuts):
        bank.ask(NEW_EACH_TIME)
        with ExitStack() as threads, table(server, tmp_path) as ledger:
            found = assert_whole(ledger)
            between += cut_between(bank, found)
            lost += forget_what_is_lost(bank, found)
            threads.enter_context(bank.threads(ledger))
            bank.wait_for(random.randint(10, 60))
            # Here it is killed, and they are at work.
        at_work += bool(bank.unfinished())

    assert at_work > 0
    with table(server, tmp_path) as ledger:
        found = assert_whole(ledger)
        between += cut_between(bank, found)
        lost += forget_what_is_lost(bank, found)
        with bank.threads(ledger):
            pass  # until all have ended
        found = assert_whole(ledger)

    print(f"{cuts} times killed, {len(bank.acknowledged)} calls acknowledged, {lost} of them lost")
    print(f"{between} verdicts cut between their evidence and their row")
    assert committed(bank, found) == {key: {name for name, _ in bank.plan(key)} for key in bank.settlements}
    assert {keys.subject(row)[1]: row["status"] for row in found if keys.is_settlement(row)} == {
        key: Status.COMPENSATED if key in bank.reversed_ else Status.SETTLED for key in bank.settlements
    }
    assert {row["pk"]: row["available"] for row in found if row["sk"] == "BALANCE"} == bank.balances()
