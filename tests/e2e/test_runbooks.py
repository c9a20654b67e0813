import os
import re
import secrets
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from settle.local.demo.stuck_reversal import pager
from settlement.core.ledger import keys
from settlement.proof import table_scan
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, new_request
from tests.e2e.people import Person, person, routes
from tests.e2e.provider import (
    CREDENTIALS,
    SIGNING,
    call,
    control,
    decision,
    in_review,
    new_signing_secret,
    payment,
    secret,
    send,
)
from tests.e2e.stuck import Stuck, insolvent, stuck
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

RUNBOOKS = PROJECT / "docs" / "runbooks"


def blocks(runbook: str, *headings: str) -> list[tuple[str, str]]:
    """Return the fenced (language, text) blocks under nested headings."""
    text = (RUNBOOKS / f"{runbook}.md").read_text()
    for level, heading in enumerate(headings, 2):
        text = text.split(f"\n{'#' * level} {heading}\n")[1]
        text = re.split(rf"\n#{{1,{level}}} ", text)[0]
    found = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    assert found, f"{runbook}: nothing to run under {headings}"
    return found


_AS_ANOTHER = """
import boto3
from settle import cli, stack

stack._local_session = boto3.Session
cli.main()
"""


_SHOWN = ("SEEN", "DIGEST", "AMOUNT")


class Shell:
    """A shell with the runbooks' variables; a printed amount or digest goes into the next command."""

    def __init__(self, embedded: Embedded, key: str = "", **environment: str) -> None:
        self.embedded = embedded
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        outputs = embedded.stack.outputs
        self.environment = embedded.environment | {
            "KEY": key,
            "STACK": "",
            "PATH": path,
            "AWS_ENDPOINT_URL": str(embedded.stack.endpoint_url),
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "eu-west-1",
            "TABLE_NAME": outputs["TableName"],
            "ORDERS_URL": embedded.stack.door.url,
            "CASE": "1",
            "EVENT_BUS_NAME": outputs["EventBusName"],
            "PAGER_TOPIC_ARN": outputs["PagerTopicArn"],
            "KYC_CREDENTIALS_ARN": outputs[CREDENTIALS],
            "KYC_SIGNING_ARN": outputs[SIGNING],
            **environment,
        }

    def run(self, runbook: str, *headings: str) -> list[tuple[int, str]]:
        results = []
        for language, text in blocks(runbook, *headings):
            if language == "python":
                results.append(self._run([sys.executable, "-c", text]))
            else:
                assert language == "sh"
                results += [self._run(["bash", "-c", line]) for line in text.strip().splitlines()]
        return results

    def _run(self, command: list[str]) -> tuple[int, str]:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert "Traceback" not in finished.stderr, finished.stderr
        told = finished.stdout + finished.stderr
        for option, shown in re.findall(r"--(seen|digest|amount) ([0-9a-f.-]+)", told):
            self.environment[option.upper()] = shown
        return finished.returncode, told

    def signed_by(self, one: Person, scripts: Path) -> "Shell":
        """Return another person's shell.

        A script with that person's credentials replaces `settle`.
        """
        script = scripts / "settle"
        script.write_text(f"#!{sys.executable}\n{_AS_ANOTHER}")
        script.chmod(0o755)
        found = one.session.get_credentials()
        environment = {
            **{
                name: value
                for name, value in self.environment.items()
                if name not in ("SEEN", "DIGEST", "AMOUNT")
            },
            "PATH": f"{scripts}{os.pathsep}{self.environment['PATH']}",
            "AWS_ACCESS_KEY_ID": found.access_key,
            "AWS_SECRET_ACCESS_KEY": found.secret_key,
            "AWS_SESSION_TOKEN": found.token,
        }
        return Shell(self.embedded, **environment)


def test_every_command_of_the_runbooks_is_run_by_a_test() -> None:
    """A new heading with commands needs a test."""
    holding = set()
    for path in RUNBOOKS.glob("*.md"):
        for section in re.split(r"\n(?=##+ )", path.read_text())[1:]:
            if "```" in section:
                holding.add((path.stem, section.splitlines()[0].lstrip("# ")))

    sections = {
        "limbo": [
            *("Look", "retry", "write-off", "complete", "Propose it", "Approve it", "Without the CLI"),
            *("Decide all of them", "Propose all of them", "Approve all of them", "Verify"),
        ],
        "settlement-stalled": ["Look", "Act", "Verify"],
        "compensation-stalled": ["Look", "Act", "Verify"],
        "kyc-outage": ["Look", "The API key", "The signing secret", "Verify"],
        "dead-pager": ["Look", "Act", "Verify"],
    }
    assert holding == {(runbook, heading) for runbook, headings in sections.items() for heading in headings}


