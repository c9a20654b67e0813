"""What must hold after every commit, whatever has happened: written from the design, not from the code.

It sees the rows before and after each commit as they are on the wire, and shares no code with the functions.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tests.support.interpreter import Execution
from tests.support.memory_dynamodb import Changes, Item

MOVES = {"hold", "release", "fee", "compensate:hold", "compensate:release", "compensate:fee"}
FORWARD = ("hold", "verify", "release", "fee")
STATUSES = {
    "PROCESSING": {"SETTLED", "REJECTED", "COMPENSATING"},
    "SETTLED": {"COMPENSATING"},
    "REJECTED": set(),
    "COMPENSATING": {"COMPENSATED", "LIMBO"},
    "COMPENSATED": set(),
    "LIMBO": {"COMPENSATING", "SETTLED"},
}
FINISHED = {"SETTLED", "REJECTED", "COMPENSATED"}
FIXED = ("payer", "payee", "amount", "fee", "currency", "request_hash", "claimed_at", "deadline_seconds")
HIGHEST_BALANCE = 100_000_000


POISON = "a-row-that-makes-no-sense"
"""The key of a row that is in the way, and no settlement."""


class Violated(AssertionError):
    """Something happened that must never happen."""


def demand(holds: object, rule: str, *about: object) -> None:
    if not holds:
        raise Violated(": ".join((rule, *map(str, about))))


def text(row: Item | None, name: str) -> str | None:
    return row[name]["S"] if row and name in row else None


def number(row: Item | None, name: str) -> int:
    return int(row[name]["N"]) if row and name in row else 0


def members(row: Item | None, name: str) -> set[str]:
    return set(row[name]["SS"]) if row and name in row else set()


@lru_cache
def minor(amount: str) -> int:
    """An amount in minor units: cents, in this world."""
    return int(Decimal(amount).scaleb(2))


class Oracle:
    """Keeps the books a second time, from the entries alone, and compares each commit with them."""

    def __init__(self) -> None:
        self.balances: Counter[tuple[str, str]] = Counter()
        """Per account and currency, by its entries, in minor units."""

        self.moved: dict[str, Counter[str]] = {}
        """Per settlement, what each account has gained by its entries."""

        self.settlements: dict[str, Item] = {}
        self.ends: set[tuple[str, str]] = set()
        """How each settlement has ended so far; an order or a decision may open it again."""

        self.reached: Counter[str] = Counter()
        self.commits = 0

    def committed(self, changes: Changes, asked: Mapping[str, Any], at: str = "") -> None:
        """Look at one commit, by a call that was handed this, if by a call of a function. Raises Violated.

        `at` is the time by the caller's clock, where it is recovery on its rounds.
        """
        self.commits += 1
        entries = [self._entry(old, new) for old, new in changes if _is_entry(old) or _is_entry(new)]
        posted = [entry for entry in entries if "debit" in entry]
        touched: Counter[str] = Counter()
        for entry in posted:
            amount, currency = number(entry, "amount"), entry["currency"]["S"]
            demand(amount >= 0, "no entry moves a negative amount", entry)
            for account, change in ((entry["debit"]["S"], -amount), (entry["credit"]["S"], amount)):
                self.balances[account, currency] += change
                touched[account] += change
                demand(
                    self.balances[account, currency] >= 0
                    or account.partition(":")[0] in ("external", "losses", "fees"),
                    "no account goes below zero",
                    account,
                )
                moved = self.moved.setdefault(entry["pk"]["S"].partition("#")[2], Counter())
                moved[account] += change
        steps = {entry["step"]["S"] for entry in entries}
        self._asked(changes, asked)
        fenced = {new["pk"]["S"] for _, new in changes if new and new["sk"]["S"] == "SETTLEMENT"}
        for entry in entries:
            of = entry["pk"]["S"]
            demand(
                of in fenced or of.startswith("DEPOSIT#"),
                "no entry goes without its fence",
                text(entry, "sk"),
            )
        for old, new in changes:
            kind = (new or old or {})["pk"]["S"].partition("#")[0]
            if _is_entry(old) or _is_entry(new):
                continue
            if kind == "ACCOUNT":
                self._account(old, new, touched, steps)
            elif kind == "SETTLEMENT" and not (new or old or {})["pk"]["S"].endswith(POISON):
                self._settlement(old, new, touched, entries)
                if at:
                    self._recovered(old, new, at)
                if old and new and text(old, "status") == "LIMBO":
                    self._resolved(old, {entry["step"]["S"]: entry for entry in entries}, asked)
        left = {account: change for account, change in touched.items() if change and _has_row(account)}
        demand(not left, "what an entry moves, its account's row moves in the same commit", left)

    def _asked(self, changes: Changes, asked: Mapping[str, Any]) -> None:
        """The very content that a key was claimed with is asked for, or nothing changes."""
        wanted = settlement_in(asked)
        for _, new in changes:
            if new and new["pk"]["S"] == f"SETTLEMENT#{wanted.get('key')}" and "payer" in new:
                for name in ("payer", "payee", "currency"):
                    demand(
                        wanted[name] == text(new, name),
                        "a key with other content changes nothing",
                        name,
                        wanted,
                    )
                for name in ("amount", "fee"):
                    said = wanted.get(name)
                    same = said is None or minor(said) == number(new, name)
                    demand(same, "a key with other content changes nothing", name, wanted)

    def _recovered(self, old: Item | None, new: Item | None, at: str) -> None:
        """Recovery on its rounds keeps its hands off whatever is not due."""
        assert old
        assert new
        due = text(old, "recover_at" if old["status"]["S"] == "LIMBO" else "gsi1sk") or ""
        demand(due <= at, "recovery touches nothing that is not due", new["pk"]["S"], due, at)
        if "given_up_at" in new and "given_up_at" not in old:
            overdue = old["deadline_at"]["S"] <= at and "release" not in members(old, "steps")
            demand(overdue, "what is given up is overdue, and not released", new["pk"]["S"])

    def _resolved(self, old: Item, posted: dict[str, Item], asked: Mapping[str, Any]) -> None:
        """A decision is carried out on the case that it was made on, and moves what it means."""
        for name in _resolved(posted):
            entry, order = posted[name], asked["resolution"]
            case = number(old, "resolutions") + 1
            demand(name == f"resolve:{case}", "a decision is on the open case", name, case)
            demand(
                (order.get("case") or asked["case"]) == case,
                "a decision is on the case it was made on",
                order,
            )
            demand(text(entry, "decision") == order["decision"], "a decision is what was decided", order)
            debit, credit = text(entry, "debit"), text(entry, "credit")
            escrow, currency = f"escrow:{old['pk']['S'].partition('#')[2]}", text(old, "currency")
            wanted = {
                "retry": (None, None),
                "write-off": (f"losses:{currency}", escrow),
                "complete": (escrow, f"fees:{currency}"),
            }
            demand(
                (debit, credit) == wanted[order["decision"]], "a decision moves what it means", order, debit
            )

    def _entry(self, old: Item | None, new: Item | None) -> Item:
        demand(old is None, "an entry is written once, and never changed", text(old, "sk"))
        assert new
        return new

    def _account(self, old: Item | None, new: Item | None, touched: Counter[str], steps: set[str]) -> None:
        assert new, "no account is ever deleted"
        account = new["pk"]["S"].partition("#")[2]
        change = number(new, "available") - number(old, "available")
        demand(change == touched.pop(account, 0), "a balance moves by its entries alone", account, change)
        balance = self.balances[account, new["currency"]["S"]]
        demand(number(new, "available") == balance, "a balance is the sum of its entries", account)
        demand(old is None or old["currency"] == new["currency"], "an account keeps its currency", account)
        if "hold" in steps:
            demand(change <= 0, "a hold takes from an account", account)
            demand(not members(old, "limbo_keys"), "an account in LIMBO places no hold", account)
        if "release" in steps:
            demand(balance <= HIGHEST_BALANCE, "a release keeps to the highest balance", account)

    def _settlement(
        self, old: Item | None, new: Item | None, touched: Counter[str], entries: list[Item]
    ) -> None:
        assert new, "no settlement is ever deleted"
        key = new["pk"]["S"].partition("#")[2]
        before, after = text(old, "status"), new["status"]["S"]
        posted = {entry["step"]["S"]: entry for entry in entries}
        change = number(new, "escrow") - number(old, "escrow")
        demand(change == touched.pop(f"escrow:{key}", 0), "an escrow moves by its entries alone", key, change)
        demand(number(new, "escrow") >= 0, "no escrow goes below zero", key)
        if old is None:
            demand(after in ("PROCESSING", "REJECTED"), "a settlement begins with its claim", key, after)
            demand(not entries, "a claim moves nothing", key)
        else:
            for name in FIXED:
                demand(old.get(name) == new.get(name), "what was claimed stands", key, name)
            demand(
                after == before or after in STATUSES[before or ""],
                "the status moves along the table",
                before,
                after,
            )
            demand(number(new, "recoveries") >= number(old, "recoveries"), "owners are counted up", key)
            for name in ("steps", "reversed"):
                demand(members(old, name) <= members(new, name), "what has committed stands", key, name)
            named = "deadline_seconds" in old
            demand(not named or old["deadline_at"] == new["deadline_at"], "a named deadline stands", key)
            self._steps(key, old, new, posted)
            self._transition(key, before or "", after, old, new, posted)
            if "review" in old and before == "PROCESSING":
                self._reviewed(key, old, new, posted)
        self._listed(key, after, new)
        if after in FINISHED:
            self._finished(key, after, new)
        if after in FINISHED:
            self.ends.add((key, after))
        if before != after:
            self.reached[f"{before} to {after}"] += 1
        self.settlements[key] = new

    def _steps(self, key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
        """Each step that is recorded has its entry in the same commit, and the other way about."""
        status, done, undone = old["status"]["S"], members(old, "steps"), members(old, "reversed")
        gained = members(new, "steps") - done
        for step in FORWARD:
            entry = posted.get(step)
            if step == "verify" and entry:  # a rejection is put on record, and is no step
                demand(text(new, "verdict") == text(entry, "decision"), "the verdict is the entry's", key)
                demand(not text(old, "verdict"), "there is one verdict", key)
                demand(
                    (step in gained) == (text(entry, "decision") == "APPROVED"), "who approves, says so", key
                )
            else:
                demand((step in gained) == bool(entry), "a step and its entry commit together", key, step)
            if not entry:
                continue
            demand(status == "PROCESSING", "no step commits after the fence", key, step, status)
            previous = FORWARD[: FORWARD.index(step)]
            demand(done == set(previous), "steps commit in their order, each once", key, step, sorted(done))
            demand(
                text(entry, "request_hash") == text(old, "request_hash"),
                "a step is of what was claimed",
                key,
                step,
            )
            if step != "fee":
                demand("given_up_at" not in old, "what is given up goes no further", key, step)
                late = (text(entry, "posted_at") or "") >= (text(old, "deadline_at") or "")
                demand(not late, "no step before the fee commits after the deadline", key, step)
                if "deadline_seconds" in old:
                    claimed, at = (
                        datetime.fromisoformat(row[name]["S"])
                        for row, name in ((old, "claimed_at"), (entry, "posted_at"))
                    )
                    in_time = at < claimed + timedelta(seconds=number(old, "deadline_seconds"))
                    demand(
                        in_time, "no step before the fee commits after the deadline that was named", key, step
                    )
        if "fee" in gained or "release" in gained or "hold" in gained:
            demand(self._as_claimed(key, new, posted), "a step moves what was claimed", key, sorted(gained))
        reversals = {name.partition(":")[2] for name in posted if name.startswith("compensate:")}
        for step in reversals & done:
            demand(status == "COMPENSATING", "a reversal commits while COMPENSATING", key, step, status)
            demand(step not in undone, "a step is reversed once", key, step)
            demand("debit" in posted[f"compensate:{step}"], "what has moved is moved back", key, step)
        demand(not (reversals - done) or status == "COMPENSATING", "a reversal is of what is reversed", key)
        covered = {text(old, "stuck_step") or ""} if posted.keys() & _resolved(posted) else set()
        covered = {name.partition(":")[2] for name in covered}
        gained_back = members(new, "reversed") - undone
        for name in _resolved(posted):
            if (text(posted[name], "debit") or "").startswith("losses:"):
                demand(covered <= gained_back, "what is written off counts as reversed", key)
        demand(gained_back <= reversals | covered, "what is reversed has its entry", key, sorted(gained_back))
        demand(reversals & done <= gained_back, "an entry of a reversal is recorded", key, sorted(reversals))
        if gained_back & reversals:
            demand(self._as_claimed(key, new, posted), "a reversal moves what was claimed", key)

    def _reviewed(self, key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
        """What is in review rests until the provider tells how it has ended, or its time is over."""
        review, verdict = text(old, "review"), posted.get("verify")
        if verdict:
            said = (text(verdict, "provider"), text(verdict, "reference"))
            demand(said == ("webhook", review), "a review is ended by its own decision", key, said)
            return
        demand(text(new, "review") == review, "a review is not forgotten", key)
        demand(old["deadline_at"] == new["deadline_at"], "a review ends when it was to end", key)
        if new["status"] == old["status"] and "given_up_at" not in new:
            demand(old["owner"] == new["owner"], "nobody drives on what is in review", key)

    def _as_claimed(self, key: str, row: Item, posted: dict[str, Item]) -> bool:
        amount, fee = number(row, "amount"), number(row, "fee")
        escrow, payer, payee = f"escrow:{key}", text(row, "payer"), text(row, "payee")
        fees = f"fees:{text(row, 'currency')}"
        wanted = {
            "hold": (payer, escrow, amount),
            "release": (escrow, payee, amount - fee),
            "fee": (escrow, fees, fee),
        }
        wanted |= {
            f"compensate:{step}": (credit, debit, moved) for step, (debit, credit, moved) in wanted.items()
        }
        return all(
            (text(entry, "debit"), text(entry, "credit"), number(entry, "amount")) == wanted[step]
            and text(entry, "currency") == text(row, "currency")
            for step, entry in posted.items()
            if step in MOVES and "debit" in entry
        )

    def _transition(
        self, key: str, before: str, after: str, old: Item, new: Item, posted: dict[str, Item]
    ) -> None:
        resolved = _resolved(posted)
        if before == "LIMBO":
            demand((after != "LIMBO") == bool(resolved), "LIMBO is left by a resolution alone", key, after)
            demand(
                not posted.keys() - resolved,
                "nothing moves in LIMBO but by a resolution",
                key,
                sorted(posted),
            )
        elif resolved:
            demand(False, "a resolution is of what is in LIMBO", key, before)
        if before != after == "LIMBO":
            demand(any(name.startswith("limbo:") for name in posted), "LIMBO is entered on record", key)
        if before == "SETTLED" != after:
            demand("reverse" in posted, "what has settled is reversed on an order alone", key)
        if (before, after) == ("PROCESSING", "COMPENSATING") and "reverse" not in posted:
            demand("release" not in members(old, "steps"), "what is released goes on to its fee", key)
            by = text(new, "owner") or ""
            owner = by == f"{key}-compensate-{number(old, 'recoveries')}"
            demand(
                owner or "given_up_at" in old, "a reversal that nobody has ordered is the owner's", key, by
            )
        if (before, after) == ("PROCESSING", "SETTLED"):
            demand("fee" in posted, "SETTLED commits with the fee", key)
        if after == "REJECTED" != before:
            demand(not members(old, "steps"), "REJECTED is possible while nothing is held", key)
        if before in FINISHED and after == before:
            demand(old == new, "what is finished stands", key)

    def _listed(self, key: str, status: str, row: Item) -> None:
        """Whatever is not finished is found by recovery, and whatever is stuck by a person."""
        partition = text(row, "gsi1pk")
        if status in ("PROCESSING", "COMPENSATING"):
            listed = (partition or "").startswith("IN_FLIGHT#") and bool(text(row, "gsi1sk"))
            demand(listed, "what is in flight is listed for recovery", key, status)
        elif status == "LIMBO":
            demand(partition == "LIMBO" and text(row, "stuck_step"), "what is in LIMBO is listed there", key)
        else:
            demand(partition is None, "what is finished is listed nowhere", key, status)

    def _finished(self, key: str, status: str, row: Item) -> None:
        """What is finished holds no escrow, and has moved exactly what its end means."""
        moved = {account: change for account, change in self.moved.get(key, {}).items() if change}
        amount, fee, currency = number(row, "amount"), number(row, "fee"), text(row, "currency")
        payer, payee, fees, losses = (
            text(row, "payer"),
            text(row, "payee"),
            f"fees:{currency}",
            f"losses:{currency}",
        )
        demand(number(row, "escrow") == 0, "what is finished holds no escrow", key, status)
        lost = -moved.pop(losses, 0)
        if status == "SETTLED":
            wanted = {payer: -amount, payee: amount - fee, fees: fee + lost}
        elif status == "COMPENSATED":
            kept = {payee: amount - fee, fees: fee}
            wanted = {name: kept[name] for name in kept if moved.get(str(name)) == kept[name]} if lost else {}
            demand(sum(wanted.values()) == lost, "a loss is what was written off", key, moved, lost)
        else:
            wanted = {}
        wanted = {account: change for account, change in wanted.items() if change}
        demand(moved == wanted, f"{status} has the exact net", key, moved, wanted)

    def execution_ended(self, execution: Execution) -> None:
        """What an execution answers is true."""
        told = execution.data if execution.status == "SUCCEEDED" else None
        if not isinstance(told, dict) or told.get("key") not in self.settlements:
            return
        status = told["status"]
        if status in FINISHED:
            demand((told["key"], status) in self.ends, "what is said to be finished is", told["key"], status)
        row = self.settlements[told["key"]]
        for name in ("payer", "payee", "currency"):
            demand(told[name] == text(row, name), "an outcome tells what was claimed", told)
        for name in ("amount", "fee"):
            demand(minor(told[name]) == number(row, name), "an outcome tells what was claimed", told)

    def _sums(self, table: dict[tuple[str, str], Item]) -> None:
        """Per currency all rows sum to zero: customers, escrows, and the entries of internal accounts."""
        totals: Counter[str] = Counter()
        for row in table.values():
            if "currency" not in row:
                continue
            currency = row["currency"]["S"]
            totals[currency] += number(row, "available") + number(row, "escrow")
            for side, sign in (("debit", -1), ("credit", 1)):
                if (text(row, side) or "").startswith(("fees:", "losses:", "external:")):
                    totals[currency] += sign * number(row, "amount")
        demand(not any(totals.values()), "per currency all accounts sum to zero", dict(totals))

    def at_the_end(self, table: dict[tuple[str, str], Item], paged: set[tuple[str, int]]) -> None:
        """Once faults are over and time has run: everything rests, everybody was told, the books agree."""
        self._sums(table)
        barred: dict[str, set[str]] = {}
        for key, row in self.settlements.items():
            status = row["status"]["S"]
            demand(status in FINISHED | {"LIMBO"}, "every settlement ends", key, status)
            if status == "LIMBO":
                case = number(row, "resolutions") + 1
                demand((key, case) in paged, "a person is paged for each case of LIMBO", key, case)
                step = (text(row, "stuck_step") or "").partition(":")[2]
                account = text(row, "payee") if step == "release" else text(row, "payer")
                due = step in members(row, "steps") - members(row, "reversed")
                if step != "fee" and due:
                    barred.setdefault(str(account), set()).add(key)
            if status != "REJECTED" and "verify" in members(row, "steps"):
                entry = table.get((f"SETTLEMENT#{key}", f"{key}:verify"))
                demand(entry, "a verdict has its entry", key)
        for (pk, sk), row in table.items():
            if sk == "BALANCE":
                account = pk.partition("#")[2]
                demand(
                    members(row, "limbo_keys") == barred.get(account, set()),
                    "an account is in LIMBO exactly while a settlement of it is",
                    account,
                )


def settlement_in(payload: Mapping[str, Any]) -> dict[str, str]:
    """The settlement that a call is about; of those that carry it as such."""
    found: dict[str, str] = payload.get("state", payload).get("settlement", {})
    return found


def _is_entry(row: Item | None) -> bool:
    return bool(row) and "posted_at" in row  # type: ignore[operator]


def _has_row(account: str) -> bool:
    """Whether an account has a row with its balance: a customer's does, and a settlement's escrow."""
    return ":" not in account or account.startswith("escrow:")


def _resolved(posted: dict[str, Any]) -> set[str]:
    return {name for name in posted if name.startswith("resolve:")}
