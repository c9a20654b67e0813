import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from settle.acceptance.resources import physical
from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.journal import sealed
from settlement.journal import objects
from settlement.journal.entries import Entry

MACHINES = ("SettlementExpressArn", "SettlementStandardArn", "CompensationArn")
QUEUE = "QueueUrl"

PROOFS_MAX = 3
"""Maximum proofs of the books. Another proof follows if rows were written during the last one."""

STREAM_READERS = 2
"""Readers of the stream: PublishEvents and SealJournal. PublishEvents also reads for merchants' sweeps."""

LAG_SECONDS_MAX = 60
"""Threshold of the alarm EventsBehind."""

AGES_SECONDS_MAX, AGES_OF = 300, timedelta(minutes=15)
"""Longest wait for the metric IteratorAge, and the queried period."""

_UNLOCKED = ("NoSuchObjectLockConfiguration", "ObjectLockConfigurationNotFoundError")

SEALED_SECONDS_MAX = 480
"""Longest wait for a sealed object. AWS gathers a batch for up to five minutes."""


def definitions(run: Run) -> str:
    """Check that Step Functions accepts each definition and refuses a broken copy."""
    if run.stack.endpoint_url:
        raise NotApplicable("the embedded AWS: it takes any definition")
    client = run.stack.client("stepfunctions")
    for output in MACHINES:
        text = definition(run, output)
        broken = json.loads(text) | {"StartAt": "Nowhere"}
        for judged, wanted in ((text, "OK"), (json.dumps(broken), "FAIL")):
            answer = client.validate_state_machine_definition(definition=judged)
            told = "; ".join(one["message"] for one in answer["diagnostics"])
            expect(f"{output}, judged {told or 'without a word'}", answer["result"], wanted)
    return f"{len(MACHINES)} definitions are valid, and are refused with a way into nowhere"


def triggers(run: Run) -> str:
    """Check each trigger: it is enabled, its last batch did not fail, and its stream does not lag."""
    client, found = run.stack.client("lambda"), physical(run.stack, "AWS::Lambda::EventSourceMapping")
    if not found:
        raise Refuted("the stack has no trigger")
    streams = {}
    for name, mapping in sorted(found.items()):
        told = client.get_event_source_mapping(UUID=mapping)
        expect(f"{name}: its state", told["State"], "Enabled")
        if (result := told.get("LastProcessingResult", "OK")).startswith("PROBLEM"):
            raise Refuted(f"{name}: {result}")
        if ":dynamodb:" in told["EventSourceArn"]:
            streams[name] = told["FunctionArn"].split(":")[6]
    expect("the readers of the table's stream", len(streams), STREAM_READERS)
    lag = _lag(run, streams)
    waiting = {name: _messages(run, url) for name, url in run.stack.outputs.items() if name.endswith(QUEUE)}
    left = ", ".join(f"{count} in {name.removesuffix(QUEUE)}" for name, count in waiting.items() if count)
    return f"{len(found)} triggers are enabled, and have no problem; {lag}; queues: {left or 'all empty'}"


def _lag(run: Run, streams: Mapping[str, str]) -> str:
    """Report the highest age of a record when a reader got it. Raises Refuted if a reader lags."""
    if run.stack.endpoint_url:
        return "the embedded AWS: measures no lag"
    client, oldest = run.stack.client("cloudwatch"), 0.0
    for name, function in streams.items():
        ages: list[float] = []
        run.wait_for(f"the age of {name}'s records", partial(_ages, client, function, ages), AGES_SECONDS_MAX)
        if not ages:
            raise Refuted(f"{name}: no age of its records within {AGES_SECONDS_MAX} s, so it has read none")
        if max(ages) > LAG_SECONDS_MAX:
            raise Refuted(f"{name}: its records were up to {max(ages):.0f} s old")
        oldest = max(oldest, *ages)
    return f"{len(streams)} readers of the stream, records at most {oldest:.1f} s old"


def _ages(client: Any, function: str, ages: list[float]) -> list[float]:
    now = datetime.now(UTC)
    answer = client.get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="IteratorAge",
        Dimensions=[{"Name": "FunctionName", "Value": function}],
        StartTime=now - AGES_OF,
        EndTime=now,
        Period=60,
        Statistics=["Maximum"],
    )
    ages += [one["Maximum"] / 1_000 for one in answer["Datapoints"]]
    return ages


