import json

import pytest

from tests.e2e.embedded import Embedded, new_request
from tests.e2e.hearing import hearing

pytestmark = pytest.mark.long

OPTIONS = ("--reference", "invoice 名前/7", "--meta", "shop=web", "--meta", "cart=c-7")
LABELS = {"reference": "invoice 名前/7", "metadata": {"shop": "web", "cart": "c-7"}}


@pytest.mark.parametrize("machine", ["express", "standard"])
def test_a_requests_reference_is_returned_and_another_reference_conflicts(
    embedded: Embedded, machine: str
) -> None:
    request = new_request(embedded)
    start = ("start", "--machine", machine, "-", "--json")

    with hearing(embedded) as heard:
        first = embedded.settle(*start, *OPTIONS, stdin=json.dumps(request))
        heard.wait_for(request["key"])
        events = heard.of(request["key"])
    again = embedded.settle(*start, *OPTIONS, stdin=json.dumps(request))
    others = [
        embedded.settle(*start, *other, stdin=json.dumps(request))
        for other in ((), OPTIONS[:-2], (*OPTIONS[2:], "--reference", "invoice 8"))
    ]
    statement = embedded.settle("account", "show", request["payee"], "--json")

    outcomes = [json.loads(finished.stdout) for finished in (first, again)]
    for told in (*outcomes, *(event["data"] for event in events), embedded.settlement(request["key"])):
        assert {name: told[name] for name in LABELS} == LABELS
    assert [(told["status"], told["next"]["action"]) for told in outcomes] == [("SETTLED", "nothing")] * 2
    assert [finished.returncode for finished in others] == [6, 6, 6], others
    (line,) = [one for one in json.loads(statement.stdout)["entries"] if one["key"] == request["key"]]
    assert line["reference"] == LABELS["reference"]
