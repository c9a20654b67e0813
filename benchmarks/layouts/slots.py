"""Layout F: write-once slots and no settlement row."""

from dataclasses import dataclass

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
from benchmarks.layouts.writes import Get, Key, Refusal, Row, Write, put, row_of


@dataclass(frozen=True, kw_only=True)
class Slots:
    """A layout whose settlement is its entries.

    Each slot `<key>:<step>` is put once: the release and the fence want the same one. A row of its own lists
    the settlement in flight; a plain delete takes it out. `bug` is a planted one.
    """

    name: str = "F write-once slots, no settlement row"
    bug: str | None = None
    claims_in_hold = True
    bugs = ("slot", "verdict", "fence", "list")

    def _slot(self, payment: Payment, step: str, content: Row, now: str) -> Write:
        row = {"pk": f"SETTLEMENT#{payment.key}", "sk": f"{payment.key}:{step}", "posted_at": now, **content}
        is_unguarded = self.bug == ("verdict" if step == "verify" else "slot")
        return put(row, () if is_unguarded else (("pk", "absent", None),))

    def _entry(self, payment: Payment, step: str, now: str, **more: str) -> Write:
        row = entry(payment, step, now) | more
        account = account_of(row)
        if account == FEES:
            place = {"pk": f"ENTRIES#{partition(FEES, payment.key)}", "sk": f"{payment.key}:{step}"}
            return put(row | place)
        return self._slot(payment, step, row | statement_index(account, payment.key, step, now), now)

    def _in_flight(self, payment: Payment, now: str) -> Row:
        return {"pk": "IN_FLIGHT#2", "sk": payment.key, "since": now}

    def deposit(self, account: str, amount: int, now: str) -> Row:
        """Return the deposit's entry, where the account's statement finds it."""
        place = {"pk": f"DEPOSIT#{account}", "sk": "deposit"} | statement_index(
            account, "open", "deposit", now
        )
        return deposit(account, amount, now, place)

    def claim(self, payment: Payment, owner: str, now: str) -> Call:
        """Claim nothing: without a row there is no place for a claim before the hold."""
        yield Get((f"SETTLEMENT#{payment.key}", f"{payment.key}:hold"))
        return "ok:"

    def hold(self, payment: Payment, owner: str, now: str, claimed_at: str) -> Call:
        """Take the amount from the payer, and list the settlement in flight."""
        hold = self._entry(payment, "hold", now, payer=payment.payer, payee=payment.payee, owner=owner)
        listed = put(self._in_flight(payment, now), ())
        answer = yield [hold, listed, balance(payment.payer, -payment.amount)]
        if not isinstance(answer, Refusal):
            return f"ok:{now}"
        return f"ok:{row_of(answer)['posted_at']}" if _outcome(answer) == "ok" else _outcome(answer)

    def reject(self, payment: Payment, now: str) -> Call:
        """Refuse a payment of which nothing is held: take the hold's slot."""
        yield [self._slot(payment, "hold", {"fenced": "rejected", "request_hash": HASH}, now)]
        return "ok"

    def verify(self, payment: Payment, now: str, claimed_at: str, provider: Provider) -> Call:
        """Put the provider's verdict on record, once."""
        found = yield Get((f"SETTLEMENT#{payment.key}", f"{payment.key}:verify"))
        if isinstance(found, dict):
            return str(found["decision"])
        content = {"decision": provider(), "step": "verify", "request_hash": HASH}
        answer = yield [self._slot(payment, "verify", content | {"reference": "ver_1", "provider": "v"}, now)]
        return str(row_of(answer)["decision"])

    def release(self, payment: Payment, now: str, claimed_at: str) -> Call:
        """Pay the payee and the fee, if reads show the hold and an approval."""
        held = row_of((yield Get((f"SETTLEMENT#{payment.key}", f"{payment.key}:hold"))))
        verdict = row_of((yield Get((f"SETTLEMENT#{payment.key}", f"{payment.key}:verify"))))
        if not held or "fenced" in held or verdict.get("decision") != "APPROVED":
            return "fenced"
        credit = balance(payment.payee, payment.net)
        answer = yield [self._entry(payment, "release", now), self._entry(payment, "fee", now), credit]
        return _outcome(answer)

    def fee(self, payment: Payment, now: str, claimed_at: str) -> Call:
        """Take the settlement out of the list; the fee is in the release's transaction."""
        since = () if self.bug == "list" else (("since", "=", claimed_at),)
        yield [Write(("IN_FLIGHT#2", payment.key), since, is_delete=True)]
        return "ok"

    def begin(self, payment: Payment, now: str, by_order: bool) -> Call:
        """Fence the settlement off: take the hold's slot, or else the release's."""
        content = {"fenced": "compensation", "request_hash": HASH}
        answer = yield [self._slot(payment, "hold", content, now)]
        if not isinstance(answer, Refusal):
            return "rejected"
        if "fenced" in row_of(answer):
            return "finished"
        if self.bug == "fence":
            found = yield Get((f"SETTLEMENT#{payment.key}", f"{payment.key}:release"))
            return ",".join(["", *(FORWARD if found else FORWARD[:1])])
        answer = yield [self._slot(payment, "release", content, now)]
        if "fenced" in row_of(answer):
            return ",hold"
        if not by_order:
            return "finished"
        # Not the bare time: clocks that agree by chance would let a late delete take it for the hold's.
        yield [put(self._in_flight(payment, f"order {now}"), ())]
        return ",".join(["", *FORWARD])

    def reverse(self, payment: Payment, step: str, now: str, begun: str) -> Call:
        """Reverse a step: the slot `compensate:<step>` is put once, too."""
        if step not in begun.split(","):
            return "ok"
        moved = {
            "hold": [balance(payment.payer, payment.amount)],
            "release": [balance(payment.payee, -payment.net)],
        }
        answer = yield [self._entry(payment, f"compensate:{step}", now), *moved.get(step, [])]
        if step == "hold" and _outcome(answer) == "ok":
            yield [Write(("IN_FLIGHT#2", payment.key), (), is_delete=True)]
        return _outcome(answer)

    def take_over(self, payment: Payment, owner: str) -> Call:
        """Read which slots are taken. No row names an owner."""
        fees = f"ENTRIES#{partition(FEES, payment.key)}"
        refunded = yield Get((fees, f"{payment.key}:compensate:fee"))
        settlement = f"SETTLEMENT#{payment.key}"
        held = row_of((yield Get((settlement, f"{payment.key}:hold"))))
        released = row_of((yield Get((settlement, f"{payment.key}:release"))))
        voided = yield Get((settlement, f"{payment.key}:compensate:hold"))
        if not held or "fenced" in held or voided:
            return "finished"
        if not released:
            return "settle"
        return "compensate" if "fenced" in released or refunded else "finished"

    def view(self, rows: dict[Key, Row], payment: Payment) -> Row | None:
        """Derive the settlement's state from its slots. Each entry is its own witness."""

        def found(step: str) -> Row | None:
            return rows.get((f"SETTLEMENT#{payment.key}", f"{payment.key}:{step}"))

        fees: Key = (f"ENTRIES#{partition(FEES, payment.key)}", f"{payment.key}:fee")
        refunds = (fees[0], f"{payment.key}:compensate:fee")
        taken = {step: row for step in ("hold", "release") if (row := found(step))}
        entries = {f"{step}_at": row for step, row in taken.items() if "fenced" not in row}
        entries |= {
            f"{step}_reversed_at": row for step in ("hold", "release") if (row := found(f"compensate:{step}"))
        }
        entries |= {"fee_at": rows[fees]} if fees in rows else {}
        entries |= {"fee_reversed_at": rows[refunds]} if refunds in rows else {}
        if "hold" not in taken:
            return None
        state: Row = {slot: row["posted_at"] for slot, row in entries.items()}
        state["status"] = "PROCESSING"
        if "fenced" in taken["hold"]:
            state["status"] = "REJECTED"
        elif "hold_reversed_at" in state:
            state["status"] = "COMPENSATED"
        elif "fee_reversed_at" in state or "fenced" in taken.get("release", ()):
            state["status"] = "COMPENSATING"
        elif "release_at" in state:
            state["status"] = "SETTLED"
        return state

    def decision(self, rows: dict[Key, Row], payment: Payment) -> str | None:
        """Return the decision in the evidence; None if there is none."""
        found = rows.get((f"SETTLEMENT#{payment.key}", f"{payment.key}:verify"))
        return found["decision"] if found else None

    def statement(self, entry: Row) -> str:
        """Return the account whose statement lists the entry."""
        place: str = entry["gsi1pk"] if "gsi1pk" in entry else entry["pk"]
        account = place.partition("#")[2]
        return FEES if account.startswith(FEES) else account


def _outcome(answer: Row | Refusal | None) -> str:
    if not isinstance(answer, Refusal):
        return "ok"
    if answer.write.key[1] == "BALANCE":
        return "funds"
    return "fenced" if "fenced" in (answer.found or {}) else "ok"
