"""Checks the rules of a commit on one settlement, given its row before and after, and the entries."""

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from tests.simulation.seeded.facts import (
    FINISHED,
    FORWARD,
    LABELS,
    counted_parts,
    demand,
    done,
    is_cancelled,
    labels_of,
    minor,
    number,
    order_in,
    parts,
    resolutions,
    settlement_in,
    text,
    undone,
)
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Changes

CONFIG = StageConfig.from_json(os.environ["STAGE_CONFIG"])
FORMS = ("parts", "reversals_in_part", "layout")
"""The attributes that differ between row layouts."""

MIGRATOR = "the migrator"
MOVES = {"hold", "release", "fee", "compensate:hold", "compensate:release", "compensate:fee"}
REFUSALS = {
    *("InsufficientFunds", "AccountNotFound", "CurrencyMismatch", "EscrowMismatch", "IdempotencyConflict"),
}
"""A reversal's errors that no retry or repair can change."""

REVIEW_SECONDS = 600
"""This stage's longest review."""


class Asking(NamedTuple):
    """The function call that commits; blank if no function ran."""

    function: str
    payload: Mapping[str, Any]
    at: str
    stages: tuple[StageConfig, ...]
    """The configurations that the stage has had since the call began."""

    since: int
    """The call's start in milliseconds."""

    now: int


