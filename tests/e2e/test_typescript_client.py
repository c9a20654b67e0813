import json
import shutil
from pathlib import Path

import pytest

from settle.door import embedded_url
from settle.local import record
from tests.e2e.embedded import Embedded, new_request, paid_once
from tests.e2e.test_starters import starter
from tests.world.contracts import checked_outcome
from tests.world.typescript import build, node

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).with_name("typescript_client.mjs")


def test_the_typescript_client_pays_once_and_is_refused_a_conflict(
    embedded: Embedded, tmp_path: Path
) -> None:
    request = new_request(embedded)
    url = embedded_url(embedded.stack.outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url))
    build(tmp_path)
    script = shutil.copy(SCRIPT, tmp_path)

    with starter(embedded, "ReaderPolicyArn") as shop:
        variables = shop.environment | {"AWS_REGION": record.REGION}
        ran = node(script, url, json.dumps(request), cwd=tmp_path, **variables)

    assert (ran.returncode, ran.stderr) == (0, "")
    answers = json.loads(ran.stdout)
    assert answers["accepted"] is None
    assert checked_outcome(answers["waited"]["outcome"])["status"] == "SETTLED"
    assert answers["repeated"]["sequence"] == answers["read"]["sequence"] == answers["waited"]["sequence"]
    assert answers["repeated"]["outcome"] == answers["read"]["outcome"] == answers["waited"]["outcome"]
    assert [answers[name] for name in ("conflict", "refused", "cancelled", "unknown")] == [
        "IdempotencyConflict",
        "InvalidRequest",
        "NotCancellable",
        "NotFound",
    ]
    assert paid_once(embedded, request)
