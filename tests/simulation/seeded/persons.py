"""Lists persons who decide together, and checks the rules of proposals."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from settlement.core.model.state import SettlementState
from settlement.core.store.wire import from_wire
from settlement.orders import approval
from settlement.orders.proposal import Proposal
from tests.simulation.seeded.facts import counted_parts, demand, minor, number, order_in, text
from tests.world.expressions import Item
from tests.world.interpreter import ARN
from tests.world.memory_dynamodb import Changes

if TYPE_CHECKING:
    from tests.simulation.seeded.rules import Asking

_SESSION = "arn:aws:sts::123456789012:assumed-role"
OLGA = (f"{ARN}:user/olga", "AIDAOLGA")
PETE = (f"{_SESSION}/Approver/pete", "AROAAPPROVER:pete")
QUIN = (f"{_SESSION}/Approver/quin", "AROAAPPROVER:quin")
PERSONS = (
    OLGA,
    (f"{_SESSION}/Approver/olga", "AROAAPPROVER:olga"),
    PETE,
    (f"{_SESSION}/Operator/pete", "AROAOPERATOR:pete"),
    QUIN,
)
"""Three persons' identities, as AWS proves them: ARN and user id."""

DECISIONS = ("retry", "write-off", "complete", "reverse")
VALID_FOR = timedelta(minutes=5)
"""A proposal's validity, which is short to make many approvals come too late."""

_COVERED = ("status", "escrow", "release_at", "resolutions", "request_hash", "stuck_step")
"""The row's attributes that a proposal covers."""


def approvals(seed: int) -> dict[str, int]:
    random = Random(f"persons {seed}")
    if random.random() >= 0.25:
        return {}
    return dict.fromkeys(DECISIONS, random.choice((2, 2, 3)))


class Together:
    """The rules of proposals: all approvals present, from distinct persons, neither expired nor stale."""

    def __init__(self) -> None:
        self.pages: set[tuple[str, str]] = set()
        """Pages about a person who decides alone, by settlement key and request."""

        self._seen: dict[str, dict[str, Any]] = {}
        """Each settlement's covered attributes when its latest proposal was made."""

    def copy(self) -> "Together":
        other = Together()
        other.pages, other._seen = self.pages.copy(), self._seen.copy()
        return other

    def page(self, detail: Mapping[str, Any]) -> None:
        self.pages.add((detail["key"], detail["request_id"]))

    def committed(self, changes: Changes, settlements: Mapping[str, Item], asking: "Asking") -> None:
        rows = {(new or old or {})["pk"]["S"]: (old, new) for old, new in changes}
        for pk, (old, new) in rows.items():
            kind, _, key = pk.partition("#")
            if kind == "PROPOSAL" and new:
                posted = next(
                    text(row, "posted_at") for _, row in rows.values() if "posted_at" in (row or {})
                )
                self._proposal(key, old, new, settlements.get(key), asking, posted or "")
            step = text(new, "step") or ""
            order = step.partition(":")[0]
            if kind == "EVIDENCE" and new and order in ("resolve", "reverse", "reverse-part"):
                decision = (text(new, "decision") or "") if order == "resolve" else order
                self._decision(key, decision, new, rows.get(f"PROPOSAL#{key}"), asking)

    def _proposal(
        self,
        key: str,
        old: Item | None,
        new: Item,
        settlement: Item | None,
        asking: "Asking",
        given_at: str,
    ) -> None:
        me = _name(asking.payload["requestContext"]["authorizer"]["iam"])
        covered = _covered(settlement)
        if old is None or number(old, "proposal_number") != number(new, "proposal_number"):
            if old is not None and text(old, "status") == "OPEN":
                is_void = _is_stale(old, settlement) or text(old, "valid_until") <= asking.at  # type: ignore[operator]
                demand(is_void, "an open proposal is replaced if it has expired or is stale", key)
            demand(_persons(new) == {me}, "a proposal begins with its proposer", key, _persons(new))
            wanted = order_in(asking.payload)
            is_same = text(new, "decision") == wanted["decision"] and _part(new)[0] == wanted.get("part", 0)
            demand(is_same, "a proposal is what its proposer has asked for", key, wanted)
            if settlement and "amount" in wanted:
                amount = minor(wanted["amount"], settlement["currency"]["S"])
                demand(_part(new)[1] == amount, "a part is proposed with its amount", key, wanted)
            self._seen[key] = covered
            return
        demand(text(old, "status") == "OPEN", "a closed proposal never changes", key)
        named = order_in(asking.payload)["digest"]
        demand(text(old, "seen") == named, "a proposal is approved or withdrawn by its digest", key, named)
        if text(new, "status") == "WITHDRAWN":
            return
        demand(me not in _persons(old), "one person counts once", key, me)
        demand(_persons(new) == _persons(old) | {me}, "an approval adds its own person", key, me)
        demand(len(_persons(new)) == number(new, "approvals") + 1, "approvals are persons", key)
        in_time = given_at < text(old, "valid_until")  # type: ignore[operator]
        demand(in_time, "no expired proposal is approved", key, given_at)
        if text(new, "status") == "DONE":
            demand(self._seen[key] == covered, "no stale proposal is carried out", key, covered)

    def _decision(
        self,
        key: str,
        decision: str,
        entry: Item,
        proposal: tuple[Item | None, Item | None] | None,
        asking: "Asking",
    ) -> None:
        move = asking.payload["routeKey"].partition("/orders/")[2].partition("/")[2]
        asked = "reverse" if decision == "reverse-part" else decision  # parts add up to the whole
        needed = min(stage.approvals.get(asked, 1) for stage in asking.stages)
        if move == "break-glass":
            paged = (key, asking.payload["requestContext"]["requestId"]) in self.pages
            demand(paged, "no person decides alone without a page", key)
            demand(text(entry, "break_glass") == "yes", "a broken glass is on record", key)
        elif move == "":
            demand(needed == 1, "no decision goes without its approvals", key, decision)
        else:
            new = proposal[1] if proposal else None
            is_done = new is not None and text(new, "status") == "DONE"
            demand(is_done, "an approved decision closes its proposal", key)
            demand(len(_persons(new)) >= needed, "no decision goes without its approvals", key, decision)
            same = (text(new, "decision"), text(new, "reason"), text(new, "proposed_by"), _part(new))
            part = int((text(entry, "step") or "").partition(":")[2]) if decision == "reverse-part" else 0
            told = (decision, text(entry, "reason"), text(entry, "by"), (part, number(entry, "amount")))
            demand(same == told, "what is carried out is what was proposed", key, told)
            by = (text(entry, "approved_by") or "").split()
            demand(len(by) == len(_persons(new)) - 1, "those who approved are on record", key, by)


def _is_stale(proposal: Item, settlement: Item | None) -> bool:
    """Return whether a proposal's digest is stale. It can be stale from the start, because reads lag."""
    state = SettlementState.from_row(from_wire(settlement or {}))
    found = Proposal.from_row(from_wire(proposal))
    return approval.digest_of(state, found) != found.seen


def _part(proposal: Item | None) -> tuple[int, int]:
    return number(proposal, "part"), number(proposal, "amount")


def _name(identity: Mapping[str, str]) -> str:
    return identity["userArn"].rpartition("/")[2]


def _persons(row: Item | None) -> set[str]:
    return set(row["persons"]["SS"]) if row else set()


def _covered(row: Item | None) -> dict[str, Any]:
    covered: dict[str, Any] = {name: (row or {}).get(name) for name in _COVERED}
    return covered | {"parts": counted_parts(row)}