def fee_is_accepted(key: str, claimed: Item, asking: Asking) -> None:
    """Check that a configuration in force during the call accepts a claim's fee."""
    if claimed["status"]["S"] != "PROCESSING":
        return  # a rejection accepts nothing and moves no money
    amount, fee, bounds = number(claimed, "amount"), number(claimed, "fee"), []
    for stage in asking.stages:
        rates = [stage.fee_basis_points] * 2
        if stage.fee == "client":
            rates = [stage.fee_floor_basis_points, stage.fee_ceiling_basis_points]
        bounds.append([amount * rate // 10_000 for rate in rates])
    accepted = any(lowest <= fee <= highest for lowest, highest in bounds)
    demand(accepted, "a key is claimed with a fee that its stage accepts", key, fee, bounds)


def is_refused_for_its_fee_alone(
    function: str, error: str, told: str, key: str, *, was_claimed: bool
) -> None:
    """Check that a request is refused only for its fee, because the rest is well-formed.

    After the claim, the fee is accepted.
    """
    if error != "InvalidRequest" or function in ("BeginCompensation", "StartSettlements"):
        return
    named = {problem.partition(":")[0] for problem in told.split("; ")}
    demand(named <= {"fee", "payee"}, "a well-formed request is refused for its fee alone", key, told)
    demand("fee" not in named or not was_claimed, "no change of the settings stops a settlement", key, told)


def content_is_unchanged(changes: Changes, asking: Asking) -> None:
    """Check that only a call with the claimed content changes anything."""
    wanted = settlement_in(asking.payload)
    for _, new in changes:
        if new and new["pk"]["S"] == f"SETTLEMENT#{wanted.get('key')}" and "payer" in new:
            for name in ("payer", "payee", "currency"):
                demand(
                    wanted[name] == text(new, name),
                    "a call with other content changes nothing",
                    name,
                    wanted,
                )
            for name in ("amount", "fee"):
                said = wanted.get(name)
                same = said is None or minor(said, wanted["currency"]) == number(new, name)
                demand(same, "a call with other content changes nothing", name, wanted)
            named = int(wanted.get("deadline_seconds") or 0)
            same = named == number(new, "deadline_seconds")
            demand(same, "a call with other content changes nothing", "deadline_seconds", wanted)
            demand(
                labels_of(new) == {name: wanted[name] for name in LABELS if name in wanted},
                "a call with other content changes nothing",
                "labels",
                wanted,
            )


def entries_alone_expire(changes: Changes, asking: Asking) -> None:
    for old, new in changes:
        if new is None or new == old:
            continue
        found = number(new, "expires_at") if "expires_at" in new else None
        wanted: set[int | None] = {None}
        if new["pk"]["S"].startswith("ENTRIES#") and text(new, "step") in MOVES:
            posted = int(datetime.fromisoformat(new["posted_at"]["S"]).timestamp())
            days = {stage.retention_days for stage in asking.stages}
            wanted = {None if kept is None else posted + kept * 86_400 for kept in days}
        demand(
            found in wanted, "an entry expires by its posting, and no other row does", new["pk"]["S"], found
        )


def asked_for(old: Item, new: Item, posted: dict[str, Item], asking: Asking) -> None:
    """Check that a function commits only changes that are its task and are due."""
    key, case = new["pk"]["S"].partition("#")[2], number(old, "resolutions") + 1
    if asking.function == "RecoverStalled":
        due = text(old, "recover_at" if old["status"]["S"] == "LIMBO" else "gsi1sk") or ""
        in_time = "key" in asking.payload or due <= asking.at
        demand(in_time, "recovery changes a settlement only if it is due", key, due, asking.at)
        asked_by = asking.payload.get("owner", text(old, "owner"))
        is_owners = asked_by == text(old, "owner") or old["owner"] == new["owner"]
        demand(is_owners, "a request to resume is its owner's", key, asked_by)
        if "expired_at" in new and "expired_at" not in old:
            overdue = old["deadline_at"]["S"] <= asking.at and "release" not in done(old)
            demand(overdue, "a settlement expires if it is overdue and not released", key)
            demand(not _missed(old, due), "no settlement expires because recovery came late", key)
        if old.get("deadline_at") != new.get("deadline_at"):
            _extended_by_the_delay(old, new, due)
    if any(name.startswith("limbo:") for name in posted):
        of = asking.payload["case"]
        is_now = of == case and f"limbo:{case}" in posted
        demand(is_now, "LIMBO is entered under the case that got stuck", key, of, case)
    if asking.function == MIGRATOR:
        form_alone_changes(key, old, new)
    orders_are_given_at_the_door(posted, asking)
    part_is_reversed(key, old, new, posted, asking)
    if old["status"]["S"] == "LIMBO":
        decision_is_carried_out(old, posted, asking.payload)


def _missed(old: Item, due: str) -> bool:
    """Return whether recovery missed a settlement without a requested deadline while it had time left."""
    last = datetime.fromisoformat(old["deadline_at"]["S"]) - CONFIG.time_to_recover
    return not old.keys() & {"review", "deadline_seconds", "expired_at"} and due < timestamp(last)


def _extended_by_the_delay(old: Item, new: Item, due: str) -> None:
    """Check that recovery extends a deadline by exactly its delay."""
    key, counted_from = new["pk"]["S"], max(due, text(old, "deadline_extended_at") or "")
    before, after, now = (
        datetime.fromisoformat(row[name]["S"])
        for row, name in ((old, "deadline_at"), (new, "deadline_at"), (new, "deadline_extended_at"))
    )
    late = now - datetime.fromisoformat(counted_from)
    demand(_missed(old, due) and "release" not in done(old), "a deadline that waits was missed", key)
    demand(after - before == late, "a deadline waits for as long as recovery is late", key, late)
    demand(after >= before, "a deadline never moves back", key, late)
    demand(old["status"] == new["status"] == {"S": "PROCESSING"}, "a deadline that waits is running", key)


def orders_are_given_at_the_door(posted: dict[str, Item], asking: Asking) -> None:
    for name in resolutions(posted) | parts(posted) | (posted.keys() & {"reverse"}):
        demand(asking.function == "TakeOrder", "an order is given at the door alone", name, asking.function)
        entry, order = posted[name], order_in(asking.payload)
        meant = text(entry, "decision") or name.partition(":")[0]
        demand(order["decision"] == meant, "an order is what its route allows", name, order)
        if "digest" in order:  # an approval: another person gave the order, see persons.py
            continue
        known = asking.payload["requestContext"]
        proven = {
            "by": order["by"],
            "user_id": known["authorizer"]["iam"]["userId"],
            "request_id": known["requestId"],
            "source_ip": known["http"]["sourceIp"],
        }
        found = {one: text(entry, one) for one in proven}
        demand(found == proven, "an order is on record in its caller's name", name, found)
        demand(text(entry, "reason") == order["reason"], "an order has its reason on record", name)


def times_are_unchanged(key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
    """Check that each time and reason changes only with its cause."""
    begins, decided = "review" in new and "review" not in old, "verdict" in new and "verdict" not in old
    decided = decided or number(new, "waits") > number(old, "waits")  # by a check, see checks.py
    if old.get("deadline_at") != new.get("deadline_at"):
        late = old.get("deadline_extended_at") != new.get("deadline_extended_at")
        demand(begins or decided or late, "a deadline is moved by a review, or a late recovery, alone", key)
    if old.get("in_flight_since") != new.get("in_flight_since"):
        anew = begins or decided or "reverse" in posted or old["status"]["S"] == "LIMBO"
        anew = anew or (is_cancelled(new) and old["status"]["S"] == "PROCESSING")
        demand(anew, "a takeover does not make a settlement younger", key)
    if old["status"] == new["status"] == {"S": "LIMBO"}:
        demand(old["gsi1sk"] == new["gsi1sk"], "the start of a case of LIMBO never changes", key)
    finished = new["status"]["S"] in FINISHED
    demand(finished == ("finished_at" in new), "exactly a finished settlement has finished_at", key)
    failed = new["status"]["S"] not in ("PROCESSING", "SETTLED")
    demand(failed == ("failure" in new), "exactly a failed settlement has a failure", key)


def decision_is_carried_out(old: Item, posted: dict[str, Item], asked: Mapping[str, Any]) -> None:
    """Check that a decision is about the open case, and moves the right money."""
    for name in resolutions(posted):
        entry, order = posted[name], order_in(asked)
        case = number(old, "resolutions") + 1
        demand(name == f"resolve:{case}", "a decision is on the open case", name, case)
        demand(order.get("case", case) == case, "a decision is on the case that it was made for", order)
        demand(
            text(entry, "decision") == order["decision"],
            "the recorded decision is the decision that was made",
            order,
        )
        debit, credit = text(entry, "debit"), text(entry, "credit")
        escrow, currency = f"escrow:{old['pk']['S'].partition('#')[2]}", text(old, "currency")
        wanted = {
            "retry": (None, None),
            "write-off": (f"losses:{currency}", escrow),
            "complete": (escrow, f"fees:{currency}"),
        }
        demand(
            (debit, credit) == wanted[order["decision"]],
            "a decision moves the money that it means",
            order,
            debit,
        )


def part_is_reversed(key: str, old: Item, new: Item, posted: dict[str, Item], asking: Asking) -> None:
    """Check that a partial reversal is the next part, as ordered, and within the released amount."""
    made, counted = parts(posted), counted_parts(new) - counted_parts(old)
    demand(len(made) == counted, "a part is counted with its evidence, once", key, sorted(made), counted)
    moved = number(new, "reversed_in_part") - number(old, "reversed_in_part")
    _has_one_form(key, new)
    if not made:
        is_migrated = any(old.get(name) != new.get(name) for name in FORMS)
        demand(is_migrated is (asking.function == MIGRATOR), "a migration alone changes a form", key)
        demand(not moved, "a part is reversed on an order alone", key, moved)
        was_whole = old["status"] == new["status"] or not counted_parts(old)
        demand(was_whole, "what is reversed in part is not reversed as a whole", key)
        return
    order, released = order_in(asking.payload), number(old, "amount") - number(old, "fee")
    (name,) = made
    following = counted_parts(old) + 1
    is_next = name == f"reverse-part:{following}" and order.get("part", following) == following
    demand(is_next, "a part is the next one", key)
    is_settled = old["status"] == new["status"] == {"S": "SETTLED"} and "resolution" not in old
    demand(is_settled, "a part is of a SETTLED settlement that no person completed", key)
    is_approved = "digest" in order  # then the proposal has the amount, see persons.py
    wanted = moved if is_approved else minor(order["amount"], old["currency"]["S"])
    demand(wanted > 0 and moved == wanted, "a part is as it was ordered", key, moved, wanted)
    demand(number(new, "reversed_in_part") <= released, "parts are never above what was released", key)
    back, escrow = posted.get(f"refund-part:{following}"), f"escrow:{key}"
    taken = posted[name]
    for entry, debit, credit in ((taken, text(old, "payee"), escrow), (back, escrow, text(old, "payer"))):
        found = text(entry, "debit"), text(entry, "credit"), number(entry, "amount")
        demand(found == (debit, credit, wanted), "a part goes from the payee to the payer", key, found)
        at = text(entry, "posted_at") == text(taken, "posted_at")
        demand(at, "both entries of a part have the time of its evidence", key)
    changing = ("reversed_in_part", "sequence", *FORMS)
    same = {one: new.get(one) for one in new if one not in changing}
    kept = {one: old.get(one) for one in old if one not in changing}
    demand(same == kept, "a part changes nothing else of its settlement", key)


def _has_one_form(key: str, row: Item) -> None:
    by_name = {"layout", "reversals_in_part"} & row.keys()
    is_one = by_name in (set(), {"layout", "reversals_in_part"}) and not (by_name and "parts" in row)
    demand(is_one, "a row has the forms of one layout", key, sorted(by_name))


def form_alone_changes(key: str, old: Item, new: Item) -> None:
    demand(counted_parts(old) == counted_parts(new), "a migration keeps the number of parts", key)
    demand(text(old, "status") == "SETTLED", "a migration touches finished rows alone", key)


def steps_commit(key: str, old: Item, new: Item, posted: dict[str, Item]) -> None:
    """Check that each step and its entry are in the same commit."""
    before, gained = done(old), done(new) - done(old)
    for step in gained:
        _step_commits(key, step, old, new)
    for step in ("hold", "release", "fee"):
        entry = posted.get(step)
        demand((step in gained) == bool(entry), "a step and its entry commit together", key, step)
        if entry:
            same = text(entry, "request_hash") == text(old, "request_hash")
            demand(same, "a step has the content that was claimed", key, step)
            at = text(entry, "posted_at") == text(new, f"{step}_at")
            demand(at, "an entry's place follows from its settlement's row", key, step)
    if gained - {"verify"}:
        demand(_is_as_claimed(key, new, posted), "a step moves the claimed amount", key, sorted(gained))
    reversals = {name.partition(":")[2] for name in posted if name.startswith("compensate:")}
    demand(reversals <= before, "a step that never committed is not reversed", key, sorted(reversals))
    status, gained_back = text(old, "status"), undone(new) - undone(old)
    for step in reversals:
        demand(status == "COMPENSATING", "a reversal commits while COMPENSATING", key, step, status)
        demand(step not in undone(old), "a step is reversed once", key, step)
        at = text(posted[f"compensate:{step}"], "posted_at") == text(new, f"{step}_reversed_at")
        demand(at, "an entry's place follows from its settlement's row", key, step)
    covered = {text(old, "stuck_step") or ""} if posted.keys() & resolutions(posted) else set()
    covered = {name.partition(":")[2] for name in covered}
    for name in resolutions(posted):
        if (text(posted[name], "debit") or "").startswith("losses:"):
            demand(covered <= gained_back, "a step that is written off counts as reversed", key)
    demand(gained_back <= reversals | covered, "a reversed step has its entry", key, sorted(gained_back))
    demand(reversals <= gained_back, "a reversal and its entry commit together", key, sorted(reversals))
    if gained_back & reversals:
        demand(_is_as_claimed(key, new, posted), "a reversal moves the claimed amount", key)


def _step_commits(key: str, step: str, old: Item, new: Item) -> None:
    status, at = old["status"]["S"], new[f"{step}_at"]["S"]
    demand(status == "PROCESSING", "no step commits after the fence", key, step, status)
    previous = FORWARD[: FORWARD.index(step)]
    demand(done(old) == set(previous), "steps commit in their order, each once", key, step, sorted(done(old)))
    if step != "fee":
        _is_in_time(key, step, at, old)


def _is_in_time(key: str, step: str, at: str, old: Item) -> None:
    demand("expired_at" not in old, "no step before the fee commits once a settlement has expired", key, step)
    demand(at < old["deadline_at"]["S"], "no step before the fee commits after the deadline", key, step)
    if "deadline_seconds" in old:
        claimed, committed = map(datetime.fromisoformat, (old["claimed_at"]["S"], at))
        in_time = committed < claimed + timedelta(seconds=number(old, "deadline_seconds"))
        demand(in_time, "no step before the fee commits after a named deadline", key, step)


def verdict_is_recorded(key: str, old: Item, new: Item, evidence: Item | None) -> None:
    """Check that the row gets the evidence's verdict once, and that only an approval commits the step."""
    if old.get("verdict") == new.get("verdict"):
        return
    demand("verdict" not in old, "there is one verdict", key)
    demand(evidence, "a verdict has its evidence", key)
    said = text(new, "verdict")
    demand(said == text(evidence, "decision"), "the row and the evidence have the same verdict", key, said)
    gained = "verify" in done(new) - done(old)
    demand(gained == (said == "APPROVED"), "exactly an approval commits the step", key)
    demand(old["status"]["S"] == "PROCESSING", "no verdict is recorded after the fence", key)
    demand(done(old) == {"hold"}, "a verdict is recorded after the hold alone", key)
    demand("expired_at" not in old, "no verdict is recorded once a settlement has expired", key)


def review_rests(key: str, old: Item, new: Item, posted: dict[str, Item], asking: Asking) -> None:
    """Check that a payment in review rests until the decision or its deadline."""
    if "review" in new and "review" not in old:
        waits = old["status"] == new["status"] == {"S": "PROCESSING"} and done(old) == {"hold"}
        demand(
            waits and not {"verdict", "expired_at"} & old.keys(),
            "a review begins once, and after the hold alone",
            key,
        )
        ends = new["deadline_at"]
        demand(new["gsi1sk"] == new["in_flight_since"] == ends, "recovery looks at a review at its end", key)
        if "deadline_seconds" not in old:
            began = datetime.fromisoformat(ends["S"]) - timedelta(seconds=REVIEW_SECONDS)
            demand(began < datetime.fromisoformat(old["deadline_at"]["S"]), "a review begins in time", key)
    if asking.function == "KycDecided":
        is_due = new["gsi1sk"] == new["in_flight_since"]
        demand(is_due, "a webhook's verdict makes the settlement due", key, new["gsi1sk"]["S"])
        demand(new["owner"]["S"] == f"{key}-decided", "a webhook's verdict fences off the owner", key)
    if "review" not in old or old["status"]["S"] != "PROCESSING":
        return
    review = text(old, "review")
    if number(new, "waits") > number(old, "waits"):
        demand((review or "").startswith("check:"), "a callback ends only the wait for a check", key, review)
        demand(new["owner"]["S"] == f"{key}-decided", "a check's callback fences off the owner", key)
        return
    if "verdict" in new and "verdict" not in old:
        by_webhook = asking.function == "KycDecided"
        demand(by_webhook, "a review is ended by the provider's webhook", key, asking.function)
        said = json.loads(asking.payload["body"])["reference"]
        demand(said == review, "a review is ended by its own verification's decision", key, said)
        return
    demand(text(new, "review") == review, "an open review stays on the row", key)
    if new["status"] != old["status"]:
        by_right = "reverse" in posted or "expired_at" in old or is_cancelled(new)
        demand(by_right, "a payment in review is reversed on an order or once it has expired", key)
    elif "expired_at" not in new:
        demand(old["owner"] == new["owner"], "a payment in review gets no new owner", key)


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
        demand((after != "LIMBO") == bool(resolved), "a resolution alone leads out of LIMBO", key, after)
        demand(
            not posted.keys() - resolved,
            "a resolution alone moves money in LIMBO",
            key,
            sorted(posted),
        )
    elif resolved:
        demand(False, "only a settlement in LIMBO is resolved", key, before)
    if before != after == "LIMBO":
        demand(
            any(name.startswith("limbo:") for name in posted), "LIMBO is entered together with its entry", key
        )
        error = new["failure"]["M"]["error"]["S"]
        demand(error in REFUSALS, "only what is refused by name goes into LIMBO", key, error)
    if before == "SETTLED" != after:
        demand("reverse" in posted, "a SETTLED settlement is reversed on an order alone", key)
    if (before, after) == ("PROCESSING", "COMPENSATING") and "reverse" not in posted:
        demand(
            "release" not in done(old),
            "a released settlement is not reversed without an order",
            key,
        )
        by = text(new, "owner") or ""
        owner = by.startswith(f"{key}-c{number(old, 'owner_epoch')}-")
        demand(
            owner or "expired_at" in old or is_cancelled(new),
            "a reversal without an order is the owner's",
            key,
            by,
        )
    if (before, after) == ("PROCESSING", "SETTLED"):
        demand("fee" in posted, "SETTLED commits with the fee", key)
    if after == "REJECTED" != before:
        demand(not done(old), "REJECTED is possible while nothing is held", key)
    if before in FINISHED and after == before and not parts(posted):
        same = [{name: row[name] for name in row if name not in FORMS} for row in (old, new)]
        demand(same[0] == same[1], "a finished settlement never changes", key)  # except for its form


def is_listed(key: str, status: str, row: Item) -> None:
    """Check that the index lists a settlement in flight or in LIMBO, but not a finished one."""
    partition = text(row, "gsi1pk")
    if status in ("PROCESSING", "COMPENSATING"):
        listed = (partition or "").startswith("IN_FLIGHT#") and bool(text(row, "gsi1sk"))
        demand(listed, "a settlement in flight is listed for recovery", key, status)
    elif status == "LIMBO":
        demand(partition == "LIMBO" and text(row, "stuck_step"), "a settlement in LIMBO is listed there", key)
    else:
        demand(partition is None, "a finished settlement is not listed", key, status)
