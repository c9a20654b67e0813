"""Payouts leave while functions die and the bank stalls, fails and loses answers; none is paid twice.

`PAYOUT_STORM=1000 pytest --timeout 0 tests/e2e/payouts/test_payout_storm.py` sets the number of payouts
(default 200).
"""

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, cycle, islice, repeat
from threading import Event, Thread
from typing import Any

import psutil
import pytest
import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from settle.accounts.accounts import give, open_account
from settle.door import Answer
from settle.local import processes
from settle.local.bank_behaviour import Behaviour
from settle.local.demo import persons
from settle.order import give as order
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.payouts.moves import Move
from settlement.payouts.payout import Status, reference_of
from tests.e2e.embedded import Embedded, embedded_aws, new_key
from tests.e2e.test_storm import functions, is_busy

pytestmark = pytest.mark.long

PAYOUTS = int(os.environ.get("PAYOUT_STORM", "200"))
THREADS, REPEATS = 8, 2
KILLS_MIN, STALLS_MIN = PAYOUTS // 20, 2
SECONDS_MAX = 900 + 5 * PAYOUTS
"""Time limit of each phase."""

PAUSES_SECONDS = (1, 2, 4, 8, 16)

FUNDS = "10000.00"
IBAN = "DE89370400440532013000"
BANK_HOUR = 3_700

MIX = (
    *(Behaviour.PAY, Behaviour.LOSE_ANSWER_AFTER, Behaviour.PAY, Behaviour.LOSE_FIRST_REQUEST, Behaviour.PAY),
    *(Behaviour.ERROR_HOUR, Behaviour.PAY, Behaviour.REFUSE, Behaviour.PAY, Behaviour.ARRIVE_LATE),
    *(Behaviour.PAY, Behaviour.REFUSE, Behaviour.PAY, Behaviour.FORGET_KEY, Behaviour.PAY),
)
"""The bank's behaviours. It answers most requests, because its circuit would otherwise block the storm."""

BEHAVIOURS = tuple(dict.fromkeys(MIX))
"""Distinct behaviours; each has its own account."""

ENDS = dict.fromkeys(BEHAVIOURS, Status.CONFIRMED) | {Behaviour.REFUSE: Status.REFUSED}

ENTRIES = {
    Status.CONFIRMED: {f"payout-{step}": 1 for step in ("reserve", Move.PAY)},
    Status.REFUSED: {f"payout-{step}": 1 for step in ("reserve", Move.REFUSE)},
}


