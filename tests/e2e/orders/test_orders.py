import json
import re
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from settle.local import record
from tests.e2e.embedded import Embedded, new_key
from tests.e2e.people import person, routes
from tests.e2e.stuck import stuck

pytestmark = pytest.mark.long


def on_record(embedded: Embedded, key: str, step: str) -> dict[str, Any]:
    found = embedded.stack.store.evidence(key, step)
    assert found is not None
    return found


def test_an_order_is_recorded_under_the_session_that_signed_it(embedded: Embedded) -> None:
    one = stuck(embedded)
    with person(embedded, routes(embedded, "write-off"), "anna") as anna:
        answer = anna.order("write-off", key=one.key, case=1, decision="write-off", reason="agreed")

    assert (answer.status, answer.content["order"]["by"]) == (200, anna.arn)
    found = on_record(embedded, one.key, "resolve:1")
    assert anna.arn.endswith("/anna")
    assert (found["by"], found["reason"], found["source_ip"]) == (anna.arn, "agreed", "127.0.0.1")
    assert found["user_id"].endswith(":anna")
    assert found["request_id"] == answer.content["order"]["request_id"]
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    assert embedded.conserved()


def test_a_role_without_the_route_is_refused_and_writes_nothing(embedded: Embedded) -> None:
    one = stuck(embedded)
    order = {"key": one.key, "case": 1, "reason": "x"}

    with person(embedded, routes(embedded, "retry", "recover")) as junior, embedded.writes_nothing():
        refused = [
            junior.order(decision, **order, decision=decision) for decision in ("write-off", "complete")
        ]
        by_another_route = junior.order("retry", **order, decision="write-off")

    assert [answer.status for answer in refused] == [403, 403]
    assert by_another_route.status == 400
    assert by_another_route.content["message"] == "decision: must be retry, as the route says"


def test_a_by_field_in_the_body_is_refused_as_unknown(embedded: Embedded) -> None:
    one = stuck(embedded)
    order = {
        "key": one.key,
        "case": 1,
        "decision": "write-off",
        "reason": "x",
        "by": "arn:aws:iam::1:user/cfo",
    }

    with person(embedded, routes(embedded, "write-off")) as olga, embedded.writes_nothing():
        answer = olga.order("write-off", **order)

    assert (answer.status, answer.content["error"]) == (400, "InvalidRequest")
    assert answer.content["message"].startswith(
        "by: unknown field; the fields are key, case, decision, reason"
    )


@pytest.mark.parametrize("tampered", ["body", "path", "signature", "no signature"])
def test_a_tampered_request_is_refused_by_aws(embedded: Embedded, tampered: str) -> None:
    one = stuck(embedded)
    order = {"key": one.key, "case": 1, "decision": "retry", "reason": "x"}
    with person(embedded, routes(embedded, "retry", "write-off")) as olga, embedded.writes_nothing():
        url = f"{olga.door.url}/orders/retry"
        headers = {"content-type": "application/json"}
        request = AWSRequest("POST", url, data=json.dumps(order), headers=headers)
        SigV4Auth(olga.session.get_credentials(), "execute-api", record.REGION).add_auth(request)
        if tampered == "body":
            request.data = json.dumps(order | {"reason": "y"})
        elif tampered == "path":
            request.url = url.replace("retry", "write-off")
        elif tampered == "signature":
            signed = request.headers["Authorization"]
            del request.headers["Authorization"]
            request.headers["Authorization"] = re.sub(
                r".$", lambda last: "0" if last[0] != "0" else "1", signed
            )
        else:
            del request.headers["Authorization"]
        answer = URLLib3Session().send(request.prepare())

    assert answer.status_code == 403


def test_starting_the_machine_with_a_forged_decision_resolves_nothing(embedded: Embedded) -> None:
    one = stuck(embedded)
    row = embedded.settlement(one.key)
    wire = {name: row[name] for name in ("payer", "payee", "currency")}
    wire |= {"key": one.key, "amount": "48.20", "fee": "0.48"}
    forged = {"decision": "write-off", "reason": "x", "by": "arn:aws:iam::1:user/cfo", "case": 1}

    arn = embedded.run("CompensationArn", {"settlement": wire, "resolution": forged})

    ended = embedded.ended(arn)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidRequest")
    assert one.row()["status"] == "LIMBO"


