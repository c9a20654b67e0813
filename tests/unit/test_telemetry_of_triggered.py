"""The log of KycDecided, RecoverStalled and a question to the provider: the key, and no secret."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from handlers import (
    _dependencies,
    _kyc,
    _secrets,
    _step_functions,
    kyc_decided,
    recover_stalled,
    verify_kyc,
)
from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.model.errors import KycRequestRefused, KycUnavailable, SettlementError, StartUnavailable
from settlement.model.request import parse_settlement
from settlement.model.verdict import Verdict
from tests.conftest import NOW
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED, Provider
from tests.unit.observation import CONTEXT, EVENT, EXECUTION, KEY, WIRE, Output, assert_telling_nothing
from tests.unit.test_telemetry_of_handlers import ROW, Accepting, Unreachable, wire

SECRET = "whsec_" + base64.b64encode(b"canary-signing-secret-of-32-byte").decode()
BODY = json.dumps(
    {
        "idempotency_key": f"{KEY}:verify",
        "decision": "APPROVED",
        "reference": "ver_1",
        "reason": "canary-reason",
    }
)
VERIFIABLE = {name: value for name, value in ROW.items() if name not in ("verdict", "gsi1sk")} | {
    "status": "PROCESSING",
    "steps": {"hold"},
    "owner_epoch": 1,
}


LISTED = "2026-11-20T12:00:00.000Z"


class Verifiable(Accepting):
    """A DynamoDB with a settlement that waits for its verdict, listed once in the index."""

    CHANGES: dict[str, Any] = {"gsi1sk": LISTED}  # noqa: RUF012

    def __init__(self) -> None:
        ours = parse_settlement(WIRE, _dependencies.config).request_hash
        self._row = wire(VERIFIABLE | {"request_hash": ours} | self.CHANGES)

    def get_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS, "Item": self._row}

    def update_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS, "Attributes": self._row}

    def query(self, **parameters: Any) -> Any:
        partition = parameters["ExpressionAttributeValues"][":partition"]["S"]
        found = self._row | wire({"gsi1pk": partition, "gsi1sk": LISTED})
        return {"ConsumedCapacity": self.UNITS, "Items": [found] if partition.endswith("#0") else []}


class Overdue(Verifiable):
    """The same, past its deadline."""

    CHANGES = Verifiable.CHANGES | {"deadline_at": LISTED}


class Lost(Unreachable):
    query = Unreachable.put_item


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Accepting]], None]:
    """Put a DynamoDB in place, at `NOW`, with machines that start and a secret that is shared."""
    started: list[str] = []
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(_step_functions, "start", lambda arn, name, data: started.append(name))
    monkeypatch.setattr(_secrets, "read", lambda secret_id, **_: {"current": SECRET})

    def put(client: type[Accepting]) -> None:
        monkeypatch.setattr(_dependencies, "store", Store(client(), "table", pause=lambda failed_tries: None))

    return put


def called(body: str = BODY, secret: str = SECRET) -> dict[str, Any]:
    """Return a call as a function URL passes it."""
    return {
        "headers": {
            "webhook-id": "evt-canary",
            "webhook-timestamp": str(int(NOW.timestamp())),
            "webhook-signature": Webhook(secret).sign("evt-canary", NOW, body),
            "authorization": "canary",
        },
        "rawQueryString": "canary=1",
        "body": body,
        "isBase64Encoded": False,
    }


def assert_nothing_told(text: str) -> None:
    assert_telling_nothing(text)
    assert SECRET.removeprefix("whsec_") not in text


# The webhook


@pytest.mark.parametrize(
    ("client", "status", "error"),
    [(Verifiable, 200, None), (Unreachable, 503, "StoreUnavailable")],
)
def test_a_webhooks_lines_have_the_key_and_no_secret(
    client: type[Accepting],
    status: int,
    error: str | None,
    use: Callable[[type[Accepting]], None],
    output: Output,
) -> None:
    use(client)

    answer = kyc_decided.handler(called(), CONTEXT)

    lines, metrics, text = output.take()
    assert answer["statusCode"] == status
    assert {line["step"] for line in lines} == {"decide"}
    assert lines[-1]["key"] == KEY
    assert lines[-1].get("error") == error
    assert metrics == ["StepCalled", *([error] if error else [])]
    assert_nothing_told(text + answer["body"])


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (called(secret="whsec_" + base64.b64encode(b"x" * 32).decode()), "SignatureRefused"),
        (called("canary"), "InvalidRequest"),
        (called(BODY.replace("ver_1", "canary person")), "InvalidRequest"),
        ({"headers": {"canary": "canary"}}, "SignatureRefused"),
    ],
)
def test_the_content_of_a_refused_call_is_not_logged(
    event: dict[str, Any], error: str, use: Callable[[type[Accepting]], None], output: Output
) -> None:
    use(Lost)

    answer = kyc_decided.handler(event, CONTEXT)

    lines, metrics, text = output.take()
    assert [(line["message"], line.get("error")) for line in lines] == [("refused", error)]
    assert metrics == ["StepCalled", error]
    assert_nothing_told(text + answer["body"])


# The schedule


IN_LIMBO = ["LimboOpen", "OldestLimboSeconds"]
IN_FLIGHT = ["OldestInFlightSeconds", "Recoveries"]


@pytest.mark.parametrize(
    ("client", "recovered"),
    [(Verifiable, "RecoveredBySettlement"), (Overdue, "RecoveredByCompensation")],
)
def test_recoverys_lines_have_no_account_and_no_amount(
    client: type[Accepting], recovered: str, use: Callable[[type[Accepting]], None], output: Output
) -> None:
    use(client)

    recover_stalled.handler({}, CONTEXT)

    lines, metrics, text = output.take()
    assert {line["step"] for line in lines} == {"recover"}
    assert lines[-1]["message"] == "completed"
    assert metrics == ["StepCalled", *IN_LIMBO, recovered, *IN_FLIGHT]
    assert_nothing_told(text)


def test_a_settlement_that_is_not_recovered_is_logged_by_its_key(
    use: Callable[[type[Accepting]], None], output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: Any) -> None:
        raise StartUnavailable("canary")

    use(Verifiable)
    monkeypatch.setattr(_step_functions, "start", start)

    recover_stalled.handler({}, CONTEXT)

    lines, metrics, text = output.take()
    (told,) = (line for line in lines if line["message"] == "not recovered")
    assert (told["what"], told["error"]) == (KEY, "StartUnavailable")
    assert metrics == ["StepCalled", *IN_LIMBO, "NotRecovered", *IN_FLIGHT]
    assert_nothing_told(text)


def test_a_shard_that_cannot_be_read_is_logged_and_delays_no_other(
    use: Callable[[type[Accepting]], None], output: Output
) -> None:
    use(Lost)

    recover_stalled.handler({}, CONTEXT)

    lines, metrics, text = output.take()
    told = {(line["what"], line["error"]) for line in lines if line["message"] == "not recovered"}
    partitions = [*map(keys.in_flight_partition, range(keys.IN_FLIGHT_SHARDS)), keys.LIMBO]
    assert told == {(partition, "StoreUnavailable") for partition in partitions}
    # The number in LIMBO is unknown, and a 0 would wrongly end an alarm.
    assert sorted(metrics) == sorted(["StepCalled", *["NotRecovered"] * len(partitions), *IN_FLIGHT])
    assert_nothing_told(text)


# The question


@pytest.mark.parametrize(
    ("answer", "error", "counted"),
    [
        (APPROVED, None, None),
        (REJECTED, "KycRejected", "KycRejected"),
        (IN_REVIEW, None, "KycReview"),
        (KycUnavailable("canary"), "KycUnavailable", "KycUnavailable"),
        (KycRequestRefused("canary"), "KycRequestRefused", "KycRequestRefused"),
    ],
    ids=["approved", "rejected", "review", "unavailable", "refused"],
)
def test_a_question_to_the_provider_is_logged_without_its_reason(
    answer: Verdict | SettlementError,
    error: str | None,
    counted: str | None,
    use: Callable[[type[Accepting]], None],
    output: Output,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(Verifiable)
    provider = Provider(answer)
    monkeypatch.setattr(_kyc, "ask", provider.ask)

    try:
        verify_kyc.handler(EVENT, CONTEXT)
        refused = None
    except SettlementError as refusal:
        refused = type(refusal).__name__

    lines, metrics, text = output.take()
    assert refused == error
    assert provider.asked == [KEY]
    assert {(line["key"], line["step"], line["execution"]) for line in lines} == {(KEY, "verify", EXECUTION)}
    assert metrics == ["StepCalled", *([counted] if counted else [])]
    assert "nothing is known" not in text
    assert "a listed party" not in text
    assert_nothing_told(text)
