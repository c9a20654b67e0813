"""Nine payouts against the simulated bank, which loses answers, fails, forgets and returns."""

import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import urllib3

from settle.accounts.accounts import give, open_account
from settle.exit_codes import CommandFailed, Exit
from settle.local import embedded_aws, simulated
from settle.local.bank_behaviour import Behaviour
from settle.local.demo import invoking, persons
from settle.order import give as order
from settle.payouts.paying import pay
from settle.stack import Stack, embedded
from settlement.accounts.order import OrderKind
from settlement.bank.recorded import BankRecord
from settlement.core.model import money
from settlement.payouts import hints
from settlement.payouts.decision import Verdict
from settlement.payouts.payout import State, Status
from settlement.proof import table_scan

CURRENCY, EXPONENT = "EUR", 2
IBAN = "DE89370400440532013000"
FUNDS, CLOSING_FUNDS, STRAY = "500.00", "20.00", "12.34"
HOUR, PAID_AFTER, RETURNED_AFTER = 3_700, 120, 3 * 86_400
WAIT_SECONDS_MAX = 300
"""Longest wait, in real time. On a quiet machine, payouts take seconds."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A payout of the demo, with the bank's behaviour and the expected end."""

    told: str
    behaviour: Behaviour
    end: Status


CASES = (
    Case("paid", Behaviour.PAY, Status.CONFIRMED),
    Case("refused", Behaviour.REFUSE, Status.REFUSED),
    Case("answer lost, but paid", Behaviour.LOSE_ANSWER_AFTER, Status.CONFIRMED),
    Case("answer lost, never arrived", Behaviour.LOSE_FIRST_REQUEST, Status.CONFIRMED),
    Case("the bank forgets the key", Behaviour.FORGET_KEY, Status.CONFIRMED),
    Case("500 for an hour", Behaviour.ERROR_HOUR, Status.CONFIRMED),
    Case("returned after three days", Behaviour.RETURN, Status.RETURNED),
    Case("returned to a closed account", Behaviour.RETURN, Status.RETURNED),
    Case("paid, beside a line that nobody sent", Behaviour.PAY, Status.CONFIRMED),
)
TO_CLOSED = 7
"""Index of the payout that returns to a closed account."""


