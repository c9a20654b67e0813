"""Collects all AWS calls of the running functions: operation and parameters.

Most come from simulated lives. Scenes run the code that the simulator replaces. Each new function needs a
life or a scene.
"""

import gzip
import json
import os
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from io import BytesIO
from itertools import chain
from typing import Any
from unittest import mock

from botocore.client import BaseClient

import handlers
import settlement
from handlers import _dependencies
from handlers.events import publish_events
from handlers.journal import seal_journal
from handlers.kyc import _provider as _kyc
from handlers.paging import send_page
from handlers.reading import read_settlements
from settlement.aws import functions as _functions
from settlement.aws.clients import LazyClient
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import KycUnavailable, SettlementError
from settlement.core.store.wire import to_wire
from settlement.journal import lines, seals
from settlement.kyc import client as kyc_client
from settlement.kyc import shared_secrets as _secrets
from settlement.proof.findings import Difference
from settlement.proof.second_look import look_again
from settlement.proof.watch import JUDGING, unwatched
from settlement.proof.watched_store import WatchedStore
from tests.simulation.seeded.stage import set_up
from tests.simulation.seeded.world import World, play
from tests.unit import states
from tests.unit.vectors import SETTLEMENT
from tests.world import reading
from tests.world.constants import CLAIMED_AT
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.memory_s3 import MemoryS3
from tests.world.rooms import brought, there
from tests.world.services import API_KEY, SECRET
from tests.world.stream import record

SEEDS = (
    *(5, 40, 45, 78, 85, 87, 95, 99, 124, 130, 153, 161, 162, 163, 165, 175),
    *(199, 204, 222, 238, 270, 279, 361, 395, 431, 470),
)
"""Seeds whose lives make each kind of call that the first 480 make: see `test_observed.py`."""

DEAD_LETTERS = "dead-letters"
"""The queue's address in the simulator."""

_SHOP = "merchant.shop"
_NOW = int(time.time())
_PREFIXES = {"stepfunctions": "states"}
"""IAM service names that differ from boto3's."""


@dataclass(frozen=True)
class Call:
    function: str
    service: str
    operation: str
    parameters: Mapping[str, Any]

    @property
    def variable(self) -> str:
        """Return the environment variable that names the call's resource."""
        given = [one for one in _leaves(self.parameters) if isinstance(one, str)]
        names = [one.replace(":execution:", ":stateMachine:") for one in given]
        known = {variable: os.environ.get(variable, DEAD_LETTERS) for variable in _VARIABLES}
        known["KYC"] = _kyc._secret_id
        (found,) = {
            variable
            for variable, value in known.items()
            if any(name == value or name.startswith(f"{value}:") for name in names)
        }
        return found


def _leaves(value: Any) -> Iterator[Any]:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not isinstance(value, dict | list):
        yield value
    for member in members:
        yield from _leaves(member)


_VARIABLES = {
    *("SETTLEMENT_MACHINE", "EXPRESS_MACHINE", "COMPENSATION_MACHINE"),
    *("RECOVER_STALLED", "VERIFY_KYC", "PUBLISH_EVENTS", "FOLLOW_PAYOUTS"),
    *("OUTCOME_BUS", "SWEEPS", "SWEEPS_PUT_ASIDE", "EVENTS_PUT_ASIDE"),
    *("START_DEAD_LETTERS", "KYC_SIGNING_SECRET", "EVENT_BUS", "KYC"),
    *("JOURNAL_BUCKET", "PAGE_TOPIC", "INFORMATION_TOPIC"),
}


def _lazy_clients() -> list[tuple[Any, str, str]]:
    found = [*pkgutil.walk_packages(handlers.__path__, "handlers.")]
    found += pkgutil.walk_packages(settlement.__path__, "settlement.")
    return [
        (module, name, _PREFIXES.get(client._service, client._service))
        for module in (import_module(one.name) for one in found)
        for name, client in vars(module).items()
        if isinstance(client, LazyClient)
    ]


class _Watched:
    def __init__(self, world: World, service: str, client: Any, calls: list[Call]) -> None:
        self._world, self._service, self._client, self._calls = world, service, client, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if isinstance(method, type) or not callable(method):
            return method

        def call(**parameters: Any) -> Any:
            process = self._world.hub.process
            if process in self._world.cloud._running:
                operation = "".join(map(str.title, name.split("_")))
                self._calls.append(Call(process.name, self._service, operation, parameters))
            return method(**parameters)

        return call


def lives(seeds: Iterable[int]) -> Iterator[list[Call]]:
    places = [(_dependencies.store, "client", "dynamodb"), *_lazy_clients()]
    with set_up() as current:
        for seed in seeds:
            calls: list[Call] = []
            world: World = play(seed)
            current.world = world
            for place, name, service in places:
                setattr(place, name, _Watched(world, service, getattr(place, name), calls))
            world.run()
            yield calls


def _asks_the_provider() -> None:
    answer = json.dumps({"decision": "APPROVED", "reference": "ver_1"}).encode()
    is_down, is_up = mock.Mock(side_effect=KycUnavailable("down")), mock.Mock(return_value=(200, answer))
    for later, exchange in ((0, is_down), (120, is_up)):
        clock = mock.Mock(return_value=_NOW + later)
        with (
            mock.patch.object(kyc_client.Client, "_exchange", exchange),
            mock.patch.object(_kyc._circuit, "_clock", clock),
        ):
            for number in range(12):
                with suppress(SettlementError):
                    _kyc.ask(replace(SETTLEMENT, key=f"order-{later}-{number}"), Context())


