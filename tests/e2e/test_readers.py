import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from infra.journal import SEAL_SECONDS_EMBEDDED
from settle.door import embedded_url
from settle.permissions.people import Kind
from settlement_client import Client, Unavailable
from tests.e2e.embedded import Embedded, new_account, new_request
from tests.e2e.journal.test_sealed_journal import sealed_rows
from tests.e2e.people import Person, _in_session, _role, of_kind
from tests.e2e.test_iam import outcome_of
from tests.world.contracts import checked_outcome
from tests.world.reading import Answer

pytestmark = pytest.mark.long


@contextmanager
def reader(embedded: Embedded) -> Iterator[Person]:
    iam, policy = embedded.stack.client("iam"), embedded.stack.outputs["ReaderPolicyArn"]
    with _role(embedded) as (role, arn):
        iam.attach_role_policy(RoleName=role, PolicyArn=policy)
        yield _in_session(embedded, arn, "shop")
        iam.detach_role_policy(RoleName=role, PolicyArn=policy)


def get(embedded: Embedded, session: boto3.Session, path: str, method: str = "GET", **headers: str) -> Answer:
    base = embedded_url(embedded.stack.outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url))
    request = AWSRequest(method, f"{base}{path}", headers=headers)
    SigV4Auth(session.get_credentials(), "execute-api", session.region_name).add_auth(request)
    told = URLLib3Session(timeout=(5, 35)).send(request.prepare())
    found = {name.lower(): text for name, text in told.headers.items()}
    return Answer(told.status_code, found, json.loads(told.text) if told.text else None)


def walked(embedded: Embedded, session: boto3.Session, path: str, member: str, **query: str) -> list[Any]:
    found: list[Any] = []
    while True:
        answer = get(embedded, session, f"{path}?{urlencode(query)}")
        assert answer.status == 200, answer
        found += answer.content[member]
        if answer.content["cursor"] is None:
            return found
        query["cursor"] = answer.content["cursor"]


def test_a_reader_waits_for_the_end_and_reads_a_statement(embedded: Embedded) -> None:
    payer, payee = new_account(embedded, "dora", "100.00"), new_account(embedded, "emil")
    first, *others = (new_request(embedded, payer=payer, payee=payee, amount="10.00") for _ in range(3))
    with reader(embedded) as shop, ThreadPoolExecutor(1) as pool:
        path = f"/settlements/{first['key']}"
        absent = get(embedded, shop.session, path)
        waiting = pool.submit(get, embedded, shop.session, f"{path}?wait=20&after=0")
        for request in (first, *others):
            embedded.ended(embedded.run("SettlementStandardArn", request))
        woken = waiting.result()
        ended = get(embedded, shop.session, path)
        same = get(embedded, shop.session, path, **{"if-none-match": ended.headers["etag"]})
        entries = walked(embedded, shop.session, f"/accounts/{payer}/entries", "entries", limit="2")
        listed = walked(embedded, shop.session, "/settlements", "settlements", account=payee, limit="1")
        fees = get(embedded, shop.session, "/accounts/fees%3AEUR/entries?limit=1")
        in_limbo = get(embedded, shop.session, "/settlements?status=LIMBO")
        refused = get(embedded, shop.session, "/settlements?status=SETTLED")

    assert (absent.status, absent.content["error"]) == (404, "SettlementNotFound")
    assert (woken.status, checked_outcome(woken.content)["key"]) == (200, first["key"])
    assert (ended.status, checked_outcome(ended.content)["status"]) == (200, "SETTLED")
    assert (same.status, same.content) == (304, None)
    assert {entry["key"] for entry in entries} >= {one["key"] for one in (first, *others)}
    assert sorted(one["key"] for one in listed) == sorted(one["key"] for one in (first, *others))
    assert (fees.status, fees.content["account"], len(fees.content["entries"])) == (200, "fees:EUR", 1)
    assert in_limbo.status == 200
    assert (refused.status, refused.content["error"]) == (400, "InvalidRequest")


def test_a_reader_walks_the_whole_journal_by_the_api(embedded: Embedded) -> None:
    payer, payee = new_account(embedded, "dora", "100.00"), new_account(embedded, "emil")
    key = (request := new_request(embedded, payer=payer, payee=payee))["key"]
    embedded.ended(embedded.run("SettlementStandardArn", request))
    embedded.wait_for(lambda: sum(f"#{key}:" in name for name in sealed_rows(embedded)) == 3)
    readable_at = datetime.now(UTC).replace(second=0) + timedelta(seconds=60 + SEAL_SECONDS_EMBEDDED / 6)
    embedded.wait_for(lambda: datetime.now(UTC) > readable_at)
    with reader(embedded) as shop:
        client = Client(
            api_url=embedded_url(
                embedded.stack.outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url)
            ),
            session=shop.session,
        )
        pages = [*client.journal(readable_at - timedelta(hours=1))]
        rest = [*client.journal(readable_at - timedelta(hours=1), cursor=pages[-1].cursor)]
        with embedded.without_grants("ReadSettlements", "s3:GetObjectVersion"), pytest.raises(Unavailable):
            [*client.journal()]
        refused = get(embedded, shop.session, "/journal?cursor=x")

    told = {(one.key, one.step): one for page in pages for one in page.entries}
    assert {step for of, step in told if of == key} == {"hold", "release", "fee"}
    assert (told[key, "hold"].debit, told[key, "release"].credit) == (payer, payee)
    assert not {*told} & {(one.key, one.step) for page in rest for one in page.entries}
    assert (refused.status, refused.content["error"]) == (400, "InvalidRequest")


def test_a_reader_can_neither_pay_nor_bypass_the_api(embedded: Embedded) -> None:
    outputs = embedded.stack.outputs
    with reader(embedded) as shop, embedded.writes_nothing():
        posted = get(embedded, shop.session, "/settlements", "POST")
        ordered = shop.order("retry", unknown=1)
        ended = [
            outcome_of(
                shop.client("stepfunctions").start_execution,
                stateMachineArn=outputs["SettlementStandardArn"],
                input="{}",
            ),
            outcome_of(
                shop.client("lambda").invoke,
                FunctionName=embedded.functions["ReadSettlements"],
                Payload=b"{}",
            ),
            outcome_of(shop.client("dynamodb").scan, TableName=outputs["TableName"]),
        ]

    assert (posted.status in (403, 404), ordered.status) == (True, 403)
    assert {one.removesuffix("Exception") for one in ended} == {"AccessDenied"}


def test_a_viewer_reads_by_the_api_and_other_roles_cannot(embedded: Embedded) -> None:
    with of_kind(embedded, Kind.VIEWER) as vera:
        seen = get(embedded, vera.session, "/settlements?status=PROCESSING")
    with _role(embedded) as (_, arn):
        refused = get(embedded, _in_session(embedded, arn, "stranger").session, "/settlements?status=LIMBO")

    assert (seen.status, refused.status) == (200, 403)
