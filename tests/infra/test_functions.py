"""The functions: their code, logs, and environment."""

import py_compile
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from app import build
from infra.config import STAGES
from infra.functions import LAMBDAS
from infra.grants import GRANTS, TRIGGERED
from settlement.adapters.dynamodb import CLIENT_CONFIG
from settlement.model.stage_config import StageConfig
from settlement.policy.pager import PagerConfig
from tests.infra.iam import attribute
from tests.infra.machines import context
from tests.support import templates

AWS_STAGES = ("dev", "prod")
FUNCTIONS = GRANTS | TRIGGERED
"""The functions of states, and the triggered ones."""

SECONDS = {"RecoverStalled": 50, "StartSettlements": 50}
"""The functions whose answer no caller waits for, with their seconds: they work through a backlog."""

each_stage = pytest.mark.parametrize("stage", STAGES)
each_function = pytest.mark.parametrize(
    ("stage", "state"), [(stage, state) for stage in STAGES for state in FUNCTIONS]
)
each_function_on_aws = pytest.mark.parametrize(
    ("stage", "state"), [(stage, state) for stage in AWS_STAGES for state in FUNCTIONS]
)


def properties(stage: str, state: str) -> Any:
    (found,) = (
        function["Properties"]
        for logical_id, function in templates.resources("AWS::Lambda::Function", stage).items()
        if re.sub(r"[0-9A-F]{8}$", "", logical_id) == state
    )
    return found


@each_function
def test_a_function_is_bounded_and_traced(stage: str, state: str) -> None:
    settings, function = STAGES[stage], properties(stage, state)

    seconds = SECONDS.get(state, settings.function_timeout_seconds)
    assert function["Timeout"] == seconds * settings.timeout_factor
    assert function["MemorySize"] == settings.function_memory_mb
    assert function["TracingConfig"] == {"Mode": "Active"}


@each_stage
def test_these_are_the_functions(stage: str) -> None:
    """No construct adds a function of its own, which these tests would not cover."""
    found = templates.resources("AWS::Lambda::Function", stage)

    assert sorted(re.sub(r"[0-9A-F]{8}$", "", one) for one in found) == sorted(FUNCTIONS)
    assert not GRANTS.keys() & TRIGGERED.keys()


@each_stage
def test_no_two_functions_share_a_role(stage: str) -> None:
    roles = [attribute(properties(stage, state)["Role"]) for state in FUNCTIONS]

    assert len(set(roles)) == len(FUNCTIONS)


@each_stage
def test_no_two_functions_share_a_log_group(stage: str) -> None:
    groups = [properties(stage, state)["LoggingConfig"]["LogGroup"]["Ref"] for state in FUNCTIONS]

    assert len(set(groups)) == len(FUNCTIONS)


@each_function
def test_logs_are_kept_for_as_long_as_the_stage_says(stage: str, state: str) -> None:
    group = properties(stage, state)["LoggingConfig"]["LogGroup"]["Ref"]
    log_group = templates.resources("AWS::Logs::LogGroup", stage)[group]

    assert log_group["Properties"]["RetentionInDays"] == {"local": 1, "dev": 7, "prod": 365}[stage]
    assert log_group["DeletionPolicy"] == ("Retain" if STAGES[stage].keeps_data else "Delete")


@each_function_on_aws
def test_on_aws_a_function_runs_on_the_managed_runtime(stage: str, state: str) -> None:
    function = properties(stage, state)

    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]
    assert "PYTHON" not in function["Environment"]["Variables"]


@each_function_on_aws
def test_on_aws_a_function_has_the_powertools_that_the_tests_run_with(stage: str, state: str) -> None:
    (layer,) = properties(stage, state)["Layers"]
    parameter = templates.template(stage).to_json()["Parameters"][layer["Ref"]]

    assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
    assert parameter["Default"] == (
        f"/aws/service/powertools/python/arm64/python3.13/{version('aws-lambda-powertools')}"
    )


@pytest.mark.parametrize("state", FUNCTIONS)
def test_on_the_embedded_aws_a_function_runs_on_our_own_python(state: str) -> None:
    function = properties("local", state)

    assert function["Runtime"] == "provided.al2023"
    assert function["Environment"]["Variables"]["PYTHON"] == STAGES["local"].embedded_python
    assert "Layers" not in function
    assert "Architectures" not in function


@each_function
def test_a_function_gets_its_table_and_the_stages_configuration(stage: str, state: str) -> None:
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)
    variables = properties(stage, state)["Environment"]["Variables"]

    config = StageConfig.from_json(variables["STAGE_CONFIG"])

    assert variables["TABLE_NAME"] == {"Ref": table}
    assert set(config.currencies) == set(STAGES[stage].currencies)


@each_function
def test_a_function_gets_the_pagers_configuration(stage: str, state: str) -> None:
    pager = PagerConfig.from_json(properties(stage, state)["Environment"]["Variables"]["PAGER"])

    assert pager == PagerConfig.from_json(STAGES[stage].pager)
    assert pager.again_after_seconds == STAGES[stage].alert_again_after_seconds


@each_stage
def test_a_function_outlives_two_attempts_at_a_write(stage: str) -> None:
    """Cut off in its first attempt, it would be called again and again while DynamoDB is slow."""
    attempts: int = CLIENT_CONFIG.retries["total_max_attempts"]
    sending = attempts * (CLIENT_CONFIG.connect_timeout + CLIENT_CONFIG.read_timeout)

    assert sending < STAGES[stage].function_timeout_seconds == 8


@pytest.fixture(scope="module", params=STAGES)
def asset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return a stage and its one asset, synthesised while the sources have bytecode beside them."""
    py_compile.compile(str(LAMBDAS / "handlers" / "__init__.py"))
    py_compile.compile(str(LAMBDAS / "settlement" / "__init__.py"))
    directory = tmp_path_factory.mktemp(request.param)
    app = cdk.App(context=context(request.param), outdir=str(directory))
    build(app)
    app.synth()
    (found,) = (path for path in directory.glob("asset.*") if path.is_dir())
    return request.param, found


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_the_asset_is_our_sources_and_nothing_else(asset: tuple[str, Path]) -> None:
    """No bytecode, so that the same sources make the same asset on every machine."""
    stage, root = asset
    sources = {name for name in files(LAMBDAS) if name.endswith(".py")}

    assert files(root) == sources | ({"bootstrap"} if stage == "local" else set())
    assert not list(root.rglob("__pycache__"))


def test_the_embedded_aws_can_start_the_bootstrap() -> None:
    assert (LAMBDAS / "bootstrap").stat().st_mode & 0o111 == 0o111
