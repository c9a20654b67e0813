import json
import os
from typing import Any

import pytest

from settlement.core.model.errors import PageUnavailable
from settlement.paging.page import page_of
from tests.handlers.conftest import Calls
from tests.world.functions import Context
from tests.world.services import throttled, unanswered

DETAIL = {"summary": "order-1 is in LIMBO", "key": "order-1", "account": "bob"}


def send(calls: Calls, kind: str, detail: Any = DETAIL) -> None:
    event = {"source": "settlement", "detail-type": kind, "detail": detail}
    assert calls.handlers["SendPage"](event, Context()) is None


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        ("LimboEntered", "PAGE_TOPIC"),
        ("GlassBroken", "PAGE_TOPIC"),
        ("LimboResolved", "INFORMATION_TOPIC"),
        ("an event of the next release", "PAGE_TOPIC"),
    ],
)
def test_a_pages_kind_selects_its_topic_and_unknown_is_urgent(calls: Calls, kind: str, topic: str) -> None:
    with calls.writes_nothing():
        send(calls, kind)

    (message,) = calls.topics.published
    assert message.keys() == {"TopicArn", "Subject", "Message"}
    assert message["TopicArn"] == os.environ[topic]
    assert message["Subject"] == page_of({"detail-type": kind, "detail": DETAIL}).subject
    assert json.loads(message["Message"].rpartition("\n")[2]) == DETAIL


@pytest.mark.parametrize("failing", [throttled("Publish"), unanswered()], ids=repr)
def test_a_page_that_sns_refuses_fails_for_lambda_to_retry(calls: Calls, failing: Exception) -> None:
    calls.topics.failing = failing
    calls.counted()

    with pytest.raises(PageUnavailable, match=rf"^page: not published: {type(failing).__name__}$"):
        send(calls, "LimboEntered")

    assert calls.counted() == {"StepCalled": 1, "PageUnavailable": 1}
