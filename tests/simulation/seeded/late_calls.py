"""Lists all calls on a settlement: in turn, out of turn, with false content."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from tests.simulation.seeded.facts import counted_parts, done, is_merchant, number, text, undone
from tests.simulation.seeded.people import webhook
from tests.simulation.seeded.persons import PERSONS
from tests.simulation.seeded.scenarios import IN_REVIEW, REJECTED
from tests.world import posting
from tests.world.constants import NONCE
from tests.world.expressions import Item
from tests.world.interpreter import ARN
from tests.world.openings import deposit_key
from tests.world.orders import given, request
from tests.world.rooms import is_gone
from tests.world.services import released

FORWARD = ("HoldFunds", "ReleaseFunds", "CollectFee", "RejectSettlement")
REVERSING = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
ERROR = {"Error": "InsufficientFunds", "Cause": "a late call"}
OTHERWISE = {
    "amount": "6.66",
    "payee": "carol",
    "payer": "carol",
    "fee": "0.01",
    "currency": "USD",
    "deadline_seconds": 60,
}
"""Fields that conflict with the claimed content."""

LABELLED_OTHERWISE: dict[str, Any] = {"reference": "late", "metadata": {"cart": "late"}}
"""Conflicting labels, for a labelled request."""


class Asked(NamedTuple):
    """A function's call. `luck` decides the provider's answer; with `beside`, other executions continue."""

    function: str
    payload: dict[str, Any]
    luck: float = 1.0
    beside: bool = False


ORDERED = ("alice", "bob", "carol", "unopened")


_ON_ACCOUNTS = tuple(f"TakeOrder {kind} " for kind in OrderKind)


def orders() -> dict[str, Asked]:
    made: dict[str, dict[str, Any]] = {}
    for account in ORDERED:
        about: dict[str, Any] = {"account": account, "by": "late", "reason": "a late order"}
        for kind in ("freeze", "unfreeze", "close"):
            made[f"{kind} {account}"] = about | {"order": kind}
        made[f"open {account}"] = about | {"order": "open", "currency": "EUR"}
        for kind, other in (("deposit", "999999.99"), ("withdraw", "9999.99")):
            moved = about | {"order": kind, "amount": "1.00", "currency": "EUR", "reference": "late"}
            made[f"{kind} {account}"] = moved
            made[f"{kind} too much {account}"] = moved | {"amount": other}
            made[f"{kind} dollars {account}"] = moved | {"currency": "USD"}
    keyed = {name: {"key": f"late-{name.replace(' ', '-')}-0001", **order} for name, order in made.items()}
    keyed["deposit again"] = keyed["deposit alice"] | {"key": deposit_key("alice")}
    return {f"TakeOrder {name}": _ordered(order["order"], order) for name, order in keyed.items()}


def is_order(call: str) -> bool:
    """Return whether a call is an order on an account, which reads nothing first."""
    return call.startswith(_ON_ACCOUNTS)


def calls(settlement: Mapping[str, Any], row: Item | None, at: int) -> dict[str, Asked]:
    """Return a settlement's calls by name; webhooks are signed at `at` (ms)."""
    asked = _of(dict(settlement), row)
    labelled = {name: other for name, other in LABELLED_OTHERWISE.items() if name in settlement}
    for name, other in (OTHERWISE | labelled).items():
        content = _of({**settlement, name: other}, row)
        asked |= {f"{call} with other {name}": made for call, made in content.items()}
    for decision in ("APPROVED", "REJECTED"):
        for reference in (f"ver_{settlement['key'][-4:]}", "ver_other"):
            for event in ("evt-1", "evt-2"):
                payload = webhook(settlement["key"], reference, decision, event, at)
                asked[f"KycDecided {decision} {reference} {event}"] = Asked("KycDecided", payload)
    scheduled = {"partition": text(row, "gsi1pk") or keys.LIMBO}
    for name, payload in (("RecoverStalled", scheduled), ("RecoverStalled now", {"key": settlement["key"]})):
        asked[name] = Asked("RecoverStalled", payload)
        asked[f"{name} beside"] = Asked("RecoverStalled", payload, beside=True)
    for owner in (f"{settlement['key']}-decided", f"{settlement['key']}-r1-{NONCE}"):
        payload = {"key": settlement["key"], "owner": owner}
        asked[f"RecoverStalled for {owner[18:]}"] = Asked("RecoverStalled", payload)
    if is_merchant(text(row, "payee")) and row and "release_at" in row:
        entry = keys.entry(row["payee"]["S"], row["release_at"]["S"], settlement["key"], "release")
        asked["SweepMerchants"] = Asked("SweepMerchants", released(entry))
    asked |= _decisions(settlement["key"], row)
    without_fee = {name: value for name, value in settlement.items() if name != "fee"}
    asked["HoldFunds without fee"] = _of(without_fee, row)["HoldFunds"]
    return _of_functions_there(asked)