def test_recovery_completes_an_order_whose_function_died_before_the_wake(
    embedded: Embedded,
) -> None:
    """Without the permission to wake an execution, the function ends after the order's commit."""
    one = stuck(embedded)
    waiting = embedded.waiting(one.key)
    with (
        embedded.without_grants("TakeOrder", "states:DescribeExecution"),
        person(embedded, routes(embedded, "write-off")) as olga,
    ):
        answer = olga.order("write-off", key=one.key, case=1, decision="write-off", reason="agreed")
    assert (answer.status, answer.content["error"]) == (503, "StartUnavailable")
    assert (one.row()["status"], one.row()["resolutions"]) == ("COMPENSATING", 1)
    assert on_record(embedded, one.key, "resolve:1")["by"] == olga.arn

    taken = embedded.recover(one.key)

    assert taken["action"] == "compensate"
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    started = waiting.rpartition(":")[0] + ":" + taken["execution"]
    assert embedded.ended(started)["status"] == "SUCCEEDED"
    assert embedded.has_entered(started, "AnnounceResolution")
    embedded.stop(waiting)
    assert embedded.conserved()


def test_a_proposal_needs_another_persons_approval_whatever_the_role(embedded: Embedded) -> None:
    """Sessions of one name are one person, even with different roles."""
    one = stuck(embedded)
    order = {"key": one.key, "case": 1, "decision": "write-off", "reason": "agreed"}
    proposes, approves = (routes(embedded, f"write-off/{move}") for move in ("propose", "approve"))
    with (
        person(embedded, [*proposes, *approves], "anna") as anna,
        person(embedded, approves, "anna") as other_role,
        person(embedded, approves, "ben") as ben,
    ):
        told = anna.order("write-off/propose", **order)
        assert told.status == 200, told.content
        shown = told.content["proposal"]
        approval = {"key": one.key} | {name: shown[name] for name in ("decision", "case", "amount", "digest")}
        with embedded.writes_nothing():
            alone = [who.order("write-off/approve", **approval) for who in (anna, other_role)]
            stale = ben.order("write-off/approve", **approval | {"digest": "0" * 64})
            without_route = [ben.order(route, **order) for route in ("write-off", "write-off/propose")]
        approved = ben.order("write-off/approve", **approval)

    assert [answer.content["error"] for answer in (*alone, stale)] == ["ProposalRefused"] * 3
    assert [answer.status for answer in (*alone, stale, *without_route)] == [409, 409, 409, 403, 403]
    assert approved.status == 200, approved.content
    found = on_record(embedded, one.key, "resolve:1")
    assert (found["by"], found["approved_by"]) == (anna.arn, ben.arn)
    listed = embedded.settle("audit", "--since", "1h", "--by", "/anna", "--json")
    orders = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(of["order"], of["approved_by"], of["amount"]) for of in orders if of["key"] == one.key] == [
        ("write-off/propose", "", ""),
        ("write-off", ben.arn, "47.72"),
    ]
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    assert embedded.conserved()


def test_an_account_order_given_twice_takes_effect_once(embedded: Embedded) -> None:
    account, key = new_key("greta"), new_key("deposit")
    common = {"account": account, "currency": "EUR", "reason": "a new customer"}
    deposit = {"order": "deposit", "key": key, "amount": "25.00", "reference": "bank-1"}

    with person(embedded, routes(embedded, "open", "deposit")) as olga:
        opened = olga.order("open", **common, order="open", key=new_key("open"))
        first, again = (olga.order("deposit", **common, **deposit) for _ in range(2))
        conflict = olga.order("deposit", **common, **deposit | {"amount": "26.00"})
        beyond = olga.order("withdraw", **common, **deposit | {"order": "withdraw"})

    assert (opened.status, first.status) == (200, 200)
    assert again.content == first.content
    assert (first.content["order"]["by"], first.content["account"]["available"]) == (olga.arn, "25.00")
    assert (conflict.status, conflict.content["error"]) == (409, "IdempotencyConflict")
    assert beyond.status == 403
    assert embedded.available(account) == "25.00"
