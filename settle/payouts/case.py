"""The open case of a payout: its verdicts, the proposals on record, and the next commands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from settle.placeholder import REASON
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.stored import MalformedRow, exponent_of, subject_of
from settlement.payouts.decision import AGAINST, Verdict, approved, texts_of, verdicts
from settlement.payouts.payout import State, Status

_EFFECTS: Mapping[tuple[Status, Verdict], str] = {
    (Status.LIMBO, Verdict.PAID): "the bank has paid it: {money} leave the books",
    (Status.LIMBO, Verdict.NOT_PAID): "the bank never pays it: {money} go back to {account}",
    (Status.LIMBO, Verdict.ASK): "no money moves: the bank is asked for as long again",
    (Status.PAID, Verdict.NOT_PAID): "the bank has not paid it after all: {money} go back to {account}",
    (Status.PAID, Verdict.ASK): "no money moves: its debit is waited for as long again",
    (Status.PAID, Verdict.CLOSE): "no money moves: it stays paid, and its debit is not looked for",
    (Status.RETURNED, Verdict.ASK): "no money moves: its return is waited for as long again",
    (Status.RETURNED, Verdict.CLOSE): "no money moves: its return is not looked for",
    (Status.RETURNED, Verdict.GIVE_BACK): "{money} go from suspense to {account}",
}


@dataclass
class OnRecord:
    """Decisions on record about a case's current state, and the names of `unreadable` rows."""

    proposed: dict[Verdict, dict[str, str]] = field(default_factory=dict)
    approved: dict[str, str] | None = None
    unreadable: list[str] = field(default_factory=list)


def describe(stack: Stack, state: State, found: OnRecord) -> dict[str, Any]:
    return {
        "number": state.cases,
        "trouble": state.trouble,
        "since": state.listed_at,
        "digest": state.digest,
        "approved": found.approved,
        "verdicts": [_choice(stack, state, verdict, found) for verdict in verdicts(state)],
        "ask": stack.command("payout ask", state.key),
    }


def approval(stack: Stack, state: State, order: Mapping[str, Any]) -> str:
    """Return the command by which another person approves a proposal on the current case."""
    against = order.get("contradicts", False)
    return _command(stack, state, "approve", order["verdict"], order.get("account"), against=against)


def on_record(stack: Stack, states: Sequence[State]) -> dict[str, OnRecord]:
    """Return the decisions about open cases, by the payout's key."""
    found = dict[str, OnRecord]()
    for state in states:
        rows, unreadable = decisions(stack, state.key, _beginning(state))
        found[state.key] = of_rows(state, rows)
        found[state.key].unreadable += unreadable
    return found


def decisions(stack: Stack, key: str, beginning: str = "") -> tuple[list[Row], list[str]]:
    """Return a payout's decisions with sort key prefix `beginning`, and the names of malformed rows."""
    unreadable = list[str]()
    rows = stack.store.entries(
        keys.payout_approved(key, 0, "")["pk"],
        beginning or " ",
        f"{beginning}~",
        unreadable=lambda place, reason: unreadable.append(_named(place, reason)),
    )
    return list(rows), unreadable


def of_rows(state: State, rows: Iterable[Row]) -> OnRecord:
    """Return the decisions about the open case's current state, and the names of malformed rows."""
    found, beginning = OnRecord(), _beginning(state)
    for row in rows:
        try:
            if str(row["sk"]).startswith(beginning):
                _add(found, state, row)
            else:
                texts_of(row)
        except MalformedRow as malformed:
            found.unreadable.append(_named(row, str(malformed)))
    return found


def _beginning(state: State) -> str:
    approval = keys.payout_approved(state.key, state.cases, state.digest)
    return str(approval["sk"]).removesuffix("APPROVED")


def _named(place: Row, reason: str) -> str:
    return f"{reason} ({place['sk']})"


def _add(found: OnRecord, state: State, row: Row) -> None:
    if row["sk"] == keys.payout_approved(state.key, state.cases, state.digest)["sk"]:
        verdict, kept = approved(state, row)
        found.approved = kept | {"verdict": verdict.value}
        return
    told = texts_of(row)
    of, against = (told["verdict"], told.get("account")), "contradicts" in told
    place = keys.payout_proposed(state.key, state.cases, state.digest, *of, contradicts=against)
    if told["verdict"] not in list(Verdict) or (told["digest"], row["sk"]) != (state.digest, place["sk"]):
        raise MalformedRow(f"{subject_of(row)}: is no proposal about what is shown")
    shown = ("by", "posted_at", "reason", "account", "contradicts")
    one = {name: told[name] for name in shown if name in told}
    earlier = found.proposed.get(Verdict(told["verdict"]))
    if earlier is None or earlier["posted_at"] <= one["posted_at"]:
        found.proposed[Verdict(told["verdict"])] = one


def _choice(stack: Stack, state: State, verdict: Verdict, found: OnRecord) -> dict[str, Any]:
    payout, proposed = state.payout, found.proposed.get(verdict)
    exponent = exponent_of(f"PAYOUT#{state.key}", payout.currency, stack.config)
    amount = f"{money.render(payout.amount, exponent)} {payout.currency}"
    account = proposed.get("account") if proposed else None
    against = "contradicts" in proposed if proposed else state.said in AGAINST.get(verdict, ())
    command = _command(stack, state, "approve" if proposed else "propose", verdict, account, against=against)
    return {
        "verdict": verdict.value,
        "effect": _EFFECTS[state.status, verdict].format(money=amount, account=account or payout.account),
        "contradicts": state.said if state.said in AGAINST.get(verdict, ()) else None,
        "proposed": proposed,
        "command": None if found.approved else command,
    }


def _command(
    stack: Stack, state: State, verb: str, verdict: str, account: str | None, *, against: bool
) -> str:
    shown = {"case": state.cases, "digest": state.digest, "account": account, "reason": REASON}
    return stack.command(f"payout {verb}", state.key, verdict, **shown, contradicts=against or None)