@dataclass
class Walk:
    stack: Stack
    bank_url: str
    report: Report
    run: str = field(default_factory=lambda: secrets.token_hex(3))

    def key(self, number: int) -> str:
        return f"demo-payout-{self.run}-{number}"

    def payer(self, number: int) -> str:
        return f"{'closing' if number == TO_CLOSED else 'ada'}.{self.run}"

    @property
    def stray(self) -> str:
        """Reference of the bank's line that has no payout."""
        return f"for {self.payer(0)}"

    def state(self, number: int) -> State:
        return hints.state_of(self.stack.store, self.key(number))

    # The bank

    def control(self, **given: Any) -> None:
        simulated.control(self.bank_url, given, "the simulated bank")

    def bank(self) -> dict[str, Any]:
        found: dict[str, Any] = urllib3.request("GET", f"{self.bank_url}/control").json()
        return found

    def receive(self, amount: str, reference: str) -> None:
        line = {"side": "in", "amount": amount, "currency": CURRENCY, "reference": reference}
        answer = urllib3.request("POST", f"{self.bank_url}/control/line", json=line)
        if answer.status != 201:
            raise CommandFailed(Exit.FAILED, f"the simulated bank: {answer.data.decode(errors='replace')}")

    def closing(self) -> int:
        """Return the stage's balance at the bank, in minor units."""
        told = self.bank()["closing"].get(CURRENCY, "0.00")
        sign, digits = (-1, told[1:]) if told.startswith("-") else (1, told)
        return sign * money.parse(digits, EXPONENT)

    # The stage

    def external(self) -> int:
        """Return the bank account's balance in the books, in minor units."""
        found = table_scan.proof(self.stack.store, self.stack.config.currencies, self.stack.row_keys)
        told = found["currencies"].get(CURRENCY, {}).get("external", "0.00")
        sign, digits = (1, told[1:]) if told.startswith("-") else (-1, told)
        return sign * money.parse(digits, EXPONENT)

    def fund(self) -> None:
        for number, amount in ((0, FUNDS), (TO_CLOSED, CLOSING_FUNDS)):
            account, key = self.payer(number), f"demo-fund-{self.run}-{number}"
            open_account(self.stack, account, CURRENCY, "0")
            moved = {"account": account, "amount": amount, "currency": CURRENCY, "reference": account}
            give(self.stack, OrderKind.DEPOSIT, key=key, reason="demo", **moved)
            self.receive(amount, account)
        open_account(self.stack, f"new.{self.run}", CURRENCY, "0")

    def register(self, operator: Stack, approver: Stack) -> None:
        """One person adds each payee's bank account, and another confirms it."""
        for number, case in enumerate(CASES):
            payee = f"payee-{self.run}-{number}"
            holder = f"Bank {case.behaviour} {number}"
            told = {"id": payee, "account": self.payer(number), "iban": IBAN, "holder": holder}
            order(operator, "add-payee", told | {"reason": "demo"})
            order(approver, "confirm-payee", told)

    def start(self) -> None:
        for number in range(len(CASES)):
            amount = CLOSING_FUNDS if number == TO_CLOSED else f"{10 + number}.00"
            request = {"key": self.key(number), "account": self.payer(number), "amount": amount}
            request |= {"currency": CURRENCY, "destination": f"payee-{self.run}-{number}"}
            pay(self.stack, request)
        closed = {"account": self.payer(TO_CLOSED), "reason": "demo"}
        give(self.stack, OrderKind.CLOSE, key=f"demo-close-{self.run}", **closed)

    def until(self, numbers: Collection[int], *ends: Status) -> None:
        """Look at payouts until each of `numbers` has a status in `ends`."""
        give_up_at = time.monotonic() + WAIT_SECONDS_MAX
        while left := [number for number in numbers if self.state(number).status not in ends]:
            if time.monotonic() > give_up_at:
                told = ", ".join(f"{self.key(one)} is {self.state(one).status}" for one in left)
                raise CommandFailed(Exit.FAILED, f"not within {WAIT_SECONDS_MAX} s: {told}")
            for number in left:
                self.look(number)
            time.sleep(1)

    def look(self, number: int) -> None:
        """Order a look at a payout. A failure is only reported: a scheduled look may be under way."""
        try:
            order(self.stack, "ask-payout", {"key": self.key(number)}, pauses=())
        except CommandFailed as busy:
            self.report(f"bank: {self.key(number)}: {busy}")

    def read_statement(self) -> None:
        """Put the bank's next statement into the stage's bucket, read it, and book its lines."""
        answer = urllib3.request("GET", f"{self.bank_url}/control/statement?currency={CURRENCY}")
        name = f"incoming/{self.run}-{secrets.token_hex(3)}.xml"
        bucket = self.stack.outputs["StatementsBucket"]
        self.stack.client("s3").put_object(Bucket=bucket, Key=name, Body=answer.data)
        invoking.invoke(self.stack, "ReadStatements")
        invoking.invoke(self.stack, "FollowPayouts")


def run(report: Report) -> tuple[dict[str, Any], bool]:
    running = embedded_aws.up(report)
    return walk(embedded(running), running.bank_url, report)


