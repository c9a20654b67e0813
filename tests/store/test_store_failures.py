"""The store's handling of DynamoDB's failures, with scripted answers that no local engine gives."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.awsrequest import AWSResponse
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from settlement.adapters import dynamodb, telemetry
from settlement.adapters.dynamodb import CLIENT_CONFIG, Store
from settlement.ledger import balances, forward, keys
from settlement.model.errors import InsufficientFunds, SettlementError, StepFenced, StoreUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import MalformedRow
from settlement.model.status import Status, Step
from settlement.policy import steps
from tests.world.environment import NOW
from tests.world.saga import ALICE, BOB, CLAIMED, ENTRIES

Reason = tuple[str, keys.Row | None]
Call = Callable[[Store], Any]

NONE: Reason = ("None", None)
CONFLICT: Reason = ("TransactionConflict", None)
HTTP_STATUS = {"InternalServerError": 500, "ServiceUnavailable": 503}
"""The HTTP statuses of DynamoDB's errors that are not 400."""

UNAVAILABLE = [
    *("InternalServerError", "ProvisionedThroughputExceededException", "RequestLimitExceeded"),
    *("ServiceUnavailable", "ThrottlingException", "TransactionInProgressException"),
]


class Scripted:
    """A client that gives the next answer of its script, and records the calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers = iter(answers)
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        return partial(self._send, operation)

    def _send(self, operation: str, **parameters: Any) -> Any:
        assert parameters.pop("ReturnConsumedCapacity") == "TOTAL"
        self.sent.append((operation, parameters))
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def wire(row: keys.Row) -> dict[str, Any]:
    return {name: TypeSerializer().serialize(value) for name, value in row.items()}


def failed(code: str, **response: Any) -> ClientError:
    metadata = {"HTTPStatusCode": HTTP_STATUS.get(code, 400)}
    said = {"Error": {"Code": code, "Message": "as DynamoDB says"}, "ResponseMetadata": metadata}
    return ClientError({**said, **response}, "Any")


def cancelled(*reasons: Reason) -> ClientError:
    said = [{"Code": code} | ({"Item": wire(row)} if row else {}) for code, row in reasons]
    return failed("TransactionCanceledException", CancellationReasons=said)


def check_failed(row: keys.Row | None) -> Reason:
    return ("ConditionalCheckFailed", row)


FENCED = check_failed(CLAIMED | {"status": "COMPENSATING"})
POOR = check_failed(ALICE | {"available": 1})
OTHER_ENTRY = check_failed(ENTRIES[Step.HOLD])
COMMITTED = {"ConsumedCapacity": [{"TableName": "t", "CapacityUnits": 7.0}]}
ANSWERED = {"ConsumedCapacity": {"TableName": "t", "CapacityUnits": 1.0}}
MALFORMED = {name: value for name, value in CLAIMED.items() if name != "owner"}


@pytest.fixture
def pauses() -> list[int]:
    return []


@pytest.fixture
def scripted(pauses: list[int]) -> Callable[..., tuple[Store, Scripted]]:
    def make(*answers: Any) -> tuple[Store, Scripted]:
        client = Scripted(*answers)
        return Store(client, "t", pause=pauses.append), client

    return make


@pytest.fixture
def hold(settlement: Settlement) -> Call:
    return lambda of: of.commit(steps.hold(settlement, NOW))


@pytest.fixture
def claim(settlement: Settlement, config: StageConfig) -> Call:
    return lambda of: of.claim(forward.claim(settlement, "execution-1", NOW, config))


@pytest.fixture
def reject(settlement: Settlement) -> Call:
    return lambda of: of.update(forward.reject(settlement, {"step": "hold", "error": "x", "cause": ""}, NOW))


@pytest.fixture
def read() -> Call:
    return lambda of: of.read(keys.account("alice"))


@pytest.fixture(params=["claim", "hold", "reject", "read"])
def call(request: pytest.FixtureRequest) -> Call:
    """Each way to call DynamoDB."""
    made: Call = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["claim", "reject"])
def single(request: pytest.FixtureRequest) -> Call:
    """Each write of one row."""
    made: Call = request.getfixturevalue(request.param)
    return made


# A transaction


@pytest.mark.parametrize(
    ("reasons", "error"),
    [
        ((NONE, FENCED, NONE), StepFenced),
        ((NONE, FENCED, POOR), StepFenced),
        ((NONE, FENCED, CONFLICT), StepFenced),
        ((NONE, NONE, POOR), InsufficientFunds),
    ],
)
def test_the_first_reason_decides_what_a_cancelled_step_means(
    scripted: Any, hold: Call, pauses: list[int], reasons: list[Reason], error: type[SettlementError]
) -> None:
    sender, client = scripted(cancelled(*reasons))

    with pytest.raises(error):
        hold(sender)

    assert (len(client.sent), pauses) == (1, [])


@pytest.mark.parametrize(
    "behind",
    [(NONE, NONE), (FENCED, POOR), (CONFLICT, CONFLICT), (check_failed(MALFORMED), POOR)],
    ids=["nothing", "refusals", "conflicts", "a malformed row"],
)
def test_an_existing_entry_is_the_answer_whatever_else_failed(
    scripted: Any, hold: Call, behind: tuple[Reason, ...]
) -> None:
    sender, client = scripted(cancelled(OTHER_ENTRY, *behind))

    assert hold(sender) == ENTRIES[Step.HOLD]
    assert len(client.sent) == 1


@pytest.mark.parametrize(
    "reasons",
    [(CONFLICT, NONE, POOR), (CONFLICT, FENCED, POOR), (NONE, CONFLICT, POOR), (CONFLICT,) * 3],
)
def test_a_conflict_before_a_failed_balance_is_tried_again_and_finds_the_replay(
    scripted: Any, hold: Call, pauses: list[int], counted: list[str], reasons: list[Reason]
) -> None:
    sender, client = scripted(cancelled(*reasons), cancelled(OTHER_ENTRY, FENCED, POOR))

    assert hold(sender) == ENTRIES[Step.HOLD]

    assert pauses == [1]
    assert counted == ["TransactionConflict", "StepReplayed"]
    assert client.sent[0] == client.sent[1]


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_step_that_keeps_meeting_transient_reasons_is_sent_three_times(
    scripted: Any, hold: Call, pauses: list[int], counted: list[str], code: str
) -> None:
    sender, client = scripted(*[cancelled(NONE, (code, None), NONE)] * 9)

    with pytest.raises(StoreUnavailable, match=f"{code} in each of 3 tries"):
        hold(sender)

    assert (len(client.sent), pauses, counted) == (3, [1, 2], [code] * 3)


def test_a_step_commits_on_its_third_try(scripted: Any, hold: Call) -> None:
    sender, client = scripted(*[cancelled(CONFLICT, NONE, NONE)] * 2, COMMITTED)

    assert hold(sender) == ENTRIES[Step.HOLD]
    assert len(client.sent) == 3


def test_a_refusal_after_a_conflict_is_final(scripted: Any, hold: Call, pauses: list[int]) -> None:
    sender, client = scripted(cancelled(NONE, NONE, CONFLICT), cancelled(NONE, NONE, POOR))

    with pytest.raises(InsufficientFunds):
        hold(sender)

    assert (len(client.sent), pauses) == (2, [1])


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded", "SomethingNew"])
@pytest.mark.parametrize("behind", [NONE, CONFLICT, POOR])
def test_an_unknown_reason_surfaces_as_it_is(scripted: Any, hold: Call, code: str, behind: Reason) -> None:
    original = cancelled(NONE, (code, None), behind)
    sender, client = scripted(original)

    with pytest.raises(ClientError) as raised:
        hold(sender)

    assert raised.value is original
    assert len(client.sent) == 1


def test_every_item_of_every_transaction_asks_for_the_row_in_its_way(
    scripted: Any, settlement: Settlement, config: StageConfig
) -> None:
    sender, client = scripted(COMMITTED)

    sender.commit(steps.release(settlement, config, NOW))

    ((_, parameters),) = client.sent
    sent = [item for action in parameters["TransactItems"] for item in action.values()]
    assert len(sent) == 3
    assert {item["ReturnValuesOnConditionCheckFailure"] for item in sent} == {"ALL_OLD"}
    assert all(item["ConditionExpression"] for item in sent)


# A single write


def test_a_single_write_in_conflict_is_tried_again(
    scripted: Any, single: Call, pauses: list[int], counted: list[str]
) -> None:
    conflict = failed("TransactionConflictException")
    sender, _ = scripted(conflict, conflict, ANSWERED | {"Attributes": wire(CLAIMED)})

    assert single(sender).key == "order-2026-000101"
    assert (pauses, counted) == ([1, 2], ["TransactionConflict"] * 2)


def test_a_single_write_that_stays_in_conflict_is_sent_three_times(scripted: Any, single: Call) -> None:
    sender, client = scripted(*[failed("TransactionConflictException")] * 9)

    with pytest.raises(StoreUnavailable):
        single(sender)

    assert len(client.sent) == 3


def test_a_single_write_refused_by_its_condition_is_never_sent_again(
    scripted: Any, claim: Call, reject: Call, pauses: list[int]
) -> None:
    refused = failed("ConditionalCheckFailedException", Item=wire(CLAIMED | {"status": "LIMBO"}))
    sender, client = scripted(refused, refused)

    assert claim(sender).status is Status.LIMBO
    with pytest.raises(StepFenced, match="is LIMBO"):
        reject(sender)

    assert (len(client.sent), pauses) == (2, [])


@pytest.mark.parametrize(
    ("operation", "refused"),
    [
        ("hold", cancelled(NONE, check_failed(MALFORMED), POOR)),
        ("claim", failed("ConditionalCheckFailedException", Item=wire(MALFORMED))),
        ("reject", failed("ConditionalCheckFailedException", Item=wire(MALFORMED))),
    ],
)
def test_a_malformed_row_in_the_way_is_reported_at_once_and_the_write_not_sent_again(
    scripted: Any, request: pytest.FixtureRequest, pauses: list[int], operation: str, refused: ClientError
) -> None:
    sender, client = scripted(refused)

    with pytest.raises(MalformedRow, match=r"^SETTLEMENT#order-2026-000101: has no attribute 'owner'$"):
        request.getfixturevalue(operation)(sender)

    assert (len(client.sent), pauses) == (1, [])


# Any call


@pytest.mark.parametrize("code", UNAVAILABLE)
def test_a_service_that_cannot_answer_is_unavailable_and_not_asked_again(
    scripted: Any, call: Call, pauses: list[int], code: str
) -> None:
    sender, client = scripted(failed(code))

    with pytest.raises(StoreUnavailable, match=code):
        call(sender)

    assert (len(client.sent), pauses) == (1, [])


@pytest.mark.parametrize(
    "error", [ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError, ConnectionClosedError]
)
def test_a_service_that_does_not_answer_is_unavailable_and_not_asked_again(
    scripted: Any, call: Call, error: type[Exception]
) -> None:
    unreachable = error(endpoint_url="https://dynamodb")  # type: ignore[call-arg]
    sender, client = scripted(unreachable)

    with pytest.raises(StoreUnavailable, match=error.__name__) as raised:
        call(sender)

    assert raised.value.__cause__ is unreachable
    assert len(client.sent) == 1


@pytest.mark.parametrize("without", ["", "HTTPStatusCode", "ResponseMetadata"])
@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ResourceNotFoundException", "ValidationException"]
)
def test_a_fault_of_ours_is_not_hidden(scripted: Any, call: Call, code: str, without: str) -> None:
    original = failed(code)
    original.response["ResponseMetadata"].pop(without, None)
    original.response.pop(without, None)
    sender, client = scripted(original)

    with pytest.raises(ClientError) as raised:
        call(sender)

    assert raised.value is original
    assert len(client.sent) == 1


def test_each_call_is_logged_with_its_operation_and_its_cost_if_it_is_known(
    scripted: Any, hold: Call, read: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[str, Any]] = []
    monkeypatch.setattr(telemetry, "called", lambda *called: logged.append(called))
    sender, _ = scripted(cancelled(CONFLICT, NONE, NONE), COMMITTED, ANSWERED)

    hold(sender)
    read(sender)

    assert logged == [
        ("transact_write_items", None),
        ("transact_write_items", COMMITTED["ConsumedCapacity"]),
        ("get_item", ANSWERED["ConsumedCapacity"]),
    ]


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (lambda of: of.read(keys.account("alice")), keys.account("alice")),
        (lambda of: of.settlement("order-1"), keys.settlement("order-1")),
        (lambda of: of.account("alice"), keys.account("alice")),
        (lambda of: of.entry("order-1", "hold"), keys.entry("order-1", "hold")),
    ],
    ids=["row", "settlement", "account", "entry"],
)
def test_each_kind_of_row_is_read_consistently_in_one_call(scripted: Any, read: Call, key: keys.Row) -> None:
    sender, client = scripted(ANSWERED)

    assert read(sender) is None
    assert client.sent == [("get_item", {"TableName": "t", "Key": wire(key), "ConsistentRead": True})]


# Numbers


@pytest.mark.parametrize(
    "corrupt",
    [{"available": {"N": "0.5"}}, {"available": {"N": "1e-3"}}, {"failure": {"M": {"deep": {"N": "48.20"}}}}],
)
def test_a_row_with_a_number_that_is_no_integer_is_refused(
    scripted: Any, read: Call, corrupt: dict[str, Any]
) -> None:
    sender, _ = scripted(ANSWERED | {"Item": wire(ALICE) | corrupt})

    with pytest.raises(ValueError, match="every number in the table is an integer"):
        read(sender)


def test_a_number_reads_as_the_integer_that_it_is_however_it_is_spelled(scripted: Any, read: Call) -> None:
    sender, _ = scripted(ANSWERED | {"Item": wire(BOB) | {"available": {"N": "5E+2"}}})

    row = read(sender)

    assert row == BOB
    assert type(row["available"]) is int


@pytest.mark.parametrize("amount", [48.2, 4820.0, float("inf")])
def test_a_float_in_any_write_is_refused_before_anything_is_sent(
    scripted: Any, config: StageConfig, settlement: Settlement, amount: Any
) -> None:
    sender, client = scripted()
    broken = Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=amount, currency="EUR", fee=48
    )
    opened = [balances.open_account("alice", "EUR", 1), balances.open_account("bob", "EUR", amount)]
    sends: list[Callable[[], Any]] = [
        lambda: sender.transact(opened),
        lambda: sender.commit(steps.hold(broken, NOW)),
        lambda: sender.commit(steps.release(broken, config, NOW)),
        lambda: sender.update(steps.hold(broken, NOW).settlement),
        lambda: sender.update(forward.reject(settlement, {"cause": amount}, NOW)),
    ]

    for send in sends:
        with pytest.raises(TypeError, match=r"[Ff]loat"):
            send()
    with pytest.raises(MalformedRow, match=r"amount is no int$"):
        sender.claim(forward.claim(broken, "execution-1", NOW, config))

    assert client.sent == []


# Pauses


@pytest.mark.parametrize(("failed_tries", "bound"), [(1, 0.05), (2, 0.1), (3, 0.2)])
def test_a_pause_asks_the_systems_randomness_for_anything_up_to_a_doubling_bound(
    monkeypatch: pytest.MonkeyPatch, failed_tries: int, bound: float
) -> None:
    asked: list[tuple[float, float]] = []
    slept: list[float] = []

    class Recording:
        def uniform(self, low: float, high: float) -> float:
            asked.append((low, high))
            return high / 2

    monkeypatch.setattr(dynamodb, "SystemRandom", Recording)
    monkeypatch.setattr("time.sleep", slept.append)

    dynamodb.pause(failed_tries)

    ((low, high),) = asked
    assert (low, high, *slept) == pytest.approx((0, bound, bound / 2))


def test_a_store_pauses_with_jitter_unless_it_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, hold: Call
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    for _ in range(20):
        hold(Store(Scripted(cancelled(CONFLICT, NONE, NONE), COMMITTED), "t"))

    assert all(0 <= seconds <= 0.05 for seconds in slept)
    assert len(set(slept)) > 10


# Over the wire, with the functions' own settings


class Raw:
    """A response's body, as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.body


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Store, list[Any]]]:
    """A store on a real client with the functions' own settings, whose every request gets one answer."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def make(status: int, body: bytes) -> tuple[Store, list[Any]]:
        client = boto3.client("dynamodb", config=CLIENT_CONFIG)
        sent: list[Any] = []

        def answer(request: Any, **_: Any) -> AWSResponse:
            sent.append(json.loads(request.body))
            return AWSResponse(request.url, status, {}, Raw(body))

        client.meta.events.register("before-send.dynamodb", answer)
        return Store(client, "t", pause=lambda failed_tries: None), sent

    return make


def _error(code: str, **content: Any) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **content}).encode()


@pytest.mark.parametrize(
    ("reasons", "error", "sends"),
    [
        ([{"Code": "TransactionConflict"}, {"Code": "None"}, {"Code": "None"}], StoreUnavailable, 3),
        (
            [{"Code": "None"}, {"Code": "None"}, {"Code": POOR[0], "Item": wire(ALICE | {"available": 1})}],
            InsufficientFunds,
            1,
        ),
    ],
    ids=["transient", "refused"],
)
def test_a_cancelled_transaction_is_retried_by_one_layer_only(
    answering: Any, hold: Call, reasons: list[Any], error: type[Exception], sends: int
) -> None:
    sender, sent = answering(400, _error("TransactionCanceledException", CancellationReasons=reasons))

    with pytest.raises(error):
        hold(sender)

    assert len(sent) == sends


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, _error("InternalServerError")),
        (503, _error("ServiceUnavailable")),
        (400, _error("ThrottlingException")),
        (400, _error("ProvisionedThroughputExceededException")),
        pytest.param(500, _error("InternalFailure"), id="an error common to all of AWS"),
        pytest.param(502, b"<html>Bad Gateway</html>", id="a page"),
        pytest.param(504, b"", id="nothing"),
    ],
)
def test_a_service_in_trouble_is_asked_twice_by_botocore_with_one_token_and_then_unavailable(
    answering: Any, hold: Call, status: int, body: bytes
) -> None:
    sender, sent = answering(status, body)

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            hold(sender)

    first, repeated, second, _ = (request["ClientRequestToken"] for request in sent)
    assert first == repeated != second