def cancellations(settlement: Mapping[str, Any], row: Item | None) -> dict[str, Asked]:
    key, sequence = settlement["key"], number(row, "sequence")
    made = {"": posting.cancel(dict(settlement), key)}
    for name, seen in (("of its sequence", sequence), ("of the next sequence", sequence + 1)):
        made[f" {name}"] = posting.cancel(dict(settlement), key, if_match=f'"{seen}"')
    for name in ("amount", "payee"):
        made[f" with other {name}"] = posting.cancel({**settlement, name: OTHERWISE[name]}, key)
    asked = {f"CancelSettlement{name}": Asked("CancelSettlement", payload) for name, payload in made.items()}
    return _of_functions_there(asked)


def posts(settlement: Mapping[str, Any]) -> dict[str, Asked]:
    key = settlement["key"]
    body = {name: value for name, value in settlement.items() if name != "key"}
    made = {"": body, " with other amount": body | {"amount": OTHERWISE["amount"]}}
    made[" without fee"] = {name: value for name, value in body.items() if name != "fee"}
    asked = {
        f"AcceptSettlements{name}": Asked("AcceptSettlements", posting.asked(content, key))
        for name, content in made.items()
    }
    return _of_functions_there(asked)


def _of_functions_there(asked: dict[str, Asked]) -> dict[str, Asked]:
    return {name: made for name, made in asked.items() if not is_gone(made.function)}


def approvals(key: str, items: Mapping[tuple[str, str], Item]) -> dict[str, Asked]:
    found = items.get((f"PROPOSAL#{key}", "PROPOSAL"))
    named = {"key": key, "decision": "reverse", "digest": text(found, "seen") or "0" * 64}
    amount = number(items.get((f"SETTLEMENT#{key}", "SETTLEMENT")), "amount")
    approved = named | {"amount": f"{amount // 100}.{amount % 100:02}"}
    bodies = {"propose": {"key": key, "reason": "a late call"}, "approve": approved, "withdraw": named}
    return {
        f"TakeOrder reverse/{move} as {user_id}": Asked(
            "TakeOrder", request(f"reverse/{move}", body, by, user_id=user_id)
        )
        for move, body in bodies.items()
        for by, user_id in PERSONS
    }


