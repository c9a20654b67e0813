"""The HTTP API to read settlements, for callers who may not pay."""

from .core import Added, Core, Room
from .grants import ACCOUNT, ENTRIES, SETTLEMENT, WAITING_SECONDS, Handler, allow
from .http_api import READ_CALLS, api_of
from .settings import CoreSettings
from .urgency import Urgency

READS = {
    "Outcome": "/settlements/{key}",
    "List": "/settlements",
    "Statement": "/accounts/{id}/entries",
    "Journal": "/journal",
}
"""Paths by construct name."""


def build(core: Core, settings: CoreSettings) -> Added:
    """Build the room. Its function cannot write or start anything."""
    api = api_of(core, settings)
    routes = {name: f"GET {path}" for name, path in READS.items()}
    api.open("", core.functions["ReadSettlements"], routes, "GET/*")
    reader = api.add_readers("What a service may do that reads settlements, and does not pay")
    reads = [api.arn(call) for call in READ_CALLS]
    return Added(
        part=api,
        outputs={"SettlementsApiUrl": api.url, "ReaderPolicyArn": reader},
        reads=[allow("Settlements", ["execute-api:Invoke"], reads)],
    )


ROOM = Room(
    build=build,
    handlers={
        "ReadSettlements": Handler(
            rows={"GetItem": (SETTLEMENT, ACCOUNT), "Query": (ENTRIES,)},
            lists=True,
            seconds=WAITING_SECONDS,
            by_http=True,
            failure=Urgency.MORNING,
        ),
    },
)