@pytest.mark.parametrize(
    ("decision", "status", "code", "balances", "losses"),
    [
        ("retry", "COMPENSATED", 4, ("100.00", "0.59"), 0),
        ("write-off", "COMPENSATED", 4, ("100.00", "7.72"), 4772),
        ("complete", "SETTLED", 0, ("51.80", "7.72"), 0),
    ],
)
def test_a_case_of_limbo_is_resolved_by_following_its_runbook(
    embedded: Embedded, decision: str, status: str, code: int, balances: tuple[str, str], losses: int
) -> None:
    one = stuck(embedded)
    before = table_scan.check(embedded.stack.store).totals["EUR"]["losses"]
    shell = Shell(embedded, one.key)

    (shown, what), (stands, _) = shell.run("limbo", "Look")
    assert (shown, stands) == (0, 5)
    assert one.payee in what
    assert "47.72" in what
    assert "InsufficientFunds" in what
    if decision == "retry":
        one.pay_back()
    ((done, told),) = shell.run("limbo", "Act", decision)
    assert (done, status in told) == (0, True), told
    verify(shell, one, "limbo", status, code)

    assert one.balances() == balances
    assert before - table_scan.check(embedded.stack.store).totals["EUR"]["losses"] == losses


def verify(shell: Shell, one: Stuck, runbook: str, status: str, code: int) -> None:
    """Check the promises of the runbook's last section, including the proof of the sums."""
    (stands, text), *lists, (proven, sums) = shell.run(runbook, "Verify")
    assert (stands, status in text) == (code, True), text
    for listed, open_cases in lists:
        assert (listed, one.key in open_cases) == (0, False)
    assert (proven, "\nconserved: " in sums) == (0, True), sums  # a slow one tells its progress below


def test_a_case_of_limbo_is_resolved_by_plain_aws_calls(embedded: Embedded) -> None:
    one = stuck(embedded)
    shell = Shell(embedded, one.key)

    ((code, _),) = shell.run("limbo", "Act", "Without the CLI")

    assert code == 0
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    entry = embedded.stack.store.read(keys.evidence(one.key, "resolve:1"))
    assert entry is not None
    assert (entry["decision"], entry["by"]) == ("write-off", "arn:aws:iam::000000000000:root")
    verify(shell, one, "limbo", "COMPENSATED", 4)


def test_two_persons_resolve_a_case_by_following_its_runbook(embedded: Embedded, tmp_path: Path) -> None:
    one = stuck(embedded)
    shell = Shell(embedded, one.key)

    ((proposed, _),) = shell.run("limbo", "Act", "Propose it")
    with person(embedded, approver(embedded), "ben") as ben:
        (looked, shown), (approved, told) = shell.signed_by(ben, tmp_path).run("limbo", "Act", "Approve it")

    assert (proposed, looked, approved) == (0, 0, 0), told
    assert "the payee is insolvent" in shown
    entry = embedded.stack.store.read(keys.evidence(one.key, "resolve:1"))
    assert entry is not None
    assert (entry["by"], entry["approved_by"]) == ("arn:aws:iam::000000000000:root", ben.arn)
    verify(shell, one, "limbo", "COMPENSATED", 4)


def test_many_cases_of_one_account_are_decided_by_the_runbook(embedded: Embedded) -> None:
    first, *others = insolvent(embedded, 3)
    shell = Shell(embedded, first.key, ACCOUNT=first.payee)

    (listed, cases), (shown, _), (done, told) = shell.run(
        "limbo", "Many cases of one account", "Decide all of them"
    )

    assert (listed, shown, done) == (0, 0, 0), told
    for one in (first, *others):
        assert one.key in cases
        assert re.search(rf"{one.key} .*COMPENSATED", told)
    assert embedded.told("account", "show", first.payee)["limbo_cases"] == 0
    verify(shell, first, "limbo", "COMPENSATED", 4)


