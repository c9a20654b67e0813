"""Tests saga constructs with and without checks."""

import json
import re
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template

from infra import Check, SettlementSaga, dev
from infra.checks import room
from tests.world.definitions import BOTH, definitions, stalling
from tests.world.templates import app

EXAMPLES = Path(__file__).parents[3] / "examples/checks"
SETTINGS = dev(stage="shop", currencies=["EUR"], kyc_url="https://kyc.example.com")


@cache
def synthesised(*files: str, retired: str = "", **settings: Any) -> dict[str, Any]:
    stack = cdk.Stack(app(), "Payments")
    checks = []
    for file in files:
        secret = secretsmanager.Secret(stack, f"Key-{file}")
        reads = iam.PolicyStatement(actions=["dynamodb:GetItem"], resources=[f"arn:aws:dynamodb:::{file}"])
        options: dict[str, Any] = {"secrets": {"key": secret}, "statements": [reads]}
        checks.append(Check(file=EXAMPLES / f"{file}.py", retired=file == retired, **options))
    SettlementSaga(stack, "Saga", settings=replace(SETTINGS, **settings), checks=checks)
    return dict(Template.from_stack(stack).to_json())


def written(folder: Path, text: str, name: str = "faulty") -> Check:
    file = folder / f"{name}.py"
    file.write_text(f"from settlement.checks.check import Check\n{text}\n")
    return Check(file=file)


def refused(told: str, *checks: Check) -> None:
    with pytest.raises(ValueError, match=told):
        SettlementSaga(cdk.Stack(app(), "Payments"), "Saga", settings=SETTINGS, checks=checks)


@pytest.fixture(scope="module")
def with_checks() -> dict[str, Any]:
    return synthesised("sanctions", "delivered")


def functions(template: dict[str, Any]) -> dict[str, Any]:
    return {
        re.sub(r"^Saga|[0-9A-F]{8}$", "", name): one["Properties"]
        for name, one in template["Resources"].items()
        if one["Type"] == "AWS::Lambda::Function"
    }


def test_a_saga_without_checks_has_no_check_resources() -> None:
    text = json.dumps(synthesised())

    assert not re.search(r"CheckDecided|CHECK|stage_checks|CheckCallbackUrl", text)