def canary(run: Run) -> str:
    """Check that each machine's alias starts only the deployed version of the machine.

    This is true after a rollback, too, so the stack's status is also checked.
    """
    aliases = physical(run.stack, "AWS::StepFunctions::StateMachineAlias")
    if not aliases:
        raise NotApplicable("no machine has an alias: the setting canary_percent is 0")
    client = run.stack.client("cloudformation")
    (stack,) = client.describe_stacks(StackName=run.stack.cloudformation)["Stacks"]
    if "ROLLBACK" in stack["StackStatus"]:
        raise Refuted(f"the last deployment was rolled back: {stack['StackStatus']}")
    client = run.stack.client("stepfunctions")
    for name, alias in sorted(aliases.items()):
        routes = client.describe_state_machine_alias(stateMachineAliasArn=alias)["routingConfiguration"]
        expect(f"{name}: the share of its versions", [one["weight"] for one in routes], [100])
        version = client.describe_state_machine(stateMachineArn=routes[0]["stateMachineVersionArn"])
        newest = client.describe_state_machine(stateMachineArn=alias.rpartition(":")[0])
        if version["definition"] != newest["definition"]:
            raise Refuted(f"{name}: its version is not the machine as deployed")
    return f"{len(aliases)} aliases, each with all starts on the newest version"


def proof(run: Run) -> str:
    (function,) = (
        name
        for construct, name in physical(run.stack, "AWS::Lambda::Function").items()
        if construct == "ReconcileBooks"
    )
    client = run.stack.client("lambda", attempts=1)
    for _ in range(PROOFS_MAX):
        run.waits_for, began = "ReconcileBooks", time.monotonic()
        try:
            answer = client.invoke(FunctionName=function, Payload=b"{}")
        except ReadTimeoutError:
            raise NotApplicable("the table is too large to wait for its proof: see ReconciledRows") from None
        told = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise Refuted(f"ReconcileBooks: {told.get('errorType')}: {told.get('errorMessage')}")
        if told["conserved"] or told["faults"]:
            break
    expect(f"conserved, with {told['faults'][:1] + told['unproven'][:1]}", told["conserved"], True)
    seconds = time.monotonic() - began
    return f"{told['rows']} rows are conserved, in {seconds:.1f} s: {told['rows'] / seconds:.0f} a second"


def journal(run: Run) -> str:
    """Find this run's payment in a locked object of the sealed journal."""
    began = datetime.now(UTC) - timedelta(minutes=1)
    payer, payee = run.parties("journal")
    request = run.request("journal", payer, payee)
    outcome = run.send(request).outcome
    expect("status", outcome and outcome["status"], "SETTLED")
    copy, monotonic, wanted = sealed.copy(run.stack, "stack"), time.monotonic(), {"hold", "release", "fee"}
    steps: dict[str, str] = {}

    def is_sealed() -> bool:
        for found in objects.posted(copy, objects.before(began)):
            if found.fault:
                raise Refuted(f"{found.name}: {found.fault}")
            for _, entry in found.entries:
                if isinstance(entry, Entry) and entry.key == request["key"]:
                    steps[entry.step] = found.name
        return wanted <= steps.keys()

    if not run.wait_for(f"{request['key']} in the sealed journal", is_sealed, SEALED_SECONDS_MAX):
        raise Refuted(f"of {request['key']} only {sorted(steps)} is sealed after {SEALED_SECONDS_MAX} s")
    return f"hold, release and fee after {time.monotonic() - monotonic:.0f} s; {_locked(run, steps['hold'])}"


def _locked(run: Run, name: str) -> str:
    if run.stack.endpoint_url:
        return "the embedded AWS: locks nothing"
    bucket = sealed.bucket(run.stack)
    try:
        lock = run.stack.client("s3").get_object_retention(Bucket=bucket, Key=name)["Retention"]
    except ClientError as lacking:
        if (code := lacking.response["Error"]["Code"]) not in _UNLOCKED:
            raise
        raise Refuted(f"{name}: is not locked: {code}") from lacking
    if lock["RetainUntilDate"] <= datetime.now(UTC):
        raise Refuted(f"{name}: its lock has ended on {lock['RetainUntilDate']:%Y-%m-%d}")
    return f"locked by {lock['Mode']} until {lock['RetainUntilDate']:%Y-%m-%d}"


def definition(run: Run, output: str) -> str:
    """Return a machine's definition. `output` has the ARN of the machine or of its alias."""
    arn = ":".join(run.stack.outputs[output].split(":")[:7])
    described = run.stack.client("stepfunctions").describe_state_machine(stateMachineArn=arn)
    return str(described["definition"])


def _messages(run: Run, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    told: Any = run.stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(told["Attributes"][name])
