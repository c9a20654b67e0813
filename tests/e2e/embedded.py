import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
from botocore.exceptions import ClientError

from infra.functions import handler_of
from settle import stack
from settle.accounts import accounts, statement
from settle.exit_codes import CommandFailed
from settle.local.record import Running
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.wire import from_wire
from settlement.proof import table_scan
from tests.e2e import listener
from tests.world.contracts import checked_outcome
from tests.world.journal import journal

SETTLE = Path(sys.executable).parent / "settle"
COMMAND_SECONDS_MAX = 600
"""A command's timeout, for slow machines."""

WHOLE_STATE = frozenset({"BeginCompensation", "PrepareAlert", "ReportOutcome"})
"""Functions that get the machine's whole state."""

REPORTING = frozenset({"ReportOutcome", "CollectFee", "RejectSettlement"})

SHOWING = frozenset({"start", "status", "wait", "reverse", "resolve"})
"""Commands whose JSON is an outcome with extra fields, or an error."""

OTHER = frozenset({"payout", "payee"})
"""Groups of commands that show no settlement."""


class RecoveryFailed(Exception):
    """RecoverStalled ended with an error, as it does while its table is away."""


def at_work(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the running processes, without zombies."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@dataclass(frozen=True)
class Embedded:
    """An embedded AWS, with its record and files in `home`."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """A person's shell variables, without the tests' own."""
        ours = (
            *("AWS_", "POWERTOOLS_", "TABLE_NAME", "STAGE_CONFIG", "PAGER", "SETTLE_"),
            *("KYC", "EVENT_BUS", "SETTLEMENT_MACHINE", "COMPENSATION_MACHINE"),
            *("EXPRESS_MACHINE", "STARTS_PER_SECOND", "CDK_VALIDATION"),
        )
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return inherited | {"SETTLE_HOME": str(self.home)}

    def settle(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command; check the contract of each outcome in its JSON.

        Once deployed, also listen to all events.
        """
        finished = subprocess.run(
            [SETTLE, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment | environment,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        if arguments[:2] == ("local", "up") and finished.returncode == 0:
            listener.listen(stack.embedded(self.running()))
        if "--json" in arguments and SHOWING & set(arguments) and arguments[0] not in OTHER:
            check_shown(finished.stdout)
        return finished

    def told(self, *arguments: str, stdin: str = "", code: int = 0) -> dict[str, Any]:
        finished = self.settle(*arguments, "--json", stdin=stdin)
        assert finished.returncode == code, finished
        found: dict[str, Any] = json.loads(finished.stdout)
        return found

    def refused(self, *arguments: str, stdin: str = "", **environment: str) -> tuple[int, str]:
        """Run a command; check that it is refused in one line and writes nothing. Return (code, line)."""
        with self.writes_nothing():
            finished = self.settle(*arguments, stdin=stdin, **environment)
        assert (finished.stdout, len(finished.stderr.splitlines())) == ("", 1), finished
        line = finished.stderr.rstrip("\n")
        assert line.isprintable()
        return finished.returncode, line

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        before = self.rows()
        yield
        after = self.rows()
        assert [row for row in after if row not in before] == []
        assert len(after) == len(before)

    def up(self) -> dict[str, Any]:
        return self.told("local", "up")

    def running(self) -> Running:
        return Running(**json.loads((self.home / "local.json").read_text()))

    def is_up(self) -> bool:
        return (self.home / "local.json").exists() and psutil.pid_exists(self.running().pid)

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    @cached_property
    def stack(self) -> Stack:
        found = stack.embedded(self.running())
        check_outcomes(found.session.events)
        return found

    @cached_property
    def sharing_one_client(self) -> Stack:
        """The stack with one client for all threads, because they cannot create clients of one session."""
        outputs, client = self.stack.outputs, self.step_functions
        return cast(
            Stack,
            SimpleNamespace(
                outputs=outputs,
                store=self.stack.store,
                config=self.stack.config,
                client=lambda service, attempts=5: client,
            ),
        )

    @cached_property
    def step_functions(self) -> Any:
        return self.stack.client("stepfunctions")

    @cached_property
    def dynamodb(self) -> Any:
        return self.stack.client("dynamodb")

    @cached_property
    def functions(self) -> dict[str, str]:
        return self._physical("AWS::Lambda::Function")

    @cached_property
    def roles(self) -> dict[str, str]:
        return {
            name.removesuffix("Role"): role
            for name, role in self._physical("AWS::IAM::Role").items()
            if name.removesuffix("Role") in self.functions
        }

    def rows(self) -> list[Row]:
        """Return the table in a stable order, without task tokens, which alerts renew."""
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.stack.outputs["TableName"], ConsistentRead=True
        )
        found = [from_wire(item) for page in pages for item in page["Items"]]
        without_tokens = (row for row in found if not row["pk"].startswith("WAITING#"))
        return sorted(without_tokens, key=lambda row: (row["pk"], row["sk"]))

    def settlement(self, key: str) -> Row:
        row = self.stack.store.read(keys.settlement(key))
        assert row is not None
        return row

    def entries(self, key: str) -> list[str]:
        return sorted(journal(self.rows(), key))

    def waiting(self, key: str) -> str:
        """Return the execution that waits for a decision on a settlement, or ""."""
        row = self.stack.store.read(keys.waiting(key))
        return str(row["execution"]) if row else ""

    def conserved(self) -> bool:
        findings = table_scan.check(self.stack.store)
        assert findings.faults == []
        return findings.conserved

    def available(self, account: str) -> str:
        available: str = statement.show(self.stack, account)["available"]
        return available

    def wait_for(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + COMMAND_SECONDS_MAX
        while not holds():
            assert time.monotonic() < give_up_at, "waited for too long"
            time.sleep(0.2)

    @contextmanager
    def without_grants(self, state: str, action: str | None = None) -> Iterator[None]:
        """Temporarily remove a function's grants, or one action's, so that it fails unexpectedly."""
        iam, role = self.stack.client("iam"), self.roles[state]
        names = iam.list_role_policies(RoleName=role)["PolicyNames"]
        policies = {
            name: iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"] for name in names
        }
        assert policies
        for name, policy in policies.items():
            left = [one for one in policy["Statement"] if action and action not in one["Action"]]
            assert not action or len(left) < len(policy["Statement"])
            iam.delete_role_policy(RoleName=role, PolicyName=name)
            if left:
                document = json.dumps(policy | {"Statement": left})
                iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=document)
        try:
            yield
        finally:
            for name, policy in policies.items():
                iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(policy))

    def schedule(self, *, enabled: bool) -> None:
        scheduler = self.stack.client("scheduler")
        names = ("Name", "GroupName", "ScheduleExpression", "FlexibleTimeWindow", "Target")
        for listed in scheduler.list_schedules()["Schedules"]:
            schedule = scheduler.get_schedule(Name=listed["Name"], GroupName=listed["GroupName"])
            scheduler.update_schedule(
                **{name: schedule[name] for name in names}, State="ENABLED" if enabled else "DISABLED"
            )

    def environments(self, function: str) -> set[int]:
        found = set()
        for process in self.processes():
            with suppress(psutil.Error):
                if process.cmdline()[-1:] == [handler_of(function)]:
                    found.add(process.pid)
        return found

    @contextmanager
    def frozen(self, function: str) -> Iterator[None]:
        """Suspend a function, so that its calls wait; then kill it with its calls."""
        self.wait_for(lambda: bool(self.environments(function)) or not self._warm(function))
        stopped = [psutil.Process(pid) for pid in self.environments(function)]
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _warm(self, function: str) -> bool:
        """Start an environment by a call that the function refuses."""
        self._lambda.invoke(FunctionName=self.functions[function], Payload=b'{"state": 0}')
        return True

    def recover_due(self) -> None:
        for partition in (keys.LIMBO, *map(keys.in_flight_partition, range(keys.IN_FLIGHT_SHARDS))):
            answer = self._lambda.invoke(
                FunctionName=self.functions["RecoverStalled"], Payload=json.dumps({"partition": partition})
            )
            assert "FunctionError" not in answer, answer["Payload"].read()

    def recover(self, key: str) -> dict[str, Any]:
        """Run RecoverStalled on one settlement now, due or not. Raises RecoveryFailed."""
        answer = self._lambda.invoke(
            FunctionName=self.functions["RecoverStalled"], Payload=json.dumps({"key": key})
        )
        if "FunctionError" in answer:
            raise RecoveryFailed(answer["Payload"].read())
        taken: dict[str, Any] = json.loads(answer["Payload"].read())
        return taken

    def run(self, machine: str, content: Any, name: str | None = None) -> str:
        """Start an execution of the machine that an output names; return the execution's ARN."""
        name = name or new_key("execution")
        started = self.step_functions.start_execution(
            stateMachineArn=self.stack.outputs[machine], name=name, input=json.dumps(content)
        )
        arn: str = started["executionArn"]
        return arn

    def ended(self, arn: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def has_ended() -> bool:
            found.append(self.step_functions.describe_execution(executionArn=arn))
            return bool(found[-1]["status"] != "RUNNING")

        self.wait_for(has_ended)
        return found[-1]

    def stop(self, arn: str) -> None:
        with suppress(ClientError):
            self.step_functions.stop_execution(executionArn=arn)

    def has_entered(self, arn: str, state: str) -> bool:
        events = self.step_functions.get_execution_history(executionArn=arn)["events"]
        return any(event.get("stateEnteredEventDetails", {}).get("name") == state for event in events)

    def has_failed_in(self, arn: str, state: str) -> bool:
        events = self.step_functions.get_execution_history(executionArn=arn)["events"]
        entered = [
            n
            for n, event in enumerate(events)
            if event.get("stateEnteredEventDetails", {}).get("name") == state
        ]
        return any("Failed" in event["type"] for event in events[entered[0] :]) if entered else False

    def renew(self, function: str, **environment: str) -> None:
        """Replace a function's environments, with changed variables and empty caches."""
        name = self.functions[function]
        known = self._lambda.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        self._lambda.update_function_configuration(
            FunctionName=name, Environment={"Variables": known | environment}
        )
        self._lambda.get_waiter("function_updated_v2").wait(
            FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": COMMAND_SECONDS_MAX}
        )

    def variable(self, function: str, name: str) -> str:
        described = self._lambda.get_function_configuration(FunctionName=self.functions[function])
        value: str = described["Environment"]["Variables"][name]
        return value

    def logged(self, function: str, since_ms: int = 0) -> list[str]:
        described = self._lambda.get_function_configuration(FunctionName=self.functions[function])
        pages = self.stack.client("logs").get_paginator("filter_log_events")
        group = described["LoggingConfig"]["LogGroup"]
        return [
            event["message"]
            for page in pages.paginate(logGroupName=group, startTime=since_ms)
            for event in page["events"]
        ]

    def invoke(self, state: str, settlement: Any, **event: Any) -> dict[str, Any]:
        """Call a state's function without its machine; a failure has an `errorType`."""
        given = {"settlement": settlement} | event
        name = given.pop("execution", "a-direct-call")
        execution = {"execution": name, "execution_arn": f"arn:of:{name}"}
        answer = self._lambda.invoke(
            FunctionName=self.functions[state],
            Payload=json.dumps(given | execution | ({"state": given} if state in WHOLE_STATE else {})),
        )
        payload: dict[str, Any] = json.loads(answer["Payload"].read()) or {}
        assert ("FunctionError" in answer) == ("errorType" in payload)
        return checked_outcome(payload) if state in REPORTING and "errorType" not in payload else payload

    @cached_property
    def _lambda(self) -> Any:
        return self.stack.client("lambda")

    def _physical(self, resource_type: str) -> dict[str, str]:
        """Return physical names by construct. A logical id is the construct's name and eight digits."""
        pages = self.stack.client("cloudformation").get_paginator("list_stack_resources")
        return {
            resource["LogicalResourceId"][:-8]: resource["PhysicalResourceId"]
            for page in pages.paginate(StackName=self.stack.name)
            for resource in page["StackResourceSummaries"]
            if resource["ResourceType"] == resource_type
        }

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            return bool(process.environ().get("SETTLE_HOME") == str(self.home))
        return False


@contextmanager
def embedded_aws() -> Iterator[Embedded]:
    """Yield a home for an embedded AWS; always remove it with its processes.

    If it still runs at the end, check the contract of all received events.
    """
    embedded = Embedded(Path(tempfile.mkdtemp(prefix="e2e")))
    try:
        yield embedded
        if embedded.is_up():
            check_events(embedded)
    finally:
        with suppress(subprocess.SubprocessError):
            embedded.settle("local", "down")
        for process in embedded.processes():
            with suppress(psutil.Error):
                process.kill()
        shutil.rmtree(embedded.home, ignore_errors=True)


def check_events(embedded: Embedded) -> None:
    told = stack.embedded(embedded.running())
    heard = listener.check(told)
    if not heard and any(map(keys.is_settlement, embedded.rows())):
        embedded.wait_for(lambda: bool(listener.check(told)))


def check_outcomes(events: Any) -> None:
    """Check each outcome that Step Functions sends to the client with these botocore events."""

    def check(parsed: dict[str, Any], **_: Any) -> None:
        if parsed.get("status") == "SUCCEEDED":
            checked_outcome(json.loads(parsed["output"]))

    for operation in ("StartSyncExecution", "DescribeExecution"):
        events.register(f"after-call.*.{operation}", check)


def check_shown(stdout: str) -> None:
    """Check each outcome in a command's JSON: one document, or one on each line."""
    try:
        documents = [json.loads(stdout)]
    except ValueError:
        documents = [json.loads(line) for line in stdout.splitlines()]
    for document in documents:
        if "status" in document:
            checked_outcome(document)


def new_key(name: str) -> str:
    return f"{name}-{secrets.token_hex(8)}"


def new_account(embedded: Embedded, name: str, deposit: str = "0", currency: str = "EUR") -> str:
    account = f"{name}.{secrets.token_hex(4)}"

    def opens() -> bool:
        """Repeat an order whose function a busy machine did not start in time."""
        try:
            accounts.open_account(embedded.stack, account, currency, deposit)
        except CommandFailed as failed:
            if "not known to be" not in str(failed):
                raise
            return False
        return True

    embedded.wait_for(opens)
    return account


def new_request(embedded: Embedded, **changes: Any) -> dict[str, Any]:
    """Return a request for 48.20 of the payer's 100.00 EUR; the fee is 0.48."""
    payer, payee = new_account(embedded, "dora", "100.00"), new_account(embedded, "emil")
    request = {"key": new_key("order"), "payer": payer, "payee": payee, "amount": "48.20", "currency": "EUR"}
    return request | changes


def paid_once(embedded: Embedded, request: dict[str, Any]) -> bool:
    balances = [embedded.available(request[party]) for party in ("payer", "payee")]
    return balances == ["51.80", "47.72"]


def at_once(calls: list[Any], threads: int = 32) -> list[Any]:
    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
