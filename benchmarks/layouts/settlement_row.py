"""The layouts with a settlement row: its status, its escrow and its slots."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.layouts.payment import (
    FEES,
    FORWARD,
    HASH,
    Call,
    Payment,
    Provider,
    account_of,
    balance,
    deposit,
    entry,
    partition,
    statement_index,
)
from benchmarks.layouts.writes import Get, Key, Refusal, Row, Write, put, row_of, without

DUE = {"gsi1pk": "IN_FLIGHT#2", "gsi1sk": "2026-11-20T12:00:30.123Z"}


@dataclass(frozen=True, kw_only=True)
class SettlementRow:
    """A layout with a settlement row.

    `entries` is the money entries' place: the settlement's partition and a statement index, or the account's
    partition, sorted by the time of the claim or of the entry. With `entry_first`, an entry's key is an
    idempotency check beside the row's slot. `bug` is a planted one.
    """

    name: str
    claims_in_hold: bool = True
    plain_verify: bool = True
    fee_in_release: bool = False
    entries: Literal["settlement", "claimed_at", "posted_at"]
    entry_first: bool = True
    records_skips: bool = False
    lists_since: bool = False
    bug: str | None = None

    @property
    def bugs(self) -> tuple[str, ...]:
        """The bugs that can be planted."""
        verdict = ("verdict",) if self.plain_verify else ()
        return ("slot", "entry", "slot+entry", *verdict, "fence")

    # Rows

    def _row(self, payment: Payment, owner: str, now: str) -> Row:
        since = {"gsi2pk": f"SINCE#{now[:10]}", "gsi2sk": f"{now}#{payment.key}"} if self.lists_since else {}
        return {
            **{"pk": f"SETTLEMENT#{payment.key}", "sk": "SETTLEMENT", "status": "PROCESSING", "escrow": 0},
            **{"payer": payment.payer, "payee": payment.payee, "amount": payment.amount},
            **{"fee": payment.fee, "currency": "EUR", "request_hash": HASH, "owner": owner},
            **{"claimed_at": now, "deadline_at": now, "owner_epoch": 0},
            **DUE,
            **since,
        }

    def _entry(self, payment: Payment, step: str, now: str, claimed_at: str) -> Write:
        row = entry(payment, step, now)
        account, name = account_of(row), f"{payment.key}:{step}"
        if self.entries == "settlement":
            row |= {"pk": f"SETTLEMENT#{payment.key}", "sk": name}
            row |= statement_index(account, payment.key, step, now)
        elif self.entries == "claimed_at":
            row |= {"pk": f"ACCOUNT#{partition(account, payment.key)}", "sk": f"{claimed_at}#{name}"}
        else:
            row |= {"pk": f"ENTRIES#{partition(account, payment.key)}", "sk": f"{now}#{name}"}
        return put(row, () if self.bug in ("entry", "slot+entry") else (("pk", "absent", None),))

    def deposit(self, account: str, amount: int, now: str) -> Row:
        """Return the deposit's entry, where the account's statement finds it."""
        place = {"pk": f"DEPOSIT#{account}", "sk": "deposit"} | statement_index(
            account, "open", "deposit", now
        )
        if self.entries != "settlement":
            kind = "ENTRIES" if self.entries == "posted_at" else "ACCOUNT"
            place = {"pk": f"{kind}#{account}", "sk": f"{now}#open:deposit"}
        return deposit(account, amount, now, place)

    def _evidence(self, payment: Payment, step: str, now: str, **content: str) -> Write:
        kind = "EVIDENCE" if self.entries == "posted_at" else "SETTLEMENT"
        row: Row = {"pk": f"{kind}#{payment.key}", "sk": f"{payment.key}:{step}", "posted_at": now}
        return put(row | {"step": step, "request_hash": HASH, **content})

    def _slots(self, write: Write, *slots: str) -> Write:
        return without(write, *slots) if self.bug in ("slot", "slot+entry") else write

    def _step(self, payment: Payment, status: str, required: str | None, change: int, **slots: str) -> Write:
        """Build the row's part of a step: fence, step before, free slots and escrow."""
        conditions: list[tuple[str, str, object]] = [("request_hash", "=", HASH)]
        if not (self.bug == "fence" and "release_at" in slots):
            conditions.append(("status", "=", status))
        conditions += [(required, "present", None)] if required else []
        conditions += [(slot, "absent", None) for slot in slots]
        key = (f"SETTLEMENT#{payment.key}", "SETTLEMENT")
        write = Write(key, tuple(conditions), assign=slots, add={"escrow": change})
        return self._slots(write, *slots)

    def _finishing(self, write: Write, status: str) -> Write:
        assign = {**write.assign, "status": status, "finished_at": max(write.assign.values())}
        return Write(write.key, write.conditions, assign=assign, add=write.add, remove=tuple(DUE))

    def _transaction(self, row: Write, entries: list[Write], balances: list[Write]) -> list[Write]:
        first = [*entries, row] if self.entry_first else [row, *entries]
        return [*first, *balances]

    # Calls

    def claim(self, payment: Payment, owner: str, now: str) -> Call:
        """Claim the key with a plain put."""
        answer = yield [put(self._row(payment, owner, now))]
        if isinstance(answer, Refusal) and (found := answer.found):
            is_mine = found["status"] == "PROCESSING" and found["owner"] == owner
            return f"ok:{found['claimed_at']}" if is_mine else "elsewhere"
        return f"ok:{now}"

    def hold(self, payment: Payment, owner: str, now: str, claimed_at: str) -> Call:
        """Take the amount from the payer; in most layouts claim the key in the same transaction."""
        if self.claims_in_hold:
            row = self._row(payment, owner, now) | {"escrow": payment.amount, "hold_at": now}
            debit = balance(payment.payer, -payment.amount)
            answer = yield [put(row), self._entry(payment, "hold", now, now), debit]
            if not isinstance(answer, Refusal):
                return f"ok:{now}"
            if answer.write.key[1] == "BALANCE":
                return "funds"
            found = answer.found
            if found is None or found["status"] != "PROCESSING" or found["owner"] != owner:
                return "elsewhere"
            claimed_at = found["claimed_at"]
            if "hold_at" in found:
                return f"ok:{claimed_at}"
        writes = self._transaction(
            self._step(payment, "PROCESSING", None, payment.amount, hold_at=now),
            [self._entry(payment, "hold", now, claimed_at)],
            [balance(payment.payer, -payment.amount)],
        )
        outcome = _outcome((yield writes), "hold_at")
        return f"ok:{claimed_at}" if outcome == "ok" else outcome

    def reject(self, payment: Payment, now: str) -> Call:
        """Refuse a payment of which nothing is held: a tombstone, or the claimed row."""
        if self.claims_in_hold:
            tombstone = self._tombstone(payment, now)
            answer = yield [put(tombstone)]
            if not isinstance(answer, Refusal):
                return "ok"
        conditions = (("status", "=", "PROCESSING"), ("hold_at", "absent", None))
        key = (f"SETTLEMENT#{payment.key}", "SETTLEMENT")
        assign = {"status": "REJECTED", "finished_at": now}
        yield [Write(key, conditions, assign=assign, remove=tuple(DUE))]
        return "ok"

    def _tombstone(self, payment: Payment, now: str) -> Row:
        row = {name: value for name, value in self._row(payment, "-", now).items() if name not in DUE}
        return row | {"status": "REJECTED", "finished_at": now}

    def verify(self, payment: Payment, now: str, claimed_at: str, provider: Provider) -> Call:
        """Put the provider's verdict on record, unless there is one."""
        found = row_of((yield Get((f"SETTLEMENT#{payment.key}", "SETTLEMENT"))))
        if "verdict" in found:
            return str(found["verdict"])
        if found.get("status") != "PROCESSING":
            return "fenced"
        record = self._record if self.plain_verify else self._record_at_once
        return (yield from record(payment, provider(), now))

    def _record_at_once(self, payment: Payment, decision: str, now: str) -> Call:
        """Write evidence and row in one transaction."""
        answer = yield [self._evidence_of(payment, decision, now), self._verdict(payment, decision, now)]
        if isinstance(answer, Refusal):
            return str(row_of(answer).get("decision", "fenced"))
        return decision

    def _record(self, payment: Payment, decision: str, now: str) -> Call:
        """Write the evidence, and then the row with the verdict that is on record."""
        evidence = self._evidence_of(payment, decision, now)
        if self.bug == "verdict":
            return (yield from self._record_in_the_wrong_order(payment, evidence, decision, now))
        decision = row_of((yield [evidence]))["decision"]
        row = row_of((yield [self._verdict(payment, decision, now)]))
        return str(row.get("verdict", "fenced"))

    def _record_in_the_wrong_order(self, payment: Payment, evidence: Write, decision: str, now: str) -> Call:
        row = row_of((yield [self._verdict(payment, decision, now)]))
        if "verdict" not in row:
            return "fenced"
        yield [evidence]
        return decision

    def _evidence_of(self, payment: Payment, decision: str, now: str) -> Write:
        return self._evidence(payment, "verify", now, decision=decision, reference="ver_1", provider="v")

    def _verdict(self, payment: Payment, decision: str, now: str) -> Write:
        conditions: list[tuple[str, str, object]] = [
            ("request_hash", "=", HASH),
            ("status", "=", "PROCESSING"),
        ]
        conditions += [("hold_at", "present", None), ("verdict", "absent", None)]
        approved = {"verify_at": now} if decision == "APPROVED" else {}
        key = (f"SETTLEMENT#{payment.key}", "SETTLEMENT")
        return Write(key, tuple(conditions), assign={"verdict": decision, **approved})

    def release(self, payment: Payment, now: str, claimed_at: str) -> Call:
        """Pay the payee, in some layouts with the fee."""
        credit = balance(payment.payee, payment.net)
        entries = [self._entry(payment, "release", now, claimed_at)]
        row = self._step(payment, "PROCESSING", "verify_at", -payment.net, release_at=now)
        if self.fee_in_release:
            entries.append(self._entry(payment, "fee", now, claimed_at))
            row = self._finishing(
                self._step(payment, "PROCESSING", "verify_at", -payment.amount, release_at=now, fee_at=now),
                "SETTLED",
            )
        return _outcome((yield self._transaction(row, entries, [credit])), "release_at")

    def fee(self, payment: Payment, now: str, claimed_at: str) -> Call:
        """Take the fee, which finishes the settlement."""
        if self.fee_in_release:
            return "ok"
        row = self._step(payment, "PROCESSING", "release_at", -payment.fee, fee_at=now)
        entries = [self._entry(payment, "fee", now, claimed_at)]
        writes = self._transaction(self._finishing(row, "SETTLED"), entries, [])
        return _outcome((yield writes), "fee_at")

    def begin(self, payment: Payment, now: str, by_order: bool) -> Call:
        """Fence the settlement off. Only an order reverses a released or settled one."""
        answer = yield [put(self._tombstone(payment, now))]
        if not isinstance(answer, Refusal):
            return "rejected"
        key = (f"SETTLEMENT#{payment.key}", "SETTLEMENT")
        for status in ("PROCESSING", "SETTLED") if by_order else ("PROCESSING",):
            conditions: list[tuple[str, str, object]] = [("status", "=", status)]
            conditions += [] if by_order else [("release_at", "absent", None)]
            listed = DUE if status == "SETTLED" else {}
            answer = yield [Write(key, tuple(conditions), assign={"status": "COMPENSATING", **listed})]
            if not isinstance(answer, Refusal):
                break
        row = row_of(answer)
        if row["status"] != "COMPENSATING":
            return "finished"
        return ",".join([row["claimed_at"], *(step for step in FORWARD if f"{step}_at" in row)])

    def reverse(self, payment: Payment, step: str, now: str, begun: str) -> Call:
        """Reverse a step that has committed; the reversal of the hold finishes the settlement."""
        claimed_at, *committed = begun.split(",")
        name, key = f"compensate:{step}", (f"SETTLEMENT#{payment.key}", "SETTLEMENT")
        if step not in committed:
            fence = (("status", "=", "COMPENSATING"), (f"{step}_at", "absent", None))
            row = Write(key, fence, add={"escrow": 0})
            if step == "hold":
                finished = {"status": "COMPENSATED", "finished_at": now}
                row = Write(key, fence, assign=finished, remove=tuple(DUE))
            elif not self.records_skips:
                return "ok"
            reason = "nothing to reverse: it never committed"
            evidence = [self._evidence(payment, name, now, reason=reason)] if self.records_skips else []
            yield [*evidence, row]
            return "ok"
        entries = [self._entry(payment, name, now, claimed_at)]
        change = {"hold": -payment.amount, "release": payment.net, "fee": payment.fee}[step]
        row = self._step(payment, "COMPENSATING", f"{step}_at", change, **{f"{step}_reversed_at": now})
        moved = {
            "hold": [balance(payment.payer, payment.amount)],
            "release": [balance(payment.payee, -payment.net)],
        }
        if step == "hold":
            row = self._finishing(row, "COMPENSATED")
            row = Write(
                row.key,
                (*row.conditions, ("escrow", "=", payment.amount)),
                assign=row.assign,
                add=row.add,
                remove=row.remove,
            )
        return _outcome((yield self._transaction(row, entries, moved.get(step, []))), f"{step}_reversed_at")

    def take_over(self, payment: Payment, owner: str) -> Call:
        """Make `owner` the owner of a settlement in flight; return what is due."""
        found = row_of((yield Get((f"SETTLEMENT#{payment.key}", "SETTLEMENT"))))
        if found.get("status") not in ("PROCESSING", "COMPENSATING"):
            return "finished"
        if found["status"] == "PROCESSING":
            answer = yield [
                Write(
                    (f"SETTLEMENT#{payment.key}", "SETTLEMENT"),
                    (("status", "=", "PROCESSING"),),
                    assign={"owner": owner},
                )
            ]
            return "finished" if isinstance(answer, Refusal) else "settle"
        return "compensate"

    # What the rows say, for the invariants

    def view(self, rows: dict[Key, Row], payment: Payment) -> Row | None:
        """Return the settlement as its row tells it: status, escrow, verdict, and the slots."""
        return rows.get((f"SETTLEMENT#{payment.key}", "SETTLEMENT"))

    def decision(self, rows: dict[Key, Row], payment: Payment) -> str | None:
        """Return the decision in the evidence; None if there is none."""
        kind = "EVIDENCE" if self.entries == "posted_at" else "SETTLEMENT"
        found = rows.get((f"{kind}#{payment.key}", f"{payment.key}:verify"))
        return found["decision"] if found else None

    def statement(self, entry: Row) -> str:
        """Return the account whose statement lists the entry."""
        place: str = entry["gsi1pk"] if self.entries == "settlement" else entry["pk"]
        account = place.partition("#")[2]
        return FEES if account.startswith(FEES) else account


def _outcome(answer: Row | Refusal | None, slot: str) -> str:
    """Return the meaning of a step's answer: committed now or before, no funds, or fenced off."""
    if not isinstance(answer, Refusal):
        return "ok"
    found = answer.found or {}
    if answer.write.key[1] == "BALANCE":
        return "funds"
    return "ok" if "step" in found or slot in found else "fenced"