@pytest.mark.parametrize("no_staging", [False, True])
def test_the_copied_functions_stay_only_if_cdk_stages_nothing(
    no_staging: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outdir = str(tmp_path / "out")
    stack = cdk.Stack(app(outdir, **{"aws:cdk:disable-asset-staging": no_staging}), "Payments")

    SettlementSaga(stack, "Saga", settings=SETTINGS, checks=[Check(file=EXAMPLES / "limits.py")])

    assert len([*tmp_path.glob("checks-*")]) == no_staging


def test_only_verify_kyc_has_the_checks_code_secrets_and_statements(with_checks: dict[str, Any]) -> None:
    found = functions(with_checks)
    code = {name: json.dumps(one["Code"], sort_keys=True) for name, one in found.items()}
    told = json.dumps(found["VerifyKyc"]["Environment"]["Variables"]["CHECKS"])
    (holder,) = (
        name
        for name, one in with_checks["Resources"].items()
        if one["Type"] == "AWS::IAM::Policy" and "arn:aws:dynamodb:::sanctions" in json.dumps(one)
    )

    assert [name for name in code if code[name] == code["VerifyKyc"]] == ["VerifyKyc"]
    assert "stage_checks.check_sanctions" in told
    assert "stage_checks.check_delivered" in told
    assert "VerifyKyc" in holder


def test_the_callbacks_function_knows_all_checks_names_and_declarations(
    with_checks: dict[str, Any],
) -> None:
    found = functions(with_checks)
    variables = [one["Environment"]["Variables"] for one in found.values() if "Environment" in one]
    told = json.loads(found["CheckDecided"]["Environment"]["Variables"]["CHECKS_DECLARED"])

    assert told[1] == {"name": "delivered", "refusals": ["lost", "returned"], "wait_seconds": 1209600}
    assert {one.get("CHECK_NAMES") for one in variables if "STAGE_CONFIG" in one} == {
        '["sanctions", "delivered"]'
    }
    assert {name for name in with_checks["Outputs"] if name.startswith("SagaCheck")} == {
        *("SagaCheckCallbackUrl", "SagaCheckSigningDeliveredArn")
    }


def test_a_retired_check_is_not_required_for_new_payments() -> None:
    found = functions(synthesised("sanctions", "delivered", retired="delivered"))
    variables = {name: one["Environment"]["Variables"] for name, one in found.items() if "Environment" in one}

    assert variables["HoldFunds"]["CHECK_NAMES"] == '["sanctions"]'
    assert "check_delivered" in json.dumps(variables["VerifyKyc"]["CHECKS"])
    assert "delivered" in variables["CheckDecided"]["CHECKS_DECLARED"]


def test_a_failed_verify_kyc_stalls_payments_only_with_checks(with_checks: dict[str, Any]) -> None:
    assert catches(with_checks) == [stalling()[machine]["States"]["VerifyKyc"]["Catch"] for machine in BOTH]
    assert catches(synthesised()) == [
        definitions()[machine]["States"]["VerifyKyc"]["Catch"] for machine in BOTH
    ]


def catches(template: dict[str, Any]) -> list[Any]:
    texts = [
        one["Properties"]["DefinitionString"]
        for one in template["Resources"].values()
        if one["Type"] == "AWS::StepFunctions::StateMachine"
    ]
    states = [json.loads(text)["States"] for text in texts]
    return [found["VerifyKyc"]["Catch"] for found in states if "VerifyKyc" in found]


@pytest.mark.parametrize("webhook", ["function-url", "http-api"])
def test_check_callbacks_use_function_url_or_http_api_like_webhook(webhook: str) -> None:
    template = synthesised("delivered", webhook=webhook)
    resources = template["Resources"].values()

    routes = [one["Properties"]["RouteKey"] for one in resources if one["Type"] == "AWS::ApiGatewayV2::Route"]
    alarms = [name for name in template["Resources"] if "CheckCallbackRefused" in name]

    assert ("POST /{check}" in routes, len(alarms)) == (webhook == "http-api", 1)


def test_checks_that_never_wait_need_no_callback() -> None:
    template = synthesised("sanctions")

    assert "CheckDecided" not in functions(template)
    assert "CheckCallbackUrl" not in json.dumps(template["Outputs"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must have a CHECK"),
        ("import nothing_like_this", "cannot be imported: ModuleNotFoundError"),
        ("CHECK = Check(name='KYC', refusals=(), ask=print)", "name: must match"),
        ("CHECK = Check(name='kyc', refusals=(), ask=print)", "none of kyc, review, verify"),
        ("CHECK = Check(name='a-', refusals=(), ask=print)", "name: must match"),
        ("import rich\nCHECK = Check(name='a', refusals=(), ask=print)", "imports rich, which a function"),
        (
            "import certifi\nCHECK = Check(name='a', refusals=(), ask=print)",
            "imports certifi, which a function",
        ),
        ("import helper\nCHECK = Check(name='a', refusals=(), ask=print)", "imported: ModuleNotFoundError"),
        ("CHECK = Check(name='a', refusals=('A reason',), ask=print)", "refusals: must be a tuple"),
        ("CHECK = Check(name='a', refusals=('b', 'b'), ask=print)", "has a reason twice"),
        ("CHECK = Check(name='a', refusals=(), ask=1)", "ask: must be a function"),
        ("CHECK = Check(name='a', refusals=(), ask=print, wait_seconds=31 * 86400)", "wait_seconds"),
    ],
)
def test_a_file_with_a_faulty_check_is_refused_at_synthesis(tmp_path: Path, text: str, told: str) -> None:
    refused(re.escape(told), written(tmp_path, text))


@pytest.mark.parametrize(
    "library", ["boto3", "multiprocessing", "urllib3", "aws_lambda_powertools.utilities.parameters"]
)
def test_a_check_can_import_the_libraries_of_a_function(tmp_path: Path, library: str) -> None:
    check = written(tmp_path, f"import {library}\nCHECK = Check(name='a', refusals=(), ask=print)")

    room([check])


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_example_of_a_check_can_be_deployed(example: Path) -> None:
    room([Check(file=example)])


def test_checks_with_equal_or_confusable_names_are_refused(tmp_path: Path) -> None:
    sanctions = Check(file=EXAMPLES / "sanctions.py")
    refused(r"^checks: sanctions: another check has this name$", sanctions, sanctions)
    alike = [
        written(tmp_path, f"CHECK = Check(name={name!r}, refusals=(), ask=print, wait_seconds=9)", name)
        for name in ("a1", "a-1")
    ]
    refused(r"^checks: a-1, a1: too alike, as outputs have no hyphens$", *alike)


def test_declarations_too_long_for_a_function_are_refused(tmp_path: Path) -> None:
    text = "CHECK = Check(name='a', refusals=tuple(f'r{n:040}' for n in range(50)), ask=print)"

    refused(r"^checks: their names and refusals are too long", written(tmp_path, text))


@pytest.mark.parametrize("files", [(), ("sanctions",)])
def test_kyc_decided_may_read_evidence_only_if_checks_exist(files: tuple[str, ...]) -> None:
    """With checks, KycDecided's approval depends on their evidence."""
    reading = [
        statement
        for name, one in synthesised(*files)["Resources"].items()
        if one["Type"] == "AWS::IAM::Policy" and "KycDecidedRole" in name
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
        if "dynamodb:GetItem" in statement["Action"] and "EVIDENCE#*" in json.dumps(statement)
    ]

    assert bool(reading) == bool(files)