def _decisions(key: str, row: Item | None) -> dict[str, Asked]:
    case, asked = number(row, "resolutions") + 1, dict[str, Asked]()
    for decision in ("retry", "write-off", "complete"):
        order = {"key": key, "decision": decision, "reason": "a late call", "by": "a late call"}
        for which, number_ in (
            ("", case),
            (" of the earlier case", case - 1),
            (" of the later case", case + 1),
        ):
            asked[f"TakeOrder {decision}{which}"] = _ordered(decision, order | {"case": number_})
    for seen in ("SETTLED", "PROCESSING"):
        order = {"key": key, "reason": "a late call", "by": "a late call", "expected_status": seen}
        asked[f"TakeOrder reverse {seen}"] = _ordered("reverse", order)
    part, parted = counted_parts(row) + 1, {"key": key, "reason": "a late call", "by": "a late call"}
    for which, number_, amount in (
        ("", part, "1.00"),
        (" of all", part, "47.72"),
        (" above all", part, "47.73"),
        (" of the earlier number", max(1, part - 1), "1.00"),
        (" of the later number", part + 1, "1.00"),
    ):
        ordered: dict[str, Any] = parted | {"part": number_, "amount": amount}
        asked[f"TakeOrder reverse-part{which}"] = _ordered("reverse-part", ordered)
    asked["TakeOrder recover"] = _ordered("recover", {"key": key, "by": "a late call"})
    return asked


def _ordered(decision: str, order: Mapping[str, Any]) -> Asked:
    return Asked("TakeOrder", request(decision, *given(order)))


def _of(settlement: dict[str, Any], row: Item | None) -> dict[str, Asked]:
    committed, case = sorted(done(row)), number(row, "resolutions") + 1
    base: dict[str, Any] = {
        "settlement": settlement,
        "execution": "late",
        "execution_arn": f"{ARN}:execution:Compensation:late",
        "claimed_at": "long ago",
    }
    asked = {name: Asked(name, {**base, "error": ERROR}) for name in FORWARD}
    by_owner = {**base, "execution": text(row, "owner") or "late"}
    for name in ("HoldFunds", "RejectSettlement"):
        asked[f"{name} by its owner"] = Asked(name, {**by_owner, "error": ERROR})
    for name, luck in (("approved", 1.0), ("rejected", REJECTED), ("reviewed", IN_REVIEW)):
        asked[f"VerifyKyc {name}"] = Asked("VerifyKyc", base, luck)
    for function, step in REVERSING.items():
        for steps in (committed, ["hold"], []) if step == "hold" else (committed,):
            asked[f"{function} of {steps}"] = Asked(function, {**base, "steps": steps})
        payload = {**base, "reversed": sorted(undone(row)), "stuck": {step: ERROR}, "case": case}
        asked[f"EnterLimbo at {step}"] = Asked("EnterLimbo", payload)
    for name, named in (("this case", case), ("the earlier case", case - 1), ("the later case", case + 1)):
        asked[f"ResolveLimbo {name}"] = Asked(
            "ResolveLimbo", {**base, "resolution": {"case": named}, "case": case}
        )
        asked[f"BeginCompensation decided {name}"] = _begin(base, order=f"resolve:{named}")
    forged = {"decision": "write-off", "reason": "forged", "by": "mallory", "case": case}
    asked["ResolveLimbo forged"] = Asked("ResolveLimbo", {**base, "resolution": forged, "case": case})
    asked["BeginCompensation forged"] = _begin(base, resolution=forged)
    asked["AwaitResolution"] = Asked("AwaitResolution", {**base, "token": "late"})
    asked["BeginCompensation resume"] = _begin(base)
    if row and "expired_at" in row:
        asked["BeginCompensation by recovery"] = _begin(base, error=ERROR)
    owners = {"its owner": text(row, "owner") or "late", "another": "another"}
    base = {**base, "execution": f"{settlement['key']}-c{number(row, 'owner_epoch')}-{NONCE}"}
    for name, owner in owners.items():
        asked[f"BeginCompensation for {name}"] = _begin(base, error=ERROR, owner=owner)
    record = {
        "messageId": "m",
        "receiptHandle": "r",
        "body": json.dumps(settlement),
        "eventSource": "aws:sqs",
    }
    asked["StartSettlements"] = Asked("StartSettlements", {"Records": [record]})
    return asked


def _begin(base: Mapping[str, Any], **state: Any) -> Asked:
    payload = {"state": {"settlement": base["settlement"], **state}, "execution": base["execution"]}
    return Asked("BeginCompensation", payload)
