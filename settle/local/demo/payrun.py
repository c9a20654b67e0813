"""A pay run of a thousand lines: two people, five killed functions, and one report."""

import csv
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from botocore.exceptions import BotoCoreError, ClientError

from settle import instants
from settle.accounts.accounts import open_account
from settle.exit_codes import CommandFailed, Exit
from settle.local import embedded_aws, processes
from settle.local.demo import invoking, persons
from settle.payruns import checking, deciding, on_record, proposing, results, sheet, waiting
from settle.stack import Stack, embedded
from settlement.core.ledger import keys
from settlement.core.model import money
from settlement.core.model.errors import DeadlineExceeded, KycCircuitOpen, KycUnavailable
from settlement.payruns.file import Header, Kind
from settlement.payruns.run import ENDED
from settlement.proof import table_scan

CURRENCY, EXPONENT = "EUR", 2
LINES, SELLERS, KILLS = 1_000, 40, 5
FUNDS = "20000.00"
PAY_SECONDS_MAX = 1_200
"""Time limit. A thousand lines take some 3 minutes, and recovery of killed calls another 2."""

OF_TIME = {
    *("States.Timeout", "Sandbox.Timedout", "Runtime.ExitError"),
    *(error.__name__ for error in (DeadlineExceeded, KycCircuitOpen, KycUnavailable)),
}
"""Errors of a payment on a machine that is too busy for the time limits."""

Report = Callable[[str], None]


@dataclass
class Walk:
    """A run of the demo. PayLines is killed `kills` times, `killed` so far."""

    stack: Stack
    report: Report
    lines: int
    sellers: int
    kills: int
    run: str = field(default_factory=lambda: secrets.token_hex(3))
    killed: int = 0

    @property
    def payer(self) -> str:
        return f"shop.{self.run}"

    @property
    def sheet(self) -> str:
        """Path of a new CSV file with the lines, as a spreadsheet exports it."""
        path = Path(tempfile.mkdtemp()) / "sellers.csv"
        with path.open("w", newline="") as written:
            rows = csv.writer(written)
            rows.writerow(("payee", "amount", "currency", "reference"))
            for number in range(self.lines):
                amount = money.render(100 + number, EXPONENT)
                rows.writerow(
                    (f"seller{number % self.sellers}.{self.run}", amount, CURRENCY, f"sale {number}")
                )
        return str(path)

    def open_accounts(self) -> None:
        open_account(self.stack, self.payer, CURRENCY, FUNDS)
        for number in range(self.sellers):
            open_account(self.stack, f"seller{number}.{self.run}", CURRENCY, "0")

    def pay(self, run: str) -> None:
        """Call PayLines until the run is over. A killed call fails, and the next call continues.

        Recovery starts the lines that a killed call has only claimed.
        """
        give_up_at = time.monotonic() + PAY_SECONDS_MAX
        with self._killing(run):
            while (one := on_record.of(self.stack, run)).state.status not in ENDED:
                if time.monotonic() > give_up_at:
                    raise CommandFailed(Exit.FAILED, f"run: not over after {PAY_SECONDS_MAX} s")
                self.report(f"pay run: {waiting.progress_of(one)}, {self.killed} functions killed")
                with suppress(CommandFailed, BotoCoreError, ClientError):
                    invoking.invoke(self.stack, "PayLines")
                time.sleep(1)

    @contextmanager
    def _killing(self, run: str) -> Iterator[None]:
        ended = Event()
        thread = Thread(target=self._kill, args=(run, invoking.name_of(self.stack, "PayLines"), ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _kill(self, run: str, function: str, ended: Event) -> None:
        """Kill PayLines up to `kills` times: after every share of started lines, or while it counts them."""
        store = self.stack.place.store()  # a client of this thread
        seen = 0
        while self.killed < self.kills and not ended.wait(0.2):
            row = store.read(keys.payrun(run)) or {}
            if row.get("started", 0) <= min(seen, self.lines - 1):
                continue
            for process in filter(lambda one: _is_of(one, function), processes.ours({"awslambdaric"})):
                with suppress(psutil.Error):
                    process.kill()
                    seen = row["started"] + self.lines // (2 * self.kills)
                    self.killed += 1
                    break


def _is_of(process: psutil.Process, function: str) -> bool:
    with suppress(psutil.Error):
        return bool(process.environ().get("AWS_LAMBDA_FUNCTION_NAME") == function)
    return False


def run(report: Report) -> tuple[dict[str, Any], bool]:
    return walk(embedded(embedded_aws.up(report)), report)


def walk(
    stack: Stack, report: Report, lines: int = LINES, sellers: int = SELLERS, kills: int = KILLS
) -> tuple[dict[str, Any], bool]:
    """Run the demo. Return its figures, and whether each line was paid once or reversed."""
    one = Walk(stack, report, lines, sellers, kills)
    report(f"pay run: a shop, and {sellers} sellers with {lines} sales")
    one.open_accounts()
    with persons.two(stack, one.run) as (operator, approver):
        header = Header(name=f"sellers-{one.run}", kind=Kind.PAYMENTS, payer=one.payer)
        found = sheet.read(one.sheet, header.kind, stack.config)
        checked = checking.check(operator, found, header, instants.now())
        proposed = proposing.propose(operator, checked, "the sales of the demo")
        report("pay run: one person has proposed it, another approves what the file holds")
        run, digest = proposed["run"], proposed["digest"]
        deciding.order(approver, "approve", run, digest, instants.now())
        deciding.order(operator, "run", run, digest, instants.now())
        one.pay(run)
    return _told(one, on_record.of(stack, run), checked)


def _told(one: Walk, run: on_record.OnRecord, checked: checking.Checked) -> tuple[dict[str, Any], bool]:
    lines = list(results.lines(one.stack, run, checked.file))
    account = one.stack.store.account(one.payer)
    paid = sum(money.parse(line["amount"], EXPONENT) for line in lines if line["outcome"] == "SETTLED")
    left = money.parse(FUNDS, EXPONENT) - (account.available if account else 0)
    proof = table_scan.proof(one.stack.store, one.stack.config.currencies, one.stack.row_keys)
    shown = {
        "run": on_record.described(one.stack, run),
        "killed": one.killed,
        "outcomes": results.counted(lines),
        "reversed_for": dict(Counter(str(line["why"]) for line in lines if line["outcome"] == "COMPENSATED")),
        "keys": len({line["key"] for line in lines}),
        "sum_of_the_file": money.render(checked.file.sums(one.stack.config)[CURRENCY], EXPONENT),
        "sum_of_the_results": money.render(paid, EXPONENT),
        "left_the_shop": money.render(left, EXPONENT),
        "currency": CURRENCY,
        "reconciliation": proof,
    }
    is_well = len(lines) == one.lines and have_ended_well(lines) and paid == left and one.killed == one.kills
    return shown, is_well and bool(proof["conserved"])


def have_ended_well(lines: list[dict[str, Any]]) -> bool:
    """Check that most lines are paid, and the others reversed because this machine was too busy."""
    unpaid = [line for line in lines if line["outcome"] != "SETTLED"]
    too_busy = [line for line in unpaid if line["outcome"] == "COMPENSATED" and _is_of_time(line["why"])]
    return too_busy == unpaid and 2 * len(unpaid) < len(lines)


def _is_of_time(why: str | None) -> bool:
    """Return whether a time limit, or a function that could not start, reversed the payment."""
    return why in OF_TIME or (why or "").startswith("Lambda.")
