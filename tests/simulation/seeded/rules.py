"""What a commit may do to one settlement, given its row before and after and the entries that go with it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.seeded.facts import (
    FINISHED,
    demand,
    members,
    minor,
    number,
    resolutions,
    settlement_in,
    text,
)
from tests.support.memory_dynamodb import Changes, Item

MOVES = {"hold", "release", "fee", "compensate:hold", "compensate:release", "compensate:fee"}
FORWARD = ("hold", "verify", "release", "fee")


def content_stands(changes: Changes, asked: Mapping[str, Any]) -> None:
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


def only_what_is_due(old: Item | None, new: Item | None, at: str) -> None:
    """Recovery on its rounds keeps its hands off whatever is not due."""
    assert old
    assert new
    due = text(old, "recover_at" if old["status"]["S"] == "LIMBO" else "gsi1sk") or ""
    demand(due <= at, "recovery touches nothing that is not due", new["pk"]["S"], due, at)
    if "given_up_at" in new and "given_up_at" not in old:
        overdue = old["deadline_at"]["S"] <= at and "release" not in members(old, "steps")
        demand(overdue, "what is given up is overdue, and not released", new["pk"]["S"])


def decision_is_carried_out(old: Item, posted: dict[str, Item], asked: Mapping[str, Any]) -> None:
    """A decision is carried out on the case that it was made on, and moves what it means."""
    for name in resolutions(posted):
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
        demand((debit, credit) == wanted[order["decision"]], "a decision moves what it means", order, debit)


def steps_commit(key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
    """Each step that is recorded has its entry in the same commit, and the other way about."""
    status, done, undone = old["status"]["S"], members(old, "steps"), members(old, "reversed")
    gained = members(new, "steps") - done
    for step in FORWARD:
        entry = posted.get(step)
        if step == "verify" and entry:  # a rejection is put on record, and is no step
            demand(text(new, "verdict") == text(entry, "decision"), "the verdict is the entry's", key)
            demand(not text(old, "verdict"), "there is one verdict", key)
            demand((step in gained) == (text(entry, "decision") == "APPROVED"), "who approves, says so", key)
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
                demand(in_time, "no step before the fee commits after the deadline that was named", key, step)
    if "fee" in gained or "release" in gained or "hold" in gained:
        demand(_is_as_claimed(key, new, posted), "a step moves what was claimed", key, sorted(gained))
    reversals = {name.partition(":")[2] for name in posted if name.startswith("compensate:")}
    for step in reversals & done:
        demand(status == "COMPENSATING", "a reversal commits while COMPENSATING", key, step, status)
        demand(step not in undone, "a step is reversed once", key, step)
        demand("debit" in posted[f"compensate:{step}"], "what has moved is moved back", key, step)
    demand(not (reversals - done) or status == "COMPENSATING", "a reversal is of what is reversed", key)
    covered = {text(old, "stuck_step") or ""} if posted.keys() & resolutions(posted) else set()
    covered = {name.partition(":")[2] for name in covered}
    gained_back = members(new, "reversed") - undone
    for name in resolutions(posted):
        if (text(posted[name], "debit") or "").startswith("losses:"):
            demand(covered <= gained_back, "what is written off counts as reversed", key)
    demand(gained_back <= reversals | covered, "what is reversed has its entry", key, sorted(gained_back))
    demand(reversals & done <= gained_back, "an entry of a reversal is recorded", key, sorted(reversals))
    if gained_back & reversals:
        demand(_is_as_claimed(key, new, posted), "a reversal moves what was claimed", key)


def review_rests(key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
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


def _is_as_claimed(key: str, row: Item, posted: dict[str, Item]) -> bool:
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


def moves_along(key: str, before: str, after: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
    resolved = resolutions(posted)
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
        demand(owner or "given_up_at" in old, "a reversal that nobody has ordered is the owner's", key, by)
    if (before, after) == ("PROCESSING", "SETTLED"):
        demand("fee" in posted, "SETTLED commits with the fee", key)
    if after == "REJECTED" != before:
        demand(not members(old, "steps"), "REJECTED is possible while nothing is held", key)
    if before in FINISHED and after == before:
        demand(old == new, "what is finished stands", key)


def is_listed(key: str, status: str, row: Item) -> None:
    """Whatever is not finished is found by recovery, and whatever is stuck by a person."""
    partition = text(row, "gsi1pk")
    if status in ("PROCESSING", "COMPENSATING"):
        listed = (partition or "").startswith("IN_FLIGHT#") and bool(text(row, "gsi1sk"))
        demand(listed, "what is in flight is listed for recovery", key, status)
    elif status == "LIMBO":
        demand(partition == "LIMBO" and text(row, "stuck_step"), "what is in LIMBO is listed there", key)
    else:
        demand(partition is None, "what is finished is listed nowhere", key, status)
