import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, new_account, new_key

LOG_SECONDS_MAX = 10


def request(embedded: Embedded, **change: str) -> dict[str, str]:
    """A request that settles, unless the change spoils it."""
    return {
        "key": new_key("commands"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
    } | change


def lines(*requests: dict[str, str]) -> str:
    return "\n".join(json.dumps(one) for one in requests)


def test_up_again_finds_the_one_that_is_up(embedded: Embedded) -> None:
    before = embedded.running()

    first, second = embedded.up(), embedded.up()

    assert first == second
    assert embedded.running() == before
    assert first["endpoint_url"] == f"http://127.0.0.1:{before.port}"
    assert first["region"] == "eu-west-1"
    assert {"TableName", "SettlementExpressArn", "SettlementStandardArn"} <= first["outputs"].keys()
    assert {"KycWebhookUrl", "KycCredentialsArn", "KycSigningArn"} <= first["outputs"].keys()
    assert first["kyc_url"] == f"http://127.0.0.1:{before.kyc_port}"


def test_up_on_another_port_is_a_conflict(embedded: Embedded) -> None:
    other = embedded.running().port - 1

    finished = embedded.settle("local", "up", "--port", str(other))

    assert (finished.returncode, finished.stdout) == (6, "")
    assert f"is up on {embedded.running().port} already" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_local_status_tells_what_up_told(embedded: Embedded) -> None:
    finished = embedded.settle("local", "status", "--json")

    assert finished.returncode == 0
    assert json.loads(finished.stdout) == embedded.up()


def test_an_account_may_be_opened_again(embedded: Embedded) -> None:
    account = new_account(embedded, "again", "25.00")
    before = embedded.rows()

    finished = embedded.settle("account", "open", account, "--currency", "EUR", "--deposit", "25.0", "--json")

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["available"] == "25.00"
    assert embedded.rows() == before


@pytest.mark.parametrize(
    ("first", "currency", "deposit"),
    [
        ("25.00", "EUR", "25.01"),
        ("25.00", "EUR", "0"),
        ("25.00", "USD", "25.00"),
        ("0", "EUR", "25.00"),
        ("0", "USD", "0"),
    ],
)
def test_an_account_is_not_opened_again_as_another(
    embedded: Embedded, first: str, currency: str, deposit: str
) -> None:
    account = new_account(embedded, "again", first)
    before = embedded.rows()

    finished = embedded.settle("account", "open", account, "--currency", currency, "--deposit", deposit)

    assert (finished.returncode, finished.stdout) == (6, "")
    assert len(finished.stderr.splitlines()) == 1
    assert account in finished.stderr
    assert embedded.rows() == before


def test_a_statement_runs_up_to_the_available_balance(embedded: Embedded) -> None:
    first = request(embedded)
    second = request(embedded, payer=first["payer"], payee=first["payee"], amount="1.00", fee="0")
    assert embedded.settle("start", "-", stdin=lines(first, second)).returncode == 0

    finished = embedded.settle("account", "show", first["payer"], "--json")

    assert finished.returncode == 0
    shown: dict[str, Any] = json.loads(finished.stdout)
    assert (shown["available"], shown["currency"], shown["limbo_keys"]) == ("50.80", "EUR", [])
    assert [(entry["step"], entry["change"], entry["balance"]) for entry in shown["entries"]] == [
        ("deposit", "100.00", "100.00"),
        ("hold", "-48.20", "51.80"),
        ("hold", "-1.00", "50.80"),
    ]
    assert [entry["key"] for entry in shown["entries"]][1:] == [first["key"], second["key"]]


def test_the_fees_have_a_statement_too(embedded: Embedded) -> None:
    settled = request(embedded)
    assert embedded.settle("start", "-", stdin=json.dumps(settled)).returncode == 0

    shown = json.loads(embedded.settle("account", "show", "fees:EUR", "--json").stdout)

    ours = [entry for entry in shown["entries"] if entry["key"] == settled["key"]]
    assert [(entry["step"], entry["change"]) for entry in ours] == [("fee", "0.48")]
    assert shown["available"] == shown["entries"][-1]["balance"]
    assert [entry["posted_at"] for entry in shown["entries"]] == sorted(
        entry["posted_at"] for entry in shown["entries"]
    )


@pytest.mark.parametrize("account", ["no-such-account", "fees:KRW"])
def test_an_account_that_there_is_not_is_not_found(embedded: Embedded, account: str) -> None:
    finished = embedded.settle("account", "show", account)

    assert (finished.returncode, finished.stdout) == (3, "")
    assert f"there is no {account}" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def test_an_unclaimed_key_is_not_found(embedded: Embedded) -> None:
    finished = embedded.settle("status", "never-claimed-000001")

    assert (finished.returncode, finished.stdout) == (3, "")
    assert finished.stderr == "settle: key: no request has claimed never-claimed-000001 in settlement-local\n"


@pytest.mark.parametrize("machine", ["express", "standard"])
def test_a_request_may_come_from_standard_input(embedded: Embedded, machine: str) -> None:
    wanted = request(embedded)

    finished = embedded.settle(
        "start", "-", "--machine", machine, "--json", stdin=json.dumps(wanted, indent=2)
    )

    assert (finished.returncode, finished.stderr) == (0, "")
    started = json.loads(finished.stdout)
    status = embedded.settle("status", wanted["key"], "--json")
    assert status.returncode == 0
    assert json.loads(status.stdout).items() >= started.items()
    assert started["status"] == "SETTLED"


def test_a_rejected_line_does_not_keep_the_others_from_settling(embedded: Embedded, tmp_path: Path) -> None:
    first, last = request(embedded), request(embedded)
    rejected = request(embedded, amount="100.01")
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(first, rejected, last) + "\n\n")

    finished = embedded.settle("start", str(file), "--json")

    assert (finished.returncode, finished.stderr) == (4, "")
    outcomes = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [(outcome["key"], outcome["status"]) for outcome in outcomes] == [
        (first["key"], "SETTLED"),
        (rejected["key"], "REJECTED"),
        (last["key"], "SETTLED"),
    ]
    assert outcomes[1]["failure"]["error"] == "InsufficientFunds"
    assert embedded.settle("status", rejected["key"]).returncode == 4