@dataclass
class Storm:
    """Payouts of 1.00 to 7.00 EUR, each sent by several callers at once."""

    embedded: Embedded
    run: str = field(default_factory=lambda: new_key("s")[-6:])
    killed: int = 0
    killed_at_work: int = 0
    stalls: int = 0
    empty: int = 0
    """Number of empty 200 answers, which the embedded AWS gives if a function dies while answering."""

    answered: list[str] = field(default_factory=list)

    @cached_property
    def behaviours(self) -> dict[str, Behaviour]:
        return {new_key(f"payout-{number:04}"): one for number, one in enumerate(islice(cycle(MIX), PAYOUTS))}

    @cached_property
    def requests(self) -> dict[str, dict[str, str]]:
        return {
            key: {
                "key": key,
                "account": self.account(behaviour),
                "amount": f"{1 + number % 7}.00",
                "currency": "EUR",
                "destination": self.payee(behaviour),
            }
            for number, (key, behaviour) in enumerate(self.behaviours.items())
        }

    def account(self, behaviour: Behaviour) -> str:
        return f"{behaviour}.{self.run}"

    def payee(self, behaviour: Behaviour) -> str:
        return f"{behaviour}-{self.run}"

    @property
    def bank_url(self) -> str:
        return self.embedded.running().bank_url

    def control(self, **given: Any) -> dict[str, Any]:
        answer = urllib3.request("PUT", f"{self.bank_url}/control", json=given)
        assert answer.status == 200, answer.data
        told: dict[str, Any] = answer.json()
        return told

    # Before

    def prepare(self) -> None:
        """Fund each account, at the bank too, and let two persons register its payee."""
        stack, _ = self.embedded.stack, self._lambda  # threads may not create clients
        with persons.two(stack, self.run) as (operator, approver):
            for behaviour in BEHAVIOURS:
                account, payee = self.account(behaviour), self.payee(behaviour)
                open_account(stack, account, "EUR", "0")
                moved = {"account": account, "amount": FUNDS, "currency": "EUR", "reference": account}
                give(stack, OrderKind.DEPOSIT, key=new_key("fund"), reason="storm", **moved)
                line = {"side": "in", "amount": FUNDS, "currency": "EUR", "reference": account}
                answer = urllib3.request("POST", f"{self.bank_url}/control/line", json=line)
                assert answer.status == 201, answer.data
                told = {"id": payee, "account": account, "iban": IBAN, "holder": f"Bank {behaviour} x"}
                order(operator, "add-payee", told | {"reason": "storm"})
                order(approver, "confirm-payee", told)

    # The storm

    def pay_all(self) -> list[dict[str, Any]]:
        """Send each payout several times, partly at once; return the answers."""
        calls = [request for request in self.requests.values() for _ in range(REPEATS)]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self.pay, calls))

    def pay(self, request: dict[str, str]) -> dict[str, Any]:
        """Repeat a payout until the stage answers, as a careful caller does."""
        give_up_at = time.monotonic() + SECONDS_MAX
        pauses = chain(PAUSES_SECONDS, repeat(PAUSES_SECONDS[-1]))
        while True:
            answer = self.post(request)
            if answer.status in (200, 202) and "key" in answer.content:
                self.answered.append(request["key"])
                return answer.content
            is_empty = answer == Answer(200, {"message": ""})
            self.empty += is_empty
            assert is_empty or answer.status in (429, 500, 502, 503, 504), answer
            assert time.monotonic() < give_up_at, answer
            time.sleep(random.uniform(0, next(pauses)))

    def post(self, request: dict[str, str]) -> Answer:
        try:
            return self.embedded.stack.services.call("POST", "/payouts", request)
        except BotoCoreError as lost:
            return Answer(504, {"message": str(lost)})

    @contextmanager
    def faults(self) -> Iterator[None]:
        ended = Event()
        with ExitStack() as stack:
            for cause in (self.kill, self.stall):
                thread = Thread(target=cause, args=(ended,))
                stack.callback(thread.join)
                thread.start()
            stack.callback(ended.set)
            yield

    def kill(self, ended: Event) -> None:
        """Kill functions, each after an answer, because a busy machine would otherwise never answer.

        No function dies while starting, because the embedded AWS would then end all its environments.
        """
        aws, seen = psutil.Process(self.embedded.running().pid), 0
        while not ended.wait(random.uniform(0.2, 1)):
            alive = list(filter(has_begun, functions(aws))) if len(self.answered) > seen else []
            busy = [one for one in alive if is_busy(one)]
            if alive:
                seen = len(self.answered)
                with suppress(psutil.NoSuchProcess):
                    random.choice(busy or alive).kill()
                    self.killed += 1
                    self.killed_at_work += bool(busy)

    def stall(self, ended: Event) -> None:
        """Suspend the bank repeatedly, so that requests wait in its socket until it resumes."""
        (bank,) = (one for one in self.embedded.processes() if processes.BANK_SIMULATOR in one.cmdline())
        while not ended.wait(random.uniform(2, 6)):
            bank.send_signal(signal.SIGSTOP)
            try:
                time.sleep(random.uniform(1, 6))
            finally:
                bank.send_signal(signal.SIGCONT)
            self.stalls += 1

    def go_on(self) -> None:
        """Look at payouts until there were enough faults, of which a slow machine has few."""
        give_up_at = time.monotonic() + SECONDS_MAX
        while self.killed < KILLS_MIN or self.stalls < STALLS_MIN:
            assert time.monotonic() < give_up_at, self.tally()
            self.look(random.choice(list(self.requests)))

    # Afterwards

    def follow_until(self, *ends: Status) -> None:
        """Look at each payout, more often than its schedule, until it has one of these statuses."""
        give_up_at = time.monotonic() + SECONDS_MAX
        while left := [key for key, row in self.rows().items() if row["status"] not in ends]:
            assert time.monotonic() < give_up_at, self.tally()
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(self.look, left))
            time.sleep(2)

    def look(self, key: str) -> None:
        """Look at a payout. The look can overlap the schedule's, be throttled, or die."""
        with suppress(ClientError):
            self._lambda.invoke(
                FunctionName=self.embedded.functions["FollowPayouts"], Payload=json.dumps({"key": key})
            )
            self.answered.append(key)

    def read_statement(self) -> None:
        url = f"{self.bank_url}/control/statement?currency=EUR"
        body = urllib3.request("GET", url).data
        bucket = self.embedded.stack.outputs["StatementsBucket"]
        name = f"incoming/{new_key('statement')}.xml"
        self.embedded.stack.client("s3").put_object(Bucket=bucket, Key=name, Body=body)

    def confirm(self) -> None:
        give_up_at = time.monotonic() + SECONDS_MAX
        self.read_statement()
        while any(row["status"] == Status.PAID for row in self.rows().values()):
            assert time.monotonic() < give_up_at, self.tally()
            for function in ("ReadStatements", "FollowPayouts"):
                answer = self._lambda.invoke(FunctionName=self.embedded.functions[function], Payload=b"{}")
                assert "FunctionError" not in answer, answer["Payload"].read()

    @cached_property
    def _lambda(self) -> Any:
        return self.embedded.stack.client("lambda")

    # What is on record

    def rows(self) -> dict[str, Row]:
        found = (row for row in self.embedded.rows() if row["sk"] == keys.payout("")["sk"])
        return {keys.subject(row)[1]: row for row in found if row["pk"].startswith("PAYOUT#")}

    def entries(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {key: Counter() for key in self.requests}
        for row in self.embedded.rows():
            if str(row.get("step", "")).startswith("payout-"):
                found[row["sk"].rpartition(":")[0].rpartition("#")[2]][row["step"]] += 1
        return found

    def available(self, behaviour: Behaviour) -> int:
        return money.parse(self.embedded.available(self.account(behaviour)), 2)

    def tally(self) -> str:
        ends = Counter((self.behaviours[key].value, row["status"]) for key, row in self.rows().items())
        return (
            f"{self.killed} functions killed, {self.killed_at_work} of them at work, {self.stalls} stalls of"
            f" the bank; {self.control()['submits']} sends, {self.control()['finds']} questions; {ends}"
        )


def has_begun(function: psutil.Process) -> bool:
    """Return whether the function has polled for its first call."""
    with suppress(psutil.Error):
        return bool(function.net_connections())
    return False


@pytest.fixture(scope="module")
def storm() -> Iterator[Storm]:
    """Yield a storm with schedules, and at most 12 function processes at once."""
    with embedded_aws() as embedded:
        up = embedded.settle("local", "up", LAMBDA_ACCOUNT_CONCURRENCY="12")
        assert up.returncode == 0, up.stderr
        yield Storm(embedded)


def test_no_payout_is_paid_twice_or_lost_in_a_storm(storm: Storm) -> None:
    storm.prepare()

    with storm.faults():
        answers = storm.pay_all()
        storm.follow_until(*(set(Status) - {Status.RESERVED}))
        storm.go_on()
    storm.control(advance_seconds=BANK_HOUR)
    storm.follow_until(Status.ACCEPTED, Status.PAID, Status.CONFIRMED, Status.REFUSED)
    storm.control(advance_seconds=BANK_HOUR)
    storm.follow_until(Status.PAID, Status.CONFIRMED, Status.REFUSED)
    storm.confirm()

    print(tally := storm.tally())  # with -rP, also where all is well
    rows, bank = storm.rows(), storm.control()
    assert storm.empty <= storm.killed, tally
    assert (storm.killed >= KILLS_MIN, storm.stalls >= STALLS_MIN) == (True, True), tally
    assert {answer["key"]: answer["reference"] for answer in answers} == {
        key: reference_of(key) for key in storm.requests
    }
    assert {key: row["status"] for key, row in rows.items()} == {
        key: ENDS[behaviour] for key, behaviour in storm.behaviours.items()
    }, tally
    assert storm.entries() == {key: ENTRIES[row["status"]] for key, row in rows.items()}
    paid = {key for key, row in rows.items() if row["status"] == Status.CONFIRMED}
    assert bank["paid"] == {reference_of(key): 1 for key in paid}, tally
    assert bank["paid_twice"] == 0

    proof = storm.embedded.told("reconcile")
    assert (proof["conserved"], proof["faults"]) == (True, []), tally
    assert proof["currencies"]["EUR"]["transit"] == "0.00"
    assert proof["currencies"]["EUR"]["external"] == f"-{bank['closing']['EUR']}"
    assert len({row["debit_line"] for row in rows.values() if "debit_line" in row}) == len(paid)
    for behaviour in BEHAVIOURS:
        spent = sum(rows[key]["amount"] for key in paid if storm.behaviours[key] is behaviour)
        assert storm.available(behaviour) == money.parse(FUNDS, 2) - spent