def walk(stack: Stack, bank_url: str, report: Report) -> tuple[dict[str, Any], bool]:
    """Run the demo. Return its figures, and whether everything ended as expected."""
    one = Walk(stack, bank_url, report)
    books, account = one.external(), one.closing()
    report("bank: two customers with money at the bank, and nine payees that two people register")
    one.fund()
    with persons.two(stack, one.run) as (operator, approver):
        one.register(operator, approver)
        report("bank: nine payouts; the bank loses answers, and fails")
        one.start()
        every = range(len(CASES))
        _send(one)
        report("bank: an hour later it answers, and pays")
        one.control(advance_seconds=HOUR)
        one.until([5], Status.ACCEPTED, Status.PAID)
        one.control(advance_seconds=PAID_AFTER)
        one.until([number for number in every if number != 1], Status.PAID, Status.CONFIRMED)
        report("bank: its statement confirms them")
        one.read_statement()
        one.until([number for number in every if number != 1], Status.CONFIRMED)
        report("bank: after three days two come back, and money comes that nobody sent")
        one.control(advance_seconds=RETURNED_AFTER)
        one.receive(STRAY, one.stray)
        one.read_statement()
        one.until([6, TO_CLOSED], Status.RETURNED)
        _give_back(one, operator, approver)
        _book_stray(one, operator, approver)
    return _told(one, books, account)


def _send(one: Walk) -> None:
    one.until([1], Status.REFUSED)
    one.until([0, 6, TO_CLOSED, 8], Status.ACCEPTED, Status.PAID)
    one.until([2, 4], Status.PAID)
    one.until([3], Status.ACCEPTED, Status.PAID)
    one.until([5], Status.UNKNOWN)


def _give_back(one: Walk, operator: Stack, approver: Stack) -> None:
    """Give a closed account's money to the customer's new account. Two persons decide it."""
    state = one.state(TO_CLOSED)
    decided = {
        "key": state.key,
        "case": state.cases,
        "digest": state.digest,
        "verdict": Verdict.GIVE_BACK.value,
        "account": f"new.{one.run}",
        "reason": "the customer has a new account",
    }
    order(operator, "propose-payout", decided)
    order(approver, "approve-payout", decided)
    give_up_at = time.monotonic() + WAIT_SECONDS_MAX
    while one.state(TO_CLOSED).in_suspense:
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"{state.key} is still in suspense")
        one.look(TO_CLOSED)
        time.sleep(1)


def _book_stray(one: Walk, operator: Stack, approver: Stack) -> None:
    record = BankRecord(one.stack.store, one.stack.config, one.report)
    today = datetime.now(UTC).date()
    days = (today.isoformat(), (today + timedelta(days=400)).isoformat())  # the bank's clock is ahead
    (line,) = (
        found.line
        for found, match in record.lines(days)
        if match is None and found.line.reference == one.stray
    )
    proposed = {"key": f"stray-{one.run}-000000", "lines": {line.identity: one.payer(0)}, "reason": "demo"}
    digest = order(operator, "propose-lines", proposed)["digest"]
    order(approver, "book-lines", {"key": proposed["key"], "digest": digest})


def _told(one: Walk, books: int, account: int) -> tuple[dict[str, Any], bool]:
    proof = table_scan.proof(one.stack.store, one.stack.config.currencies, one.stack.row_keys)
    told = one.bank()
    mine = [one.state(number).payout.reference for number in range(len(CASES))]
    paid = {reference: told["paid"].get(reference, 0) for reference in mine}
    moved = {"books": one.external() - books, "bank": one.closing() - account}
    payouts = [_line(one, number, case) for number, case in enumerate(CASES)]
    shown = {
        "payouts": payouts,
        "sent": sum(one.state(number).is_sent for number in range(len(CASES))),
        "distinct": len(set(mine)),
        "paid_twice": sum(times > 1 for times in paid.values()),
        **{f"moved_in_{name}": _amount(minor) for name, minor in moved.items()},
        "currency": CURRENCY,
        "reconciliation": proof,
    }
    is_well = all(line["is_well"] for line in payouts) and not shown["paid_twice"]
    return shown, is_well and moved["books"] == moved["bank"] and bool(proof["conserved"])


def _line(one: Walk, number: int, case: Case) -> dict[str, Any]:
    state = one.state(number)
    return {
        "key": state.key,
        "bank": case.told,
        "amount": _amount(state.payout.amount),
        "attempts": state.attempts,
        "status": state.status.value,
        "is_well": state.status is case.end and state.trouble is None,
    }


def _amount(minor: int) -> str:
    return ("-" if minor < 0 else "") + money.render(abs(minor), EXPONENT)