def test_a_reused_key_is_a_conflict(embedded: Embedded) -> None:
    first = request(embedded)

    finished = embedded.settle("start", "-", stdin=lines(first, first, first | {"amount": "84.20"}))

    assert finished.returncode == 6
    key = first["key"]
    assert finished.stderr == (
        f"{key}: IdempotencyConflict: key: {key} was claimed by a request with other content\n"
    )


def test_a_line_that_is_no_json_does_not_keep_the_others_from_settling(embedded: Embedded) -> None:
    first, last = request(embedded), request(embedded)

    finished = embedded.settle("start", "-", "--json", stdin=f"{lines(first)}\nnonsense\n{lines(last)}")

    assert finished.returncode == 2
    settled = [embedded.settle("status", one["key"]).returncode for one in (first, last)]
    assert settled in ([0, 0], [3, 3]), "some of a file's requests were settled and others silently left out"


def test_the_books_balance_until_a_row_is_tampered_with(embedded: Embedded) -> None:
    account = new_account(embedded, "tampered", "25.00")

    def add(change: int) -> None:
        embedded.dynamodb.update_item(
            TableName=embedded.stack.outputs["TableName"],
            Key={"pk": {"S": f"ACCOUNT#{account}"}, "sk": {"S": "BALANCE"}},
            UpdateExpression="SET available = available + :change",
            ExpressionAttributeValues={":change": {"N": str(change)}},
        )

    good = embedded.settle("reconcile", "--json")
    add(1)
    try:
        bad, in_words = embedded.settle("reconcile", "--json"), embedded.settle("reconcile")
    finally:
        add(-1)
    good_again = embedded.settle("reconcile")

    assert (good.returncode, good.stderr) == (0, "")
    findings = json.loads(good.stdout)
    assert findings["conserved"] is True
    assert {currency: kinds["sum"] for currency, kinds in findings["currencies"].items()}["EUR"] == "0.00"
    assert bad.returncode == in_words.returncode == 1
    assert json.loads(bad.stdout)["conserved"] is False
    assert json.loads(bad.stdout)["currencies"]["EUR"]["sum"] == "0.01"
    (fault,) = json.loads(bad.stdout)["faults"]
    assert fault.startswith(f"ACCOUNT#{account}: the row says 2501 EUR, its entries 2500")
    assert f"FAULT {fault}\n" in in_words.stdout
    assert "NOT CONSERVED" in in_words.stdout
    assert good_again.returncode == 0
    assert good_again.stdout.splitlines()[-1].startswith("conserved: ")


def test_a_deployed_stack_is_found_by_its_name(embedded: Embedded) -> None:
    settled = request(embedded)
    assert embedded.settle("start", "-", stdin=json.dumps(settled)).returncode == 0

    finished = embedded.settle(
        "status", settled["key"], "--json", "--stack", "settlement-local", **by_aws_variables(embedded)
    )

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["status"] == "SETTLED"


@pytest.mark.parametrize("stack", ["no-such-stack", "CDKToolkit"])
def test_a_stack_that_is_none_of_ours_is_not_found(embedded: Embedded, stack: str) -> None:
    finished = embedded.settle("status", "order-2026-000101", "--stack", stack, **by_aws_variables(embedded))

    assert (finished.returncode, finished.stdout) == (3, "")
    assert finished.stderr.startswith("settle: ")
    assert stack in finished.stderr
    assert len(finished.stderr.splitlines()) == 1


def by_aws_variables(embedded: Embedded) -> dict[str, str]:
    """The usual variables of a person who works with AWS."""
    assert embedded.stack.endpoint_url
    return {
        "AWS_ENDPOINT_URL": embedded.stack.endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }


def test_each_call_of_a_function_writes_its_metrics(embedded: Embedded) -> None:
    """Alarms stand on them; on AWS they are taken out of the functions' logs."""
    settled = request(embedded)
    before = replays_counted(embedded)

    assert embedded.settle("start", "-", stdin=lines(settled, settled)).returncode == 0

    give_up_at = time.monotonic() + LOG_SECONDS_MAX
    while replays_counted(embedded) == before and time.monotonic() < give_up_at:
        time.sleep(0.2)
    assert replays_counted(embedded) == before + 1


def replays_counted(embedded: Embedded) -> int:
    """How many log lines of ClaimKey are metrics of a replay."""
    return sum("_aws" in line and "IdempotencyReplay" in line for line in embedded.logged("ClaimKey"))
