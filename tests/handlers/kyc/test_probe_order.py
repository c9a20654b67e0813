import json

import pytest

from settlement.core.model.errors import InvalidRequest, StartUnavailable
from tests.handlers.conftest import Calls
from tests.world.constants import ORDER
from tests.world.functions import Context
from tests.world.orders import request
from tests.world.services import throttled

CLOSED = {"circuit": "kyc", "state": "CLOSED", "probe": "health"}


def test_a_probe_order_only_invokes_verify_kyc(calls: Calls) -> None:
    calls.functions.answers = lambda event: CLOSED

    with calls.writes_nothing():
        answer = calls.order("probe", {"by": ORDER["by"]})

    assert answer == CLOSED
    assert calls.functions.sent == [{"check": "now"}]


def test_a_probe_order_with_fields_is_refused(calls: Calls) -> None:
    with pytest.raises(
        InvalidRequest, match=r"^order: must be an empty JSON object, as a probe has no fields$"
    ):
        calls.order("probe", {"by": ORDER["by"], "key": "x"})

    assert calls.functions.sent == []


def test_a_probe_order_without_an_answer_returns_503(calls: Calls) -> None:
    calls.functions.failing = throttled("Invoke")

    answer = calls.handlers["TakeOrder"](request("probe", {}, ORDER["by"]), Context())

    said = json.loads(answer["body"])
    assert (answer["statusCode"], said["error"]) == (503, StartUnavailable.__name__)
    assert said["message"] == "probe: VerifyKyc: ClientError"
