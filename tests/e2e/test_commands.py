import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.embedded import Embedded, new_account, new_request

pytestmark = pytest.mark.long


def lines(*requests: dict[str, Any]) -> str:
    return "\n".join(json.dumps(one) for one in requests)


def test_a_second_up_and_status_return_the_running_embedded_aws(embedded: Embedded) -> None:
    before = embedded.running()

    first, second = embedded.up(), embedded.up()

    assert first == second == embedded.told("local", "status")
    assert embedded.running() == before
    assert first["endpoint_url"] == f"http://127.0.0.1:{before.port}"
    assert first["region"] == "eu-west-1"
    assert {"TableName", "SettlementExpressArn", "SettlementStandardArn"} <= first["outputs"].keys()
    assert {"KycWebhookUrl", "KycCredentialsArn", "KycSigningArn"} <= first["outputs"].keys()
    assert first["kyc_url"] == f"http://127.0.0.1:{before.kyc_port}"


def test_up_on_another_port_is_a_conflict(embedded: Embedded) -> None:
    port = embedded.running().port

    code, line = embedded.refused("local", "up", "--port", str(port - 1))

    assert (code, f"is up on {port} already" in line) == (6, True), line


def test_a_statement_ends_at_the_balance_and_reopening_changes_nothing(
    embedded: Embedded,
) -> None:
    first = new_request(embedded)
    second = new_request(embedded, payer=first["payer"], payee=first["payee"], amount="1.00", fee="0")
    assert embedded.settle("start", "-", stdin=lines(first, second)).returncode == 0

    reopened = ("account", "open", first["payer"], "--currency", "EUR", "--deposit")
    assert embedded.told(*reopened, "100.0")["available"] == "50.80"
    code, line = embedded.refused(*reopened, "100.01")
    assert (code, first["payer"] in line) == (6, True), line
    shown = embedded.told("account", "show", first["payer"])

    assert (shown["available"], shown["currency"], shown["limbo_cases"]) == ("50.80", "EUR", 0)
    assert [(entry["step"], entry["change"], entry["sum"]) for entry in shown["entries"]] == [
        ("deposit", "100.00", "100.00"),
        ("hold", "-48.20", "51.80"),
        ("hold", "-1.00", "50.80"),
    ]
    assert [entry["key"] for entry in shown["entries"]][1:] == [first["key"], second["key"]]
    fees = embedded.told("account", "show", "fees:EUR")
    ours = [entry["change"] for entry in fees["entries"] if entry["key"] in (first["key"], second["key"])]
    assert ours == ["0.48", "0.00"]
    assert fees["available"] == fees["entries"][-1]["sum"]


@pytest.mark.parametrize("machine", ["express", "standard"])
def test_a_request_may_come_from_standard_input(embedded: Embedded, machine: str) -> None:
    request = new_request(embedded)

    started = embedded.told("start", "-", "--machine", machine, stdin=json.dumps(request, indent=2))

    assert started["status"] == "SETTLED"
    assert embedded.told("status", request["key"]).items() >= started.items()


def test_a_refused_request_stops_no_other_in_the_file(embedded: Embedded, tmp_path: Path) -> None:
    first, last = new_request(embedded), new_request(embedded)
    rejected, reused = new_request(embedded, amount="100.01"), first | {"amount": "84.20"}
    file = tmp_path / "requests.jsonl"
    file.write_text(lines(first, rejected, reused, last) + "\n\n")

    finished = embedded.settle("start", str(file), "--json")

    assert (finished.returncode, finished.stderr) == (6, "")
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [(one["key"], one.get("status") or one["error"]) for one in told] == [
        (first["key"], "SETTLED"),
        (rejected["key"], "REJECTED"),
        (first["key"], "IdempotencyConflict"),
        (last["key"], "SETTLED"),
    ]
    assert told[1]["failure"]["error"] == "InsufficientFunds"
    assert embedded.settle("status", rejected["key"]).returncode == 4


def test_a_file_with_a_non_json_line_starts_nothing(embedded: Embedded) -> None:
    first, last = new_request(embedded), new_request(embedded)

    code, _ = embedded.refused("start", "-", stdin=f"{lines(first)}\nnonsense\n{lines(last)}")

    assert code == 2


def test_the_books_balance_until_a_row_is_tampered_with(embedded: Embedded) -> None:
    account = new_account(embedded, "tampered", "25.00")

    def add(change: int) -> None:
        embedded.dynamodb.update_item(
            TableName=embedded.stack.outputs["TableName"],
            Key={"pk": {"S": f"ACCOUNT#{account}"}, "sk": {"S": "BALANCE"}},
            UpdateExpression="SET available = available + :change",
            ExpressionAttributeValues={":change": {"N": str(change)}},
        )

    add(1)
    try:
        bad, in_words = embedded.told("reconcile", code=1), embedded.settle("reconcile")
    finally:
        add(-1)
    good = embedded.told("reconcile")

    assert (good["conserved"], good["currencies"]["EUR"]["sum"]) == (True, "0.00")
    assert (bad["conserved"], bad["currencies"]["EUR"]["sum"]) == (False, "0.01")
    (fault,) = bad["faults"]
    assert fault.startswith(f"ACCOUNT#{account}: the row says 2501 EUR, its entries 2500")
    assert in_words.returncode == 1
    assert f"FAULT {fault}\n" in in_words.stdout
    assert "NOT CONSERVED" in in_words.stdout


def by_aws_variables(embedded: Embedded) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": str(embedded.stack.endpoint_url),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }


def test_a_deployed_stack_is_found_by_its_name(embedded: Embedded) -> None:
    request = new_request(embedded)
    assert embedded.settle("start", "-", stdin=json.dumps(request)).returncode == 0

    finished = embedded.settle(
        "status", request["key"], "--json", "--stack", "settlement-local", **by_aws_variables(embedded)
    )

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["status"] == "SETTLED"


@pytest.mark.parametrize("stack", ["no-such-stack", "CDKToolkit"])
def test_a_missing_or_unrelated_stack_is_reported_as_not_found(embedded: Embedded, stack: str) -> None:
    code, line = embedded.refused(
        "status", "order-2026-000101", "--stack", stack, **by_aws_variables(embedded)
    )

    assert (code, line.startswith("settle: "), stack in line) == (3, True, True), line


def test_each_call_of_a_function_writes_its_metrics(embedded: Embedded) -> None:
    """Alarms depend on them; AWS extracts them from the functions' logs."""

    def replays() -> int:
        return sum("_aws" in line and "IdempotencyReplay" in line for line in embedded.logged("HoldFunds"))

    request = new_request(embedded)
    before = replays()

    assert embedded.settle("start", "-", stdin=lines(request, request)).returncode == 0

    embedded.wait_for(lambda: replays() > before)
    assert replays() == before + 1
