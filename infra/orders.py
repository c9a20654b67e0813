import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .core import Added, Core, Room
from .grants import (
    ACCOUNT,
    ENTRIES,
    EVIDENCE,
    ORDER,
    PROPOSAL,
    SETTLEMENT,
    WAITING,
    Handler,
    allow,
)
from .http_api import HttpApi
from .settings import CoreSettings

DECISIONS = (
    *("retry", "write-off", "complete"),
    *("reverse", "reverse-part", "recover"),
    *("open", "deposit", "withdraw", "freeze", "unfreeze", "close"),
)
"""The last part of each route; IAM grants each route."""

APPROVED = ("retry", "write-off", "complete", "reverse", "reverse-part")
"""Decisions that may need several persons. A reversal in part needs as many as a full one."""

MOVES = ("propose", "approve", "withdraw", "break-glass")
"""Steps of `APPROVED` decisions. Each is a route below its decision."""


def routes(of_rooms: Iterable[str]) -> tuple[str, ...]:
    """Paths after `POST /orders/`."""
    moves = (f"{decision}/{move}" for decision in APPROVED for move in MOVES)
    return (*DECISIONS, *of_rooms, *moves)


_BY_MANY = ("write-off", "complete", "retry", "reverse")
"""Decisions that may need several persons. `reverse` also covers `reverse-part`."""

_PERSONS_MAX = 5
"""Maximum persons of a decision. Its evidence has all approvers' ARNs."""


@dataclass(frozen=True, kw_only=True)
class OrdersSettings(CoreSettings):
    """See docs/decisions/2026-11-22-four-eyes.md."""

    approvals: Mapping[str, int] = field(default_factory=dict)
    reverse_over: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_amounts("reverse_over")
        if self.reverse_over and self.reverse_over.keys() != self.exponents.keys():
            missing = ", ".join(sorted(self.exponents.keys() - self.reverse_over.keys()))
            raise ValueError(f"reverse_over: must name each currency and asset; {missing} is missing")
        for decision, persons in self.approvals.items():
            if decision not in _BY_MANY:
                raise ValueError(f"approvals: {decision} is none of {', '.join(_BY_MANY)}")
            if type(persons) is not int or not 1 <= persons <= _PERSONS_MAX:
                raise ValueError(f"approvals: {decision} must be from 1 to {_PERSONS_MAX}")

    def rules(self) -> dict[str, Any]:
        found = {
            "approvals": dict(self.approvals),
            "reverse_over": self.in_minor_units(self.reverse_over),
        }
        return super().rules() | found


class OrdersApi(HttpApi):
    """The orders' API, with one route per decision. AWS authenticates the caller.

    No person's role may invoke the function: a direct caller could claim any identity.
    """

    def __init__(self, core: Core, settings: OrdersSettings) -> None:
        super().__init__(core, "Orders", rate=10, settings=settings)
        paths = {re.sub("[-/]", "", one.title()): f"POST /orders/{one}" for one in routes(core.orders)}
        self.open("", core.functions["TakeOrder"], paths, "POST/orders/*")

    def order(self, decision: str) -> str:
        """Return the ARN for `execute-api:Invoke`. `*` means every decision."""
        return self.arn(f"POST/orders/{decision}")


def build(core: Core, settings: OrdersSettings) -> Added:
    """Build the room. TakeOrder asks VerifyKyc for a probe, and PublishEvents for a replay."""
    function = core.functions["TakeOrder"]
    core.let_ask_recovery(function)
    for variable, asked in (("VERIFY_KYC", "VerifyKyc"), ("PUBLISH_EVENTS", "PublishEvents")):
        if asked in core.functions:
            core.let_call(function, variable, asked)
    core.compensation.startable_by(function, "COMPENSATION_MACHINE")
    core.compensation.describable_by(function)
    core.compensation.wakeable_by(function)
    part = OrdersApi(core, settings)
    function.add_environment("EVENT_BUS", core.pager.bus.event_bus_name)
    core.pager.bus.grant_put_events_to(function)
    return Added(
        part=part,
        outputs={"OrdersUrl": part.url},
        tries=[allow("Orders", ["execute-api:Invoke"], [part.order("*")])],
    )


ROOM = Room(
    build=build,
    handlers={
        "TakeOrder": Handler(
            rows={
                "GetItem": (SETTLEMENT, EVIDENCE, ACCOUNT, WAITING, PROPOSAL),
                "Put": (ORDER, EVIDENCE, ENTRIES, PROPOSAL),
                "Update": (SETTLEMENT, ACCOUNT, PROPOSAL),
            },
            names=(
                "available",
                "currency",
                "escrow",
                "hold_at",
                "release_at",
                "fee_at",
                "hold_reversed_at",
                "release_reversed_at",
                "fee_reversed_at",
            ),
            by_http=True,
        ),
    },
)
