import json

import pytest

from tests.e2e.embedded import Embedded, new_request

pytestmark = pytest.mark.long

NAMES = {"payer_name": "Wilhelmina Muster", "payee_name": "Bob & Söhne 名前"}
TELLTALES = ("Wilhelmina", "Muster", "Söhne", "S\\u00f6hne")
FUNCTIONS = ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")


@pytest.mark.parametrize("machine", ["express", "standard"])
def test_party_names_appear_in_no_answer_or_log(embedded: Embedded, machine: str) -> None:
    request = new_request(embedded, **NAMES)
    start = ("start", "--machine", machine, "-")

    told = [embedded.settle(*start, "--json", stdin=json.dumps(request))]
    told += [embedded.settle("status", request["key"], *more) for more in ([], ["--json"])]
    told += [embedded.settle(*start, stdin=json.dumps(request | {"payer_name": "Wilma Muster"}))]

    assert [finished.returncode for finished in told] == [0, 0, 0, 6], told
    assert "IdempotencyConflict" in told[-1].stderr
    embedded.wait_for(lambda: any(request["key"] in line for line in embedded.logged("CollectFee")))
    row = embedded.settlement(request["key"])
    assert {name: row[name] for name in NAMES} == NAMES
    assert row["status"] == "SETTLED"
    printed = "".join(finished.stdout + finished.stderr for finished in told)
    logged = "".join(line for function in FUNCTIONS for line in embedded.logged(function))
    assert request["key"] in printed
    assert request["key"] in logged
    assert not [word for word in TELLTALES if word in printed + logged]
