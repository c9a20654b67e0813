"""The parties' names go through both machines, and no command, outcome or log line shows them."""

import json
import unicodedata

import pytest

from tests.e2e.embedded import Embedded, new_account, new_key

NAMES = {"payer_name": "Wilhelmina Muster", "payee_name": "Bob & Söhne 名前"}
TELLTALES = ("Wilhelmina", "Söhne", "S\\u00f6hne")
FUNCTIONS = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")


def named_request(embedded: Embedded) -> dict[str, str]:
    return {
        "key": new_key("named"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
        **NAMES,
    }


@pytest.mark.parametrize("machine", ["express", "standard"])
def test_a_request_with_names_settles_and_no_answer_shows_them(embedded: Embedded, machine: str) -> None:
    request = named_request(embedded)

    told = [embedded.settle("start", "--machine", machine, "-", "--json", stdin=json.dumps(request))]
    told += [embedded.settle("status", request["key"], *more) for more in ([], ["--json"])]

    assert [finished.returncode for finished in told] == [0, 0, 0], told
    embedded.wait_for(lambda: any(request["key"] in line for line in embedded.logged("CollectFee")))
    row = embedded.settlement(request["key"])
    assert {name: row[name] for name in NAMES} == NAMES
    assert row["status"] == "SETTLED"
    printed = "".join(finished.stdout + finished.stderr for finished in told)
    logged = "".join(line for function in FUNCTIONS for line in embedded.logged(function))
    assert request["key"] in printed
    assert request["key"] in logged
    assert not [word for word in TELLTALES if word in printed + logged]


def test_the_same_key_with_another_name_is_a_conflict(embedded: Embedded) -> None:
    request = named_request(embedded)
    assert embedded.settle("start", "-", stdin=json.dumps(request)).returncode == 0

    other = embedded.settle("start", "-", stdin=json.dumps(request | {"payer_name": "Wilma Muster"}))

    assert other.returncode != 0
    assert "IdempotencyConflict" in other.stdout + other.stderr
    assert "Muster" not in other.stdout + other.stderr


def test_the_same_name_in_another_form_is_a_replay(embedded: Embedded) -> None:
    request = named_request(embedded)
    assert embedded.settle("start", "-", stdin=json.dumps(request)).returncode == 0

    decomposed = unicodedata.normalize("NFD", request["payee_name"]).replace(" ", "\u3000")
    again = embedded.settle("start", "-", "--json", stdin=json.dumps(request | {"payee_name": decomposed}))

    assert decomposed != request["payee_name"]
    assert again.returncode == 0, again
    assert json.loads(again.stdout)["replayed"] is True
    assert embedded.settlement(request["key"])["payee_name"] == request["payee_name"]
