import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from settle.door import embedded_url
from settle.permissions.people import Kind
from tests.e2e.embedded import Embedded, new_request, paid_once
from tests.e2e.people import Person, of_kind, of_policies
from tests.e2e.test_readers import get
from tests.world.contracts import checked_outcome
from tests.world.reading import Answer

pytestmark = pytest.mark.long


@contextmanager
def starter(embedded: Embedded, *also: str) -> Iterator[Person]:
    """Yield a role session with the starters' policy, and other outputs' policies."""
    with of_policies(embedded, "StarterPolicyArn", *also, name="shop") as shop:
        yield shop


def post(embedded: Embedded, who: Person, request: dict[str, Any], **headers: str) -> Answer:
    base = embedded_url(embedded.stack.outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url))
    named = {"Content-Type": "application/json", "Idempotency-Key": request["key"], **headers}
    sent = AWSRequest("POST", f"{base}/settlements", data=json.dumps(request), headers=named)
    SigV4Auth(who.session.get_credentials(), "execute-api", who.session.region_name).add_auth(sent)
    told = URLLib3Session(timeout=(5, 35)).send(sent.prepare())
    found = {name.lower(): text for name, text in told.headers.items()}
    return Answer(told.status_code, found, json.loads(told.text) if told.text else None)


def test_a_starter_pays_once_although_it_repeats_its_call(embedded: Embedded) -> None:
    first, request = new_request(embedded), new_request(embedded)
    with starter(embedded) as shop:
        post(embedded, shop, first)
        embedded.wait_for(lambda: paid_once(embedded, first))  # then no function has to start
        accepted = post(embedded, shop, request)
        waited = post(embedded, shop, request, Prefer="wait=20")
        repeated = post(embedded, shop, request)
        conflict = post(embedded, shop, request | {"amount": "1.00"})
        refused = post(embedded, shop, request | {"amount": 1})

    location = f"/settlements/{request['key']}"
    assert (accepted.status, accepted.content) == (202, {"key": request["key"], "status_url": location})
    assert (waited.status, checked_outcome(waited.content)["status"]) == (200, "SETTLED")
    assert (repeated.status, repeated.headers["location"]) == (200, location)
    assert (conflict.status, conflict.content["error"]) == (409, "IdempotencyConflict")
    assert (refused.status, refused.content["message"].partition(":")[0]) == (400, "amount")
    assert paid_once(embedded, request)


def test_a_starter_cannot_read_and_a_person_cannot_start(embedded: Embedded) -> None:
    request = new_request(embedded)
    with starter(embedded) as shop, of_kind(embedded, Kind.APPROVER) as pete, embedded.writes_nothing():
        read = get(embedded, shop.session, "/settlements?status=LIMBO")
        started = post(embedded, pete, request)

    assert (read.status, started.status) == (403, 403)
