"""The desk with payouts: both APIs, FollowPayouts, and a bank whose answers each test sets."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from handlers.payouts import _bank, _payouts
from settle.door import Answer
from settlement.aws import functions
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import SettlementError
from settlement.payouts import moves, writes
from settlement.payouts.destination import Destination
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout, State
from settlement.payouts.port import Accepted, Declared, Found, NeverSeen, Refused, Unknown
from tests.settle.desk import ADA, GRACE, Desk, Reached, call
from tests.world.environment import NOW

KEY = "payout-2026-000101"
IBAN, HOLDER = "DE89370400440532013000", "Ida Example"
WIRE = {"key": KEY, "account": "alice", "amount": "48.20", "currency": "EUR", "destination": "flat-9"}
PAYOUTS = {
    "limits": {"payout": {"EUR": 10_000}, "day": {"EUR": 20_000}, "rest_seconds": 0},
    "accounts": [IBAN],
}
STUCK = "the bank has given no final answer"
DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset())


@dataclass
class Bank:
    found: Found | NeverSeen | Unknown = field(default_factory=lambda: Unknown("500"))
    declared: Declared = DECLARED

    def request(self, state: State) -> bytes:
        return state.payout.reference.encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        return Accepted()

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        return self.found


@dataclass
class Services:
    """The settlements API. It loses `losing` answers after their effect; `answering` replaces answers."""

    losing: int = 0
    answering: list[Answer] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)

    def call(self, method: str, path: str, content: Any = None) -> Answer:
        self.posted.append(content)
        if self.answering:
            return self.answering.pop(0)
        answer = call("ServePayouts", {"routeKey": f"{method} {path}", "body": json.dumps(content)})
        if self.losing:
            self.losing -= 1
            raise ReadTimeoutError(endpoint_url="https://settlements.invalid")
        return Answer(answer["statusCode"], json.loads(answer["body"]))


@dataclass
class Follow:
    """Lambda, which runs FollowPayouts unless `down`. Asynchronous calls only add their keys to `asked`."""

    down: bool = False
    asked: list[str] = field(default_factory=list)

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: str) -> dict[str, Any]:  # noqa: N803
        assert FunctionName == "FollowPayouts"
        if self.down:
            raise ClientError({"Error": {"Code": "TooManyRequestsException"}}, "Invoke")
        if InvocationType == "Event":
            self.asked.append(json.loads(Payload)["key"])
            return {"StatusCode": 202}
        assert InvocationType == "RequestResponse"
        try:
            answer, failed = call("FollowPayouts", json.loads(Payload)), {}
        except SettlementError as error:
            answer, failed = {"errorType": type(error).__name__}, {"FunctionError": "Unhandled"}
        return {"Payload": io.BytesIO(json.dumps(answer).encode()), **failed}


@dataclass
class Office:
    desk: Desk
    bank: Bank = field(default_factory=Bank)
    services: Services = field(default_factory=Services)
    follow: Follow = field(default_factory=Follow)

    def add_payee(self, name: str = "flat-9", account: str = "alice") -> None:
        """Have Ada add a payee's bank account, and Grace confirm it."""
        given = {"id": name, "account": account, "iban": IBAN, "holder": HOLDER}
        for by, order, body in (
            (ADA, "add-payee", given | {"reason": "the rent"}),
            (GRACE, "confirm-payee", given),
        ):
            self.desk.door.by = by
            assert self.desk.door.send(order, body).status == 200
        self.desk.door.by = ADA

    def put(self, *path: Move, key: str = KEY, **noted: Any) -> State:
        """Put a payout's row as it is after these moves; a case opens with STICK."""
        payout = Payout(key=key, account="alice", amount=48_20, currency="EUR", destination="flat-9")
        payee = Destination(
            id="flat-9",
            account="alice",
            iban=IBAN,
            holder=HOLDER,
            added_by=ADA,
            added_at=AT,
            confirmed_by=GRACE,
        )
        state = writes.reserved(payout, payee, NOW)
        for move in path:
            more = {Move.SEND: {"sent_sha256": "5c" * 32}, Move.STICK: {"trouble": STUCK}}.get(move, {})
            state = moves.after(state, move, NOW, **more)
        state = moves.counted(state, NOW, **{"trouble": state.trouble} | noted) if noted else state
        self.desk.ledger.put(state.to_row())
        return state

    def row(self, key: str = KEY) -> Row:
        row = self.desk.ledger.row(keys.payout(key))
        assert row is not None
        return row

    def alter(self, place: Row, **attributes: Any) -> None:
        self.desk.alter(place, **attributes)


AT = "2026-11-17T12:00:00.000Z"
IN_LIMBO = (Move.SEND, Move.DOUBT, Move.STICK)


@pytest.fixture
def office(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    office = Office(desk)

    variables = {"FOLLOW_PAYOUTS": "FollowPayouts", "PAYOUTS": json.dumps(PAYOUTS)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(functions, "_client", office.follow)
    monkeypatch.setattr(_bank, "bank", lambda: office.bank)
    monkeypatch.setattr(Reached, "services", property(lambda stack: office.services))
    _payouts.config.cache_clear()
    yield office
    _payouts.config.cache_clear()