def test_two_persons_decide_an_accounts_cases_with_two_commands_each(
    embedded: Embedded, tmp_path: Path
) -> None:
    cases = insolvent(embedded, 3)
    shell = Shell(embedded, cases[0].key, ACCOUNT=cases[0].payee)
    many = "Many cases of one account"

    proposed = shell.run("limbo", many, "Propose all of them")
    with person(embedded, approver(embedded), "ben") as ben:
        approved = shell.signed_by(ben, tmp_path).run("limbo", many, "Approve all of them")

    assert [code for code, _ in (*proposed, *approved)] == [0] * 4, approved
    for one in cases:
        entry = embedded.stack.store.read(keys.evidence(one.key, "resolve:1"))
        assert entry is not None
        assert (entry["approved_by"], one.row()["status"]) == (ben.arn, "COMPENSATED")
    verify(shell, cases[0], "limbo", "COMPENSATED", 4)


def approver(embedded: Embedded) -> list[dict[str, Any]]:
    reads = {"Effect": "Allow", "Action": ["dynamodb:*Get*", "dynamodb:Query"], "Resource": "*"}
    return [*routes(embedded, "write-off/approve"), reads]


def test_a_stalled_settlement_is_reversed_by_following_its_runbook(embedded: Embedded) -> None:
    request = new_request(embedded)
    one = Stuck(embedded, request["key"], request["payer"], request["payee"], shop="")
    assert "errorType" not in embedded.invoke("HoldFunds", request)  # and no execution runs it any further
    shell = Shell(embedded, one.key)

    ((code, text),) = shell.run("settlement-stalled", "Look")
    assert (code, "PROCESSING" in text, "48.20" in text) == (7, True, True)
    ((done, told),) = shell.run("settlement-stalled", "Act")
    assert (done, "COMPENSATED" in told) == (0, True), told

    verify(shell, one, "settlement-stalled", "COMPENSATED", 4)
    assert one.balances() == ("100.00", "0.00")


def test_a_dead_compensation_continues_by_following_its_runbook(embedded: Embedded) -> None:
    one = stuck(embedded)
    embedded.stop(embedded.waiting(one.key))
    shell = Shell(embedded, one.key)

    (code, _), (listed, open_cases) = shell.run("compensation-stalled", "Look")
    assert (code, listed, one.key in open_cases) == (5, 0, True)
    ((act, told),) = shell.run("compensation-stalled", "Act")
    assert (act, "LIMBO" in told) == (5, True), "in LIMBO, its own runbook goes on"
    ((done, _),) = shell.run("limbo", "Act", "write-off")
    assert done == 0

    verify(shell, one, "compensation-stalled", "COMPENSATED", 4)


def test_a_dead_pager_is_found_by_its_runbook(embedded: Embedded) -> None:
    shell = Shell(embedded)

    ((code, _),) = shell.run("dead-pager", "Look")
    with pager(embedded.stack) as receive:
        ((sent, text),) = shell.run("dead-pager", "Act")
        receive("test of the pager")
    ((listed, _),) = shell.run("dead-pager", "Verify")

    assert (code, sent, listed) == (0, 0, 0)
    assert "taken by the bus: True" in text
    assert "pager-" in text


def test_the_providers_secrets_are_set_by_following_the_runbook(
    embedded: Embedded, secrets_restored: None
) -> None:
    one, old = in_review(embedded), secret(embedded, SIGNING)["current"]
    api_key, new = secrets.token_hex(16), new_signing_secret()
    shell = Shell(embedded, one.key, KYC_API_KEY=api_key, KYC_SIGNING_SECRET=f"whsec_{new}")

    ((looked, stands),) = shell.run("kyc-outage", "Look")
    ((key_put, _),) = shell.run("kyc-outage", "Act", "The API key")
    ((secret_put, _),) = shell.run("kyc-outage", "Act", "The signing secret")

    assert (looked, key_put, secret_put) == (0, 0, 0)
    assert "OPEN" not in stands
    control(embedded, api_keys=[api_key])
    assert payment(embedded).start()["status"] == "SETTLED"
    renewed = secret(embedded, SIGNING)
    end = datetime.fromisoformat(renewed.pop("previous_until"))
    assert renewed == {"current": f"whsec_{new}", "previous": old}
    assert timedelta(hours=23) < end - datetime.now(UTC) <= timedelta(days=1)
    by_new = call(embedded, decision(one), secret=new)
    embedded.wait_for(lambda: send(embedded, by_new)[0] == 200)
    assert send(embedded, call(embedded, decision(one), secret=old))[0] == 200
    assert one.over()["status"] == "SETTLED"
    (circuit, text), (proven, sums) = shell.run("kyc-outage", "Verify")
    assert (circuit, "CLOSED" in text) == (0, True), text
    assert (proven, "\nconserved: " in sums) == (0, True), sums  # a slow one tells its progress below
