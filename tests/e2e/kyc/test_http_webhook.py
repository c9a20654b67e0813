import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
import urllib3

from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, embedded_aws
from tests.e2e.provider import call, decision, in_review, send

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A separate embedded AWS, with the context in a person's `~/.cdk.json`."""
    home = tmp_path_factory.mktemp("home")
    (home / ".cdk.json").write_text(json.dumps({"context": {"webhook": "http-api"}}))
    with embedded_aws() as embedded:
        up = embedded.settle("local", "up", HOME=str(home))
        assert up.returncode == 0, up.stderr
        embedded.schedule(enabled=False)
        yield embedded


def test_a_stage_with_an_http_webhook_has_no_function_url(embedded: Embedded) -> None:
    functions = embedded.stack.client("lambda")

    assert "execute-api" in embedded.stack.outputs["KycWebhookUrl"]
    with pytest.raises(functions.exceptions.ResourceNotFoundException):
        functions.get_function_url_config(FunctionName=embedded.functions["KycDecided"])


@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
def test_a_signed_call_in_text_or_base64_ends_a_review(embedded: Embedded, content_type: str) -> None:
    """An HTTP API encodes a body of unknown type in base64; the signature covers the bytes."""
    one = in_review(embedded)
    sent = call(embedded, decision(one))

    status, answer = send(embedded, sent, sent.headers() | {"content-type": content_type})

    assert (status, answer["decision"]) == (200, "APPROVED")
    assert one.over()["status"] == "SETTLED"
    assert one.balances() == ("51.80", "47.72")
    assert embedded.conserved()


def test_the_names_of_headers_may_be_in_any_case(embedded: Embedded) -> None:
    one = in_review(embedded)
    sent = call(embedded, decision(one, "REJECTED"))

    assert send(embedded, sent, {name.upper(): value for name, value in sent.headers().items()})[0] == 200
    assert one.over()["status"] == "COMPENSATED"


def test_unsigned_old_and_oversized_calls_are_refused_and_write_nothing(embedded: Embedded) -> None:
    good = call(embedded, decision(in_review(embedded)))
    bad = {
        "unsigned": (good, {"content-type": "application/json"}),
        "by another secret": (replace(good, secret=base64.b64encode(b"x" * 32).decode()), None),
        "old": (replace(good, age=timedelta(minutes=6)), None),
        "large": (replace(good, body=b"x" * 16_385, signed=""), None),
    }

    with embedded.writes_nothing():
        answers = {name: send(embedded, sent, headers) for name, (sent, headers) in bad.items()}

    assert {name: (status, answer["error"]) for name, (status, answer) in answers.items()} == {
        "unsigned": (401, "SignatureRefused"),
        "by another secret": (401, "SignatureRefused"),
        "old": (401, "SignatureRefused"),
        "large": (400, "InvalidRequest"),
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_only_a_post_to_the_webhook_path_reaches_the_function(embedded: Embedded, method: str) -> None:
    url = embedded.running().webhook_url

    answers = [
        urllib3.request(method, url, timeout=COMMAND_SECONDS_MAX, retries=False),
        urllib3.request("POST", f"{url}more", body=b"{}", timeout=COMMAND_SECONDS_MAX, retries=False),
    ]

    assert [answer.status for answer in answers] == [404, 404]
    assert all(b"webhook" not in answer.data for answer in answers)
