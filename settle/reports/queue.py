"""A stack's queue: cases, settlements in flight, proposals, circuit and last proof.

index LIMBO, IN_FLIGHT#0..7 ──▶ rows ──▶ a line each, with the next command
index ORDERS#<month>, 24 h  ──▶ proposals that may still be approved
CloudWatch                  ──▶ the last scheduled proof
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.instants import seconds_since
from settle.kyc import circuit
from settle.orders import audit, limbo, proposal
from settle.settlements import aside, in_flight
from settle.settlements.aside import UNREADABLE
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store import batch
from settlement.orders.approval import VALID_FOR

LINES_MAX = 1_000
"""Maximum cases on a page, and maximum settlements in flight."""

AGES = ((60, "1m"), (300, "5m"), (900, "15m"), (3_600, "1h"), (14_400, "4h"), (86_400, "1d"), (604_800, "7d"))
"""Upper ends of a sparkline's bars, in seconds. An eighth bar has older lines."""

PROOF_SINCE = timedelta(days=3)
"""Search window for the last proof. A stage runs a proof at least daily."""

_PROOF_PERIOD_SECONDS = 300
_PROOF = ("ReconciledRows", "ReconcileFaults", "ReconcileUnproven")


def describe(stack: Stack, at: datetime) -> dict[str, Any]:
    stuck = limbo.open_states(stack, LINES_MAX)
    found = in_flight.in_flight(stack, LINES_MAX)
    flying = in_flight.in_flight_lines(stack, found)
    cases = [one | {"next": stack.command("limbo show", one["key"])} for one in limbo.lines(stack, stuck)]
    proposals, aside_of_proposals = _proposals(stack, stuck.states, at)
    flying = [one | {"next": _next(stack, one, timestamp(at))} for one in flying]
    return {
        "at": timestamp(at),
        "stack": stack.name,
        "table": stack.outputs["TableName"],
        "limbo": {"lines": cases, "more": stuck.more, "ages": _ages(cases, at), "at_risk": _at_risk(cases)},
        "in_flight": {
            "lines": sorted(flying, key=lambda one: one["since"] or ""),
            "more": found.more,
            "ages": _ages(flying, at),
        },
        "proposals": proposals,
        "unreadable": sorted(
            {*aside_of_proposals, *(one[UNREADABLE] for one in aside.of([*cases, *flying]))}
        ),
        "circuit": circuit.status(stack),
        "recovery_behind_seconds": in_flight.behind_seconds(flying, at),
        "proof": last_proof(stack, at),
    }


def _next(stack: Stack, line: dict[str, Any], at: str) -> str:
    is_late = not line["in_review"] and (line["deadline_at"] or at) < at
    return stack.command("recover" if is_late else "status", line["key"])


def _ages(lines: Sequence[dict[str, Any]], at: datetime) -> list[dict[str, Any]]:
    counts = [0] * (len(AGES) + 1)
    for line in lines:
        seconds = seconds_since(line["since"], at)
        if seconds is not None:
            counts[sum(seconds >= end for end, _ in AGES)] += 1
    names = [f"under {name}" for _, name in AGES] + ["older"]
    return [{"age": name, "count": count} for name, count in zip(names, counts, strict=True)]


def _at_risk(cases: Iterable[dict[str, Any]]) -> list[str]:
    sums = defaultdict[str, Decimal](Decimal)
    for one in cases:
        if one["amount_at_risk"] is not None:
            sums[one["currency"]] += Decimal(one["amount_at_risk"])
    return [f"{amount:f} {currency}" for currency, amount in sorted(sums.items())]


def _proposals(
    stack: Stack, stuck: Iterable[SettlementState], at: datetime
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the proposals that wait for another person, by expiry. Also return unreadable rows.

    Proposals on LIMBO come from the cases, others from recent orders.
    """
    known = {state.key: state for state in stuck}
    pages = audit.pages(stack, at - VALID_FOR, at, None)
    orders = [one for page in pages for one in page]
    unreadable = [one[UNREADABLE] for one in aside.of(orders)]
    named = {one["key"] for one in orders if one["order"].endswith("/propose")}
    wanted = [keys.settlement(key) for key in sorted(named - known.keys())]
    others = list[SettlementState]()
    for row in batch.read(stack.store, wanted, lambda key, reason: unreadable.append(reason)):
        try:
            others.append(SettlementState.from_row(row))
        except MalformedRow as malformed:
            unreadable.append(str(malformed))
    states = [*known.values(), *(one for one in others if one.status is not Status.LIMBO)]
    found = proposal.open_on_many(stack, states)
    told = [
        {"key": state.key} | proposal.told(stack, state, found.open[state.key])
        for state in states
        if state.key in found.open
    ]
    unreadable += found.unreadable.values()
    return sorted(told, key=lambda one: (one["valid_until"], one["key"])), unreadable


def last_proof(stack: Stack, at: datetime) -> dict[str, Any]:
    """Return the last proof's figures from CloudWatch, or None values and the reason."""
    nothing: dict[str, Any] = dict.fromkeys(("at", *_PROOF))
    try:
        client = stack.client("cloudwatch")
        points = {name: _latest(client, stack, name, at) for name in _PROOF}
    except (BotoCoreError, ClientError) as failed:
        return nothing | {"unknown": f"CloudWatch gives no answer: {type(failed).__name__}: {failed}"}
    rows = points["ReconciledRows"]
    if rows is None:
        return nothing | {"unknown": f"no scheduled proof within {PROOF_SINCE.days} days"}
    figures = {name: point and int(point["Maximum"]) for name, point in points.items()}
    return {"at": timestamp(rows["Timestamp"]), **figures, "unknown": None}


def _latest(client: Any, stack: Stack, name: str, at: datetime) -> dict[str, Any] | None:
    answer = client.get_metric_statistics(
        Namespace="Settlement",
        MetricName=name,
        Dimensions=[{"Name": "service", "Value": stack.service}],
        StartTime=at - PROOF_SINCE,
        EndTime=at,
        Period=_PROOF_PERIOD_SECONDS,
        Statistics=["Maximum"],
    )
    return max(answer["Datapoints"], key=lambda point: point["Timestamp"], default=None)
