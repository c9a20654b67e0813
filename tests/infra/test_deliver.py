import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.world.step_functions import client_error
from tools import deliver

ABSENT = client_error("GetTemplate", "ValidationError")
ABSENT.response["Error"]["Message"] = "Stack with id settlement-dev does not exist"


class CloudFormation:
    def __init__(self, answers: Any) -> None:
        self.answers = answers

    def get_template(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        if isinstance(self.answers, Exception):
            raise self.answers
        return {"TemplateBody": self.answers}


class Ran:
    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.before: Any = None
        self.failing = ""

    def __call__(self, command: list[str], **_: Any) -> Any:
        self.commands.append(command)
        if "guard_changes" in " ".join(command):
            self.before = json.loads(Path(command[2]).read_text())
        failed = self.failing and self.failing in " ".join(command)
        return subprocess.CompletedProcess(command, 3 if failed else 0)

    @property
    def names(self) -> list[str]:
        words = ("preflight", "synth", "guard_changes", "validate", "deploy")
        return [next(word for word in words if word in " ".join(command[:4])) for command in self.commands]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    ran = Ran()
    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setenv("KYC_URL", "https://kyc.example.com")
    monkeypatch.setenv("PAGE_ADDRESS", "")
    return ran


def answering(monkeypatch: pytest.MonkeyPatch, answers: Any) -> None:
    account = SimpleNamespace(client=lambda service: CloudFormation(answers))
    monkeypatch.setattr(deliver, "session", lambda: account)


def test_deliver_checks_synthesises_guards_and_deploys_a_stage(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}}})

    assert deliver.main(["dev"]) == 0

    preflight, synth, guard, validate, deploy = ran.commands
    assert ran.names == ["preflight", "synth", "guard_changes", "validate", "deploy"]
    assert preflight[-4:] == synth[-4:] == ["-c", "stage=dev", "-c", "kyc_url=https://kyc.example.com"]
    assert synth[synth.index("-o") + 1] == deploy[deploy.index("--app") + 1], "what was judged is deployed"
    assert validate[validate.index("--app") + 1] == deploy[deploy.index("--app") + 1]
    assert validate[-1] == deploy[-1] == "settlement-dev"
    assert "--no-online" not in validate, "CloudFormation looks at it, too"
    assert guard[3] == f"{deploy[deploy.index('--app') + 1]}/settlement-dev.template.json"
    assert ran.before == {"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}}}


@pytest.mark.parametrize(
    ("failing", "made"),
    [
        ("preflight", ["preflight"]),
        ("synth", ["preflight", "synth"]),
        ("guard_changes", ["preflight", "synth", "guard_changes"]),
        ("validate", ["preflight", "synth", "guard_changes", "validate"]),
        ("--require-approval", ["preflight", "synth", "guard_changes", "validate", "deploy"]),
    ],
)
def test_deliver_stops_at_a_failing_step_with_its_code(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, failing: str, made: list[str]
) -> None:
    answering(monkeypatch, {})
    ran.failing = failing

    assert deliver.main(["dev"]) == 3
    assert ran.names == made


def test_a_first_delivery_has_no_deployed_template_to_guard(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ABSENT)

    assert deliver.main(["dev"]) == 0
    assert ran.before == {}


def test_deliver_stops_if_the_deployed_template_cannot_be_read(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, client_error("GetTemplate", "AccessDenied"))

    assert deliver.main(["dev"]) == 1
    assert ran.commands == []
    assert "the deployed template cannot be read" in capsys.readouterr().err


def test_deliver_without_a_stage_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert deliver.main([]) == 2
    assert "make deliver STAGE=dev" in capsys.readouterr().err


def test_the_guard_refuses_a_delivery_that_removes_the_table(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps({"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}}}))
    after.write_text(json.dumps({"Resources": {"Other": {"Type": "AWS::SQS::Queue"}}}))
    (*_, guard, _, _) = deliver.steps("dev", str(before), [])

    assert subprocess.run([sys.executable, guard[1], before, after], check=False).returncode == 1
