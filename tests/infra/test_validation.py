"""The pinned CDK's validation prints CloudFormation's findings, and removes its own stack."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import aws_cdk as cdk
import pytest
from botocore import xform_name

from tools import deliver

STACK = "settlement-dev"
ARN = f"arn:aws:cloudformation:eu-west-1:123456789012:stack/{STACK}/1"
TAKEN = "Resource of type 'AWS::Events::EventBus' with identifier 'settlement-dev' already exists."
NAMED = f"<StackName>{STACK}</StackName><StackId>{ARN}</StackId>"
WHEN = "2026-11-27T12:00:00Z"


class CloudFormation(ThreadingHTTPServer):
    """CloudFormation with a missing, reviewed or deployed stack. A `finding` fails each change set."""

    def __init__(self, status: str | None, finding: str | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.finding, self.actions = status, finding, list[str]()

    def answer(self, action: str) -> tuple[int, str]:
        self.actions.append(action)
        if action == "DescribeStacks" and self.status is None:
            told = f"Stack with id {STACK} does not exist"
            return 400, f"<Code>ValidationError</Code><Message>{told}</Message>"
        answer = getattr(self, f"_{xform_name(action)}", lambda: "")()
        return 200, answer

    def _get_caller_identity(self) -> str:
        return "<Account>123456789012</Account><Arn>arn:aws:iam::123456789012:user/ada</Arn>"

    def _describe_stacks(self) -> str:
        status = f"<CreationTime>{WHEN}</CreationTime><StackStatus>{self.status}</StackStatus>"
        return f"<Stacks><member>{NAMED}{status}</member></Stacks>"

    def _get_template(self) -> str:
        return "<TemplateBody>{}</TemplateBody>"

    def _create_change_set(self) -> str:
        self.status = self.status or "REVIEW_IN_PROGRESS"
        return f"<Id>{ARN.replace(':stack/', ':changeSet/')}</Id><StackId>{ARN}</StackId>"

    def _describe_change_set(self) -> str:
        why = "The following hook(s)/validation failed: [AWS::EarlyValidation::ResourceExistenceCheck]"
        failed = f"<Status>FAILED</Status><StatusReason>{why}</StatusReason>"
        passed = "<Status>CREATE_COMPLETE</Status><ExecutionStatus>AVAILABLE</ExecutionStatus>"
        return f"<ChangeSetName>one</ChangeSetName>{NAMED}{failed if self.finding else passed}"

    def _describe_events(self) -> str:
        event = (
            "<EventType>VALIDATION_ERROR</EventType><LogicalResourceId>Bus</LogicalResourceId>"
            f"<ValidationStatusReason>{self.finding}</ValidationStatusReason>"
            "<ValidationPath>/Resources/Bus</ValidationPath>"
        )
        return f"<OperationEvents><member>{event}</member></OperationEvents>"

    def _delete_stack(self) -> str:
        self.status = None
        return ""


class Handler(BaseHTTPRequestHandler):
    server: CloudFormation

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        action = parse_qs(body)["Action"][0]
        code, content = self.server.answer(action)
        if code == 200:
            text = f"<{action}Response><{action}Result>{content}</{action}Result></{action}Response>"
        else:
            text = f"<ErrorResponse><Error><Type>Sender</Type>{content}</Error></ErrorResponse>"
        self.send_response(code)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    place = cdk.Environment(account="123456789012", region="eu-west-1")
    stack = cdk.Stack(app, STACK, env=place, synthesizer=cdk.LegacyStackSynthesizer())
    cdk.CfnResource(stack, "Bus", type="AWS::Events::EventBus", properties={"Name": STACK})
    app.synth()
    return tmp_path / "cdk.out"


def validated(assembly: Path, status: str | None, finding: str | None) -> Iterator[Any]:
    (*_, command, _) = deliver.steps("dev", "before.json", [])
    server = CloudFormation(status, finding)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(assembly),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "eu-west-1",
        "CI": "true",
    }
    here = [str(assembly) if one == str(deliver.OUT) else one for one in command]
    yield subprocess.run(here, check=False, capture_output=True, text=True, env=env, timeout=120)
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("before", "finding", "after"),
    [
        (None, None, None),
        (None, TAKEN, None),
        ("CREATE_COMPLETE", TAKEN, "CREATE_COMPLETE"),
        ("REVIEW_IN_PROGRESS", None, "REVIEW_IN_PROGRESS"),  # another person's
    ],
)
def test_validation_prints_cloudformations_findings_and_removes_its_own_stack(
    assembly: Path, before: str | None, finding: str | None, after: str | None
) -> None:
    ran, aws = validated(assembly, before, finding)
    told = ran.stdout + ran.stderr

    assert (ran.returncode, TAKEN in told) == ((1, True) if finding else (0, False)), told
    assert "could not be completed" not in told
    assert {"CreateChangeSet", "DeleteChangeSet"} <= {*aws.actions}
    assert "ExecuteChangeSet" not in aws.actions
    assert (aws.status, "DeleteStack" in aws.actions) == (after, before is None)