def _copies_and_seals() -> None:
    image = {"pk": {"S": "ENTRIES#alice"}, "sk": {"S": "k"}}
    change = {"ApproximateCreationDateTime": _NOW, "SequenceNumber": "1", "NewImage": image}
    seal_journal.handler({"Records": [{"eventName": "INSERT", "dynamodb": change}]}, Context())
    for hours in (2, 3):
        with mock.patch.object(_dependencies, "now", return_value=NOW + timedelta(hours=hours)):
            seal_journal.handler({}, Context())


def _tells_people() -> None:
    for kind in ("LimboEntered", "LimboResolved"):
        send_page.handler({"detail-type": kind, "detail": {"summary": "x"}}, Context())


def _tells_of_settlements() -> None:
    """Make PublishEvents relay a settlement, a malformed one and a merchant's release, and replay one."""
    row = to_wire(states.row())
    spoilt, release = {**row, "status": {"S": "NONSENSE"}}, {**row, "pk": {"S": "ENTRIES#merchant.shop#1"}}
    batch = {"Records": [record(None, one, at=_NOW) for one in (row, spoilt, *there("merchants", release))]}
    publish_events.handler(batch, Context())
    publish_events.handler({"replay": [SETTLEMENT.key]}, Context())


def _reads() -> None:
    for event in (
        reading.outcome(SETTLEMENT.key),
        reading.entries("alice"),
        reading.entries("fees:EUR"),
        reading.listing(account="alice"),
        *(reading.listing(status=status) for status in ("PROCESSING", "LIMBO")),
        reading.journal(),
    ):
        read_settlements.handler(event, Context())


class _Inbox:
    """A stand-in for the Data API that remembers booked objects' names."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def answer(self, transactionId: str = "", sql: str = "", **given: Any) -> Any:  # noqa: N803
        if not sql:
            return {"transactionId": "transaction"}
        told = {one["name"]: one["value"].get("stringValue", "") for one in given["parameters"]}
        if "max(name" in sql:
            return {"records": [[{"isNull": True}]]}
        if "names" in told:
            return {"records": [[{"stringValue": name}] for name in json.loads(told["names"])]}
        if "FROM ledger.put_aside" in sql:
            return {"records": [[{"longValue": 0}]]}
        is_new = told["name"] not in self._names
        self._names.add(told["name"])
        return {"records": [[{"longValue": int(is_new)}]]}


def _counts_the_open_cases() -> None:
    """Make ReconcileBooks read an account with a wrong case count again."""
    difference = Difference(keys.account("alice"), None, (), cases=("order-1",))
    look_again(WatchedStore(_dependencies.store, JUDGING, unwatched), difference, NOW)


SCENES: list[tuple[str, Callable[[], object]]] = [
    ("VerifyKyc", _asks_the_provider),
    ("KycDecided", lambda: _secrets.signing_secrets(NOW)),
    ("SealJournal", _copies_and_seals),
    ("SendPage", _tells_people),
    ("PublishEvents", _tells_of_settlements),
    ("ReadSettlements", _reads),
    ("TakeOrder", lambda: _functions.call("PUBLISH_EVENTS", {})),
    ("ReconcileBooks", _counts_the_open_cases),
    *(scene for room in brought("infra", "scenes") for scene in room.SCENES),
]
"""Parts of functions that the simulator replaces, run with observed boto3 clients."""


def _sealed() -> MemoryS3:
    content, bucket = lines.content([]), MemoryS3()
    name = seals.object_name(content, datetime.fromtimestamp(_NOW, UTC) - timedelta(hours=1))
    bucket.put_object(Bucket="journal", Key=name, Body=gzip.compress(content))
    return bucket


def _unswept() -> dict[tuple[str, str], Any]:
    release = keys.entry(_SHOP, CLAIMED_AT, SETTLEMENT.key, "release")
    of_release = {"step": "release", "posted_at": CLAIMED_AT, "amount": 4772, "currency": "EUR"}
    of_rooms = [row for room in brought("infra", "scenes") for row in getattr(room, "ROWS", ())]
    rows = (states.account_row(_SHOP, 0), release | of_release, *of_rooms)
    return {(row["pk"], row["sk"]): to_wire(row) for row in rows}


def _scene(function: str, act: Callable[[], object]) -> Iterator[Call]:
    calls: list[Call] = []
    table, bucket, inbox = MemoryDynamoDb(items=_unswept()), _sealed(), _Inbox()

    def answer(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        service = client.meta.service_model.service_name
        calls.append(Call(function, _PREFIXES.get(service, service), operation, parameters))
        match service:
            case "dynamodb":
                name = "".join(f"_{one.lower()}" if one.isupper() else one for one in operation).lstrip("_")
                return getattr(table, name)(**parameters)
            case "s3":
                name = {"ListObjectsV2": "list_objects_v2"}.get(operation) or re.sub(
                    "(?<!^)(?=[A-Z])", "_", operation
                ).lower()
                return getattr(bucket, name)(**parameters)
            case "rds-data":
                return inbox.answer(**parameters)
            case "secretsmanager":
                return {"SecretString": json.dumps({"api_key": API_KEY, "current": SECRET})}
            case "lambda":
                return {"Payload": BytesIO(b"{}")}
        taken: list[dict[str, str]] = [{} for _ in parameters.get("Entries", ())]
        return {"FailedEntryCount": 0, "Entries": taken}

    with mock.patch.object(BaseClient, "_make_api_call", answer):
        act()
        telemetry.metrics.clear_metrics()
    yield from calls


@cache
def observed() -> tuple[Call, ...]:
    return (
        *chain.from_iterable(lives(SEEDS)),
        *(call for function, act in SCENES for call in _scene(function, act)),
    )
