import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from settle.exit_codes import Exit
from settle.local import deployment, preflight
from tests.settle.conftest import Command

FINE = {"check": "stack", "verdict": "fine", "found": "settlement-prod is not deployed yet", "do": ""}
LACKING = {
    "check": "bootstrap",
    "verdict": "lacking",
    "found": "CDK is not there",
    "do": "run `cdk bootstrap`",
}
UNKNOWN = LACKING | {"verdict": "unknown"}


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


class Session:
    def __init__(self, region_name: str | None = None) -> None:
        self.region_name = region_name


@pytest.mark.parametrize(
    ("found", "code"),
    [([FINE], Exit.FINE), ([FINE, LACKING], Exit.FAILED), ([UNKNOWN, FINE], Exit.FAILED)],
)
def test_preflight_prints_checks_and_fails_unless_all_are_fine(
    settle: Command, monkeypatch: pytest.MonkeyPatch, found: list[dict[str, str]], code: Exit
) -> None:
    monkeypatch.setattr(preflight, "findings", lambda stage, context: found)
    ended, out, _ = settle("preflight", "--stage", "prod")
    _, printed, _ = settle("preflight", "--stage", "prod", "--json")

    assert ended == code
    assert ("bootstrap: run `cdk bootstrap`" in out) == (code != Exit.FINE)
    assert "settlement-prod is not deployed yet" in out
    assert json.loads(printed) == found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--stage", "production"), "stage: must be one of local, dev, prod"),
        (("--stage", "local", "-c", "kyc_url=http://127.0.0.1"), "stage: local runs on the embedded AWS"),
        (("--stage", "dev"), "kyc_url: name the KYC provider's address"),
        (("--stage", "dev", "-c", "kyc_url"), "context: must be NAME=VALUE"),
        (("--stage", "dev", "-c", "colour=red"), "context: has no colour; the names are stage, kyc_url"),
        (("--stage", "prod", "-c", "kyc_url=https://k.example.com"), "page_address: name the address"),
        (("--stage", "dev", "-c", "kyc_url=https://k.example.com"), "region: name one"),
        ((), "preflight: give --stage STAGE, or --app APP"),
        (("--stage", "dev", "--app", "python3 app.py"), "preflight: give --stage STAGE, or --app APP"),
        (("--stage", "dev", "--stack", "Payments/Saga"), "preflight: give --stage STAGE, or --app APP"),
        (("--app", "python3 app.py"), "region: name one"),
    ],
)
def test_wrong_arguments_are_refused_before_any_call(
    settle: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setattr(boto3, "Session", Session)
    code, _, err = settle("preflight", *arguments)

    assert (code, told in err) == (Exit.USAGE, True), err


def assembly(folder: Path, **sagas: str) -> str:
    """Write the synthesis of an app with a saga in each stack; return its folder."""
    stacks: dict[str, Any] = {"Tree": {"type": "cdk:tree"}}
    for stack, saga in sagas.items():
        outputs: dict[str, Any] = {f"{saga}StageConfig": {"Value": json.dumps({"currencies": {"EUR": 2}})}}
        outputs |= {f"{saga}TableName": {"Value": "t"}, f"{saga}EventBusName": {"Value": {"Ref": "Bus"}}}
        bus = {"Type": "AWS::Events::EventBus", "Properties": {"Name": "settlement-shop"}}
        (folder / f"{stack}.json").write_text(json.dumps({"Resources": {"Bus": bus}, "Outputs": outputs}))
        properties = {"templateFile": f"{stack}.json", "stackName": stack}
        stacks[stack] = {"type": "aws:cloudformation:stack", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": stacks}))
    return str(folder)


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(
    ("sagas", "given", "asked"),
    [
        ({"Payments": "Saga"}, (), "Payments/Saga"),
        ({"North": "Saga", "South": "Saga"}, ("--stack", "South/Saga"), "South/Saga"),
        ({"settlement-my-own": ""}, (), "settlement-my-own/"),
    ],
)
def test_preflight_checks_an_apps_saga_by_its_synthesised_template(
    settle: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sagas: dict[str, str],
    given: tuple[str, ...],
    asked: str,
) -> None:
    plans = list[Any]()

    def findings(session: Any, plan: Any) -> list[dict[str, str]]:
        plans.append(plan)
        return [FINE]

    monkeypatch.setattr(preflight, "_findings", findings)

    code, _, err = settle("preflight", "--app", assembly(tmp_path, **sagas), *given)

    (plan,) = plans
    assert (code, f"{plan.stack}/{plan.saga}", plan.name) == (Exit.FINE, asked, "settlement-shop"), err


@pytest.mark.usefixtures("region")
@pytest.mark.parametrize(
    ("sagas", "given", "code", "told"),
    [
        ({}, (), Exit.NOT_FOUND, "has no saga"),
        ({"North": "Saga", "South": "Saga"}, (), Exit.USAGE, "pass --stack North/Saga or South/Saga, a saga"),
        ({"North": "Saga"}, ("--stack", "South/Saga"), Exit.USAGE, "stack: pass --stack North/Saga, a saga"),
    ],
)
def test_preflight_refuses_an_app_without_the_named_saga(
    settle: Command,
    tmp_path: Path,
    sagas: dict[str, str],
    given: tuple[str, ...],
    code: Exit,
    told: str,
) -> None:
    ended, _, err = settle("preflight", "--app", assembly(tmp_path, **sagas), *given)

    assert (ended, told in err) == (code, True), err


def test_an_app_is_synthesised_with_the_users_own_credentials(
    settle: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = list[tuple[list[str], Path, dict[str, str]]]()

    def run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
        ran.append((words, folder, environment))
        assembly(Path(words[words.index("-o") + 1]), Payments="Saga")

    monkeypatch.setattr(deployment, "ensure_cdk", lambda report: Path("/cdk"))
    monkeypatch.setattr(deployment, "_run", run)
    monkeypatch.setattr(preflight, "_findings", lambda session, plan: [FINE])
    monkeypatch.setattr(boto3, "Session", Session)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_PROFILE", "payments")
    monkeypatch.chdir(tmp_path)
    code, _, err = settle("preflight", "--app", "python3 app.py", "-c", "colour=red")

    ((words, folder, environment),) = ran
    assert (code, words[:2], words[-2:], folder) == (
        Exit.FINE,
        ["/cdk", "synth"],
        ["-c", "colour=red"],
        tmp_path,
    ), err
    assert environment["AWS_PROFILE"] == "payments"


@pytest.mark.parametrize("own", [True, False])
def test_without_node_the_error_names_the_extra_to_install(
    settle: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: bool
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("JSII_NODE", raising=False)
    if own:
        (tmp_path / "node").touch()
    _, _, err = settle("preflight", "--stage", "production")

    assert ("Node.js is not installed; run: pip install 'settlement-saga[local]'" in err) is not own
    assert os.environ.get("JSII_NODE") == (str(tmp_path / "node") if own else None)
