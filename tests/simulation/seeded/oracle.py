"""Checks each commit's wire rows by rules from the design, which share no code with the functions."""

from collections import Counter

from settlement.orders.proposal import Move
from tests.simulation.seeded import account_rules, asking, cancel_rules, rules
from tests.simulation.seeded.account_rules import EXTERNAL
from tests.simulation.seeded.deadlines import Deadlines
from tests.simulation.seeded.facts import (
    FINISHED,
    FORWARD,
    LABELS,
    POISON,
    STATUSES,
    Sums,
    demand,
    done,
    has_row,
    is_entry,
    is_merchant,
    is_swept_later,
    keeps_to_its_bound,
    key_of,
    labels_of,
    minor,
    number,
    text,
    undone,
)
from tests.simulation.seeded.merchants import Merchants
from tests.simulation.seeded.payees import Payees
from tests.simulation.seeded.persons import Together
from tests.simulation.seeded.rules import Asking
from tests.world.contracts import checked_outcome
from tests.world.expressions import Item
from tests.world.interpreter import Execution
from tests.world.memory_dynamodb import Changes

FIXED = (
    *("payer", "payee", "amount", "fee", "currency", "request_hash", "claimed_at", "deadline_seconds"),
    *LABELS,
)


class Oracle:
    """Independent books, summed from entries and compared with each commit."""

    def __init__(self) -> None:
        self.balances: Sums[tuple[str, str]] = Sums()
        """Entries summed by account and currency, in minor units."""

        self.moved: dict[str, Sums[str]] = {}
        """Each settlement's change of each account."""

        self.settlements: dict[str, Item] = {}
        self.verdicts: dict[tuple[str, str], Item] = {}
        """Verdict evidence by settlement and kind."""

        self.ends: set[tuple[str, str]] = set()
        """Settlements' final statuses so far; an order or decision can reopen one."""

        self.blocks: dict[str, int] = {}
        self.gone: tuple[Item, ...] = ()
        self.merchants, self.payees, self.deadlines = Merchants(), Payees(), Deadlines()
        self.together = Together()
        self.reached: Counter[str] = Counter()
        self.commits = 0

    def copy(self) -> "Oracle":
        """Copy the books. Rows are shared, because they never change in place."""
        other = Oracle()
        other.balances = Sums(self.balances)
        other.moved = {key: Sums(moved) for key, moved in self.moved.items()}
        other.settlements, other.ends = self.settlements.copy(), self.ends.copy()
        other.verdicts, other.gone = self.verdicts.copy(), self.gone
        other.blocks, other.commits = self.blocks.copy(), self.commits
        other.merchants, other.payees = self.merchants.copy(), self.payees.copy()
        other.deadlines = self.deadlines.copy()
        other.together = self.together.copy()
        return other

    def committed(self, changes: Changes, asking: Asking) -> None:
        self.commits += 1
        entries = [self._entry(old, new) for old, new in changes if is_entry(old) or is_entry(new)]
        for entry in entries:
            if entry["step"]["S"].partition(":")[0] in ("verify", "review", "check"):
                self.verdicts[key_of(entry), entry["step"]["S"]] = entry
        touched = self.merchants.swept(changes)
        self._post([entry for entry in entries if "debit" in entry], touched)
        steps = {entry["step"]["S"] for entry in entries}
        rules.content_is_unchanged(changes, asking)
        rules.entries_alone_expire(changes, asking)
        account_rules.carried_out(changes, asking)
        self.payees.committed(changes, asking)
        self.together.committed(changes, self.settlements, asking)
        self.deadlines.committed(changes, asking)
        fenced = {
            new["pk"]["S"].partition("#")[2] for _, new in changes if new and new["sk"]["S"] == "SETTLEMENT"
        }
        for entry in entries:
            self._is_fenced(entry, fenced)
        for old, new in changes:
            kind = (new or old or {})["pk"]["S"].partition("#")[0]
            if is_entry(old) or is_entry(new) or kind == "ORDER":
                continue
            if kind == "ACCOUNT":
                self._account(old, new, touched, steps)
            elif kind == "SETTLEMENT" and not (new or old or {})["pk"]["S"].endswith(POISON):
                posted_now = _by_step(entries)
                self._settlement(old, new, touched, posted_now, asking)
                if old and new:
                    rules.asked_for(old, new, posted_now, asking)
            else:
                _beside(kind, old, new)
        left = {account: change for account, change in touched.items() if change and has_row(account)}
        demand(not left, "an entry and the balance that it moves commit together", left)
        stuck = self._blocking()
        for account, counted in self.blocks.items():
            is_right = counted == stuck[account]
            demand(is_right, "an account is blocked by its settlements in LIMBO alone", account, counted)

    def _post(self, posted: list[Item], touched: Sums[str]) -> None:
        for entry in posted:
            amount, currency = number(entry, "amount"), entry["currency"]["S"]
            demand(amount >= 0, "no entry moves a negative amount", entry)
            for account, change in ((entry["debit"]["S"], -amount), (entry["credit"]["S"], amount)):
                self.balances[account, currency] += change
                if is_merchant(account) and is_swept_later(entry):
                    self.merchants.received(entry)
                else:
                    touched[account] += change
                demand(
                    self.balances[account, currency] >= 0
                    or account.partition(":")[0] in ("external", "losses", "fees"),
                    "no account goes below zero",
                    account,
                )
                if text(entry, "step") not in EXTERNAL:  # an order may have a settlement's key
                    moved = self.moved.setdefault(key_of(entry), Sums())
                    moved[account] += change

    def _entry(self, old: Item | None, new: Item | None) -> Item:
        demand(old is None, "an entry is written once and never changed", text(old, "sk"))
        assert new
        listed = new["pk"]["S"].split("#")
        if "debit" in new:
            escrow = f"escrow:{key_of(new)}"
            (of,) = {new["debit"]["S"], new["credit"]["S"]} - {escrow, f"external:{text(new, 'currency')}"}
            demand(listed[:2] == ["ENTRIES", of], "an entry is in its account's statement", listed, of)
            place = f"{text(new, 'posted_at')}#{key_of(new)}:{text(new, 'step')}"
            demand(place == text(new, "sk"), "a statement lists an entry by its time", place)
        else:
            demand(listed == ["EVIDENCE", key_of(new)], "evidence is not among the entries", listed)
        return new

    def _is_fenced(self, entry: Item, fenced: set[str]) -> None:
        """Check that an entry commits with its settlement's row. Verdicts and proposals may be earlier."""
        key, step = key_of(entry), text(entry, "step")
        if step in EXTERNAL or key in fenced:  # an order is its entry's fence: account_rules.py
            return
        kind = (step or "").partition(":")[0]
        comes_before = step == "verify" or kind == "check" or kind in set(map(str, Move))
        demand(comes_before, "no entry goes without its fence", text(entry, "sk"))
        row = self.settlements.get(key)
        same = text(row, "request_hash") == text(entry, "request_hash")
        demand(row and same, "a verdict is on the content that was claimed", key)

    def _account(self, old: Item | None, new: Item | None, touched: Sums[str], steps: set[str]) -> None:
        assert new, "no account is ever deleted"
        account = new["pk"]["S"].partition("#")[2]
        change = number(new, "available") - number(old, "available")
        demand(change == touched.pop(account, 0), "a balance moves by its entries alone", account, change)
        balance = self.balances[account, new["currency"]["S"]] - self.merchants.unswept[account]
        demand(balance >= 0, "no account spends what it does not have yet", account)
        demand(number(new, "available") == balance, "a balance is the sum of its entries", account)
        is_received = is_merchant(account) and "release" in steps and change > 0
        demand(not is_received, "a release leaves a merchant's balance alone", account)
        demand(old is None or old["currency"] == new["currency"], "an account keeps its currency", account)
        self.blocks[account] = number(new, "limbo_cases")
        if "hold" in steps:
            demand(change <= 0, "a hold takes from an account", account)
            demand(not number(old, "limbo_cases"), "a blocked account places no hold", account)
            demand(not text(old, "frozen_at"), "a frozen account places no hold", account)
            demand(not text(old, "closed_at"), "a closed account places no hold", account)
        if "release" in steps:
            demand(not text(old, "closed_at"), "a closed account gets no release", account)
            demand(keeps_to_its_bound(new), "a release keeps to the highest balance", account)

    def _settlement(
        self,
        old: Item | None,
        new: Item | None,
        touched: Sums[str],
        posted: dict[str, Item],
        asking: Asking,
    ) -> None:
        assert new, "no settlement is ever deleted"
        key = new["pk"]["S"].partition("#")[2]
        before, after = text(old, "status"), new["status"]["S"]
        change = number(new, "escrow") - number(old, "escrow")
        demand(change == touched.pop(f"escrow:{key}", 0), "an escrow moves by its entries alone", key, change)
        demand(number(new, "escrow") >= 0, "no escrow goes below zero", key)
        if old is None:
            demand(after in ("PROCESSING", "REJECTED"), "a settlement begins with its claim", key, after)
            demand(after == "PROCESSING" or not posted, "a rejection moves nothing", key)
            rules.fee_is_accepted(key, new, asking)
            claimed = {name: new[name] for name in new if name != "hold_at"}
            rules.steps_commit(key, claimed, new, posted)
        else:
            for name in FIXED:
                demand(old.get(name) == new.get(name), "the claimed content never changes", key, name)
            demand(
                after == before or after in STATUSES[before or ""],
                "the status changes by a legal transition",
                before,
                after,
            )
            demand(
                number(new, "owner_epoch") >= number(old, "owner_epoch"),
                "the owner's epoch never decreases",
                key,
            )
            for name in (f"{step}{end}" for step in FORWARD for end in ("_at", "_reversed_at")):
                demand(
                    name not in old or old[name] == new.get(name),
                    "a committed step is never taken back",
                    key,
                    name,
                )
            named = "deadline_seconds" in old
            demand(
                not named or old["deadline_at"] == new["deadline_at"], "a named deadline never changes", key
            )
            rules.steps_commit(key, old, new, posted)
            evidence = self.verdicts.get((key, "review"), self.verdicts.get((key, "verify")))
            rules.verdict_is_recorded(key, old, new, evidence)
            rules.times_are_unchanged(key, old, new, posted)
            rules.moves_along(key, before or "", after, old, new, posted)
            rules.review_rests(key, old, new, posted, asking)
        cancel_rules.by_right(key, old, new, posted, asking)
        rules.is_listed(key, after, new)
        if after in FINISHED:
            self._finished(key, after, new)
            self.ends.add((key, after))
        if before != after:
            self.reached[f"{before} to {after}"] += 1
        self.settlements[key] = new

    def _finished(self, key: str, status: str, row: Item) -> None:
        """Check that a finished settlement has no escrow and has moved the money of its status."""
        moved = {account: change for account, change in self.moved.get(key, {}).items() if change}
        amount, fee, currency = number(row, "amount"), number(row, "fee"), text(row, "currency")
        payer, payee, fees, losses = (
            text(row, "payer"),
            text(row, "payee"),
            f"fees:{currency}",
            f"losses:{currency}",
        )
        demand(number(row, "escrow") == 0, "a finished settlement holds no escrow", key, status)
        lost = -moved.pop(losses, 0)
        if status == "SETTLED":
            back = number(row, "reversed_in_part")
            wanted = {payer: back - amount, payee: amount - fee - back, fees: fee + lost}
        elif status == "COMPENSATED":
            kept = {payee: amount - fee, fees: fee}
            wanted = {name: kept[name] for name in kept if moved.get(str(name)) == kept[name]} if lost else {}
            demand(
                sum(wanted.values()) == lost, "a loss is the amount that was written off", key, moved, lost
            )
        else:
            wanted = {}
        wanted = {account: change for account, change in wanted.items() if change}
        demand(moved == wanted, f"{status} has the exact net", key, moved, wanted)

    def refused(self, function: str, key: str, error: str, told: str, *, was_claimed: bool) -> None:
        rules.is_refused_for_its_fee_alone(function, error, told, key, was_claimed=was_claimed)
        if function == "ReclaimFunds" and error == "InsufficientFunds":
            demand(self.merchants.is_swept(key), "a refund finds the money of its own release", key)

    def execution_ended(self, execution: Execution) -> None:
        """Check an outcome against its contract and the row."""
        asking.is_no_stall(execution)
        if execution.status != "SUCCEEDED":
            return
        told = checked_outcome(execution.data)
        if told["key"] not in self.settlements:
            return
        status = told["status"]
        if status in FINISHED:
            demand(
                (told["key"], status) in self.ends,
                "a settlement that is reported as finished is finished",
                told["key"],
                status,
            )
        row = self.settlements[told["key"]]
        if told["next"]["action"] == "new_key":
            never_pays = not STATUSES[row["status"]["S"]]
            demand(never_pays, "a new key is told once this one can never pay", told["key"], status)
        for name in ("payer", "payee", "currency"):
            demand(told[name] == text(row, name), "an outcome reports the claimed content", told)
        said = {name: told[name] for name in LABELS if name in told}
        demand(said == labels_of(row), "an outcome reports the claimed content", told)
        for name in ("amount", "fee"):
            demand(
                minor(told[name], told["currency"]) == number(row, name),
                "an outcome reports the claimed content",
                told,
            )

    def _sums(self, table: dict[tuple[str, str], Item]) -> None:
        """Check that all accounts of each currency sum to zero."""
        totals: Counter[str] = Counter()
        for row in (*table.values(), *self.gone):
            if "currency" not in row:
                continue
            currency = row["currency"]["S"]
            totals[currency] += number(row, "available") + number(row, "escrow")
            for side, sign in (("debit", -1), ("credit", 1)):
                if (text(row, side) or "").startswith(("fees:", "losses:", "external:")):
                    totals[currency] += sign * number(row, "amount")
        demand(not any(totals.values()), "per currency all accounts sum to zero", dict(totals))

    def _blocking(self) -> Counter[str]:
        blocks: Counter[str] = Counter()
        for row in self.settlements.values():
            step = (text(row, "stuck_step") or "").partition(":")[2]
            if text(row, "status") == "LIMBO" and step != "fee" and step in done(row) - undone(row):
                blocks[str(text(row, "payee" if step == "release" else "payer"))] += 1
        return blocks

    def at_the_end(self, table: dict[tuple[str, str], Item], alerted: set[tuple[str, int]]) -> None:
        """Check that settlements rest, on call was alerted, and books agree."""
        left = {merchant: amount for merchant, amount in self.merchants.unswept.items() if amount > 0}
        demand(not left, "everything that was delivered is swept in the end", left)
        self._sums(table)
        blocks = self._blocking()
        for key, row in self.settlements.items():
            status = row["status"]["S"]
            demand(status in FINISHED | {"LIMBO"}, "every settlement ends", key, status)
            if status == "LIMBO":
                case = number(row, "resolutions") + 1
                demand((key, case) in alerted, "on call is alerted of each case of LIMBO", key, case)
            if text(row, "verdict"):
                kinds = (table.get((f"EVIDENCE#{key}", f"{key}:{kind}")) for kind in ("verify", "review"))
                demand(any(kinds), "a verdict has its evidence", key)
        for (pk, sk), row in table.items():
            if sk == "BALANCE":
                account = pk.partition("#")[2]
                demand(
                    number(row, "limbo_cases") == blocks[account],
                    "an account is blocked exactly while a settlement of it is in LIMBO",
                    account,
                )


def _beside(kind: str, old: Item | None, new: Item | None) -> None:
    """Check a row outside the books; persons.py checks proposals."""
    if kind == "KYC_EVENT":
        demand(old is None, "an event is marked once and never changed", text(old, "pk"))
    elif kind == "MIGRATION":
        following = number(old, "version") + 1 == number(new, "version")
        demand(following, "each runner follows what it has read of a migration", text(new, "runner"))
    elif kind == "WAITING":
        later = number(old, "case") <= number(new, "case")
        demand(later, "no execution waits for an earlier case in the place of a later one", kind)


def _by_step(entries: list[Item]) -> dict[str, Item]:
    found: dict[str, Item] = {}
    for entry in entries:
        step = entry["step"]["S"]
        found[step] = {**found.get(step, {}), **entry}
    return found
