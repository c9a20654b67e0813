import json
import os
import re
import subprocess
from typing import Any

import pytest

from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, new_request, paid_once
from tests.e2e.people import Person
from tests.e2e.provider import in_review
from tests.e2e.test_starters import starter
from tests.world.contracts import checked_outcome
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

PAGE = (PROJECT / "docs/calling/http.md").read_text()
READ, START, CANCEL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)


def run(embedded: Embedded, who: Person, shown: str, request: dict[str, Any]) -> Any:
    """Run a command of the page with another request; return its answer.

    Uses the output's address, because curl resolves `localhost` names locally, and cannot sign the `$` in the
    embedded AWS's other address.
    """
    url = embedded.stack.outputs["SettlementsApiUrl"]
    named = re.sub(r"-d '.*?'", lambda found: f"-d '{json.dumps(request)}'", shown)
    finished = subprocess.run(
        ["bash", "-ec", named.replace("order-2026-000101", request["key"])],
        env=who.environment | {"PATH": os.environ["PATH"], "SETTLEMENTS_API_URL": url, "KEY": request["key"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=COMMAND_SECONDS_MAX,
    )
    return json.loads(finished.stdout)


def test_the_pages_examples_start_and_read_a_payment(embedded: Embedded) -> None:
    request = new_request(embedded)
    with starter(embedded, "ReaderPolicyArn") as shop:
        started = run(embedded, shop, START, request)
        read = run(embedded, shop, READ, request)

    assert checked_outcome(started)["status"] == "SETTLED"
    assert checked_outcome(read) == started | {"replayed": True}
    assert paid_once(embedded, request)


def test_the_pages_example_cancels_a_payment_in_review(embedded: Embedded) -> None:
    one = in_review(embedded)
    with starter(embedded) as shop:
        cancelled = run(embedded, shop, CANCEL, one.request)

    assert checked_outcome(cancelled)["failure"]["error"] == "Cancelled"
