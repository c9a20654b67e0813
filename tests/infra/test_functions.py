from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest

from handlers.core.recover_stalled import RESERVED_MS
from handlers.proof import reconcile_books
from infra.assets import LAMBDAS
from infra.config import STAGES
from infra.functions import handler_of
from infra.grants import STATES
from settlement.core.store.dynamodb import CLIENT_CONFIG
from tests.infra import stack
from tests.infra.stack import (
    EMBEDDED,
    FUNCTIONS,
    ON_AWS,
    each_stage,
    each_stage_on_aws,
    properties,
    resources,
    runbooks,
    variables,
)
from tests.world import templates
from tests.world.rooms import there

RETENTION_DAYS = {"local": 1, "dev": 7, "prod": 365}
HANDLERS = sorted(path.stem for path in (LAMBDAS / "handlers").glob("*/[a-z]*.py"))
SECONDS = {
    "RecoverStalled": 75,
    "StartSettlements": 50,
    "SweepMerchants": 60,
    "PublishEvents": 60,
    "SealJournal": 60,
    "ReconcileBooks": 900,
    "ReadSettlements": 29,
    "AcceptSettlements": 29,
    "ReadStatements": 900,
    "FollowPayouts": 55,
    "PayLines": 57,
}
"""Functions with their own timeouts, in seconds.

Most process a backlog; callers of ReadSettlements and AcceptSettlements wait up to 20 s.
"""

LAMBDA_SECONDS_MAX = 900


def functions(stage: str) -> dict[str, Any]:
    return properties(stage, "Lambda::Function")


@each_stage
def test_every_handler_is_deployed_as_the_function_of_its_name(stage: str) -> None:
    named = {"".join(map(str.capitalize, module.split("_"))): module for module in HANDLERS}

    assert {name: one["Handler"] for name, one in functions(stage).items()} == {
        name: handler_of(name) for name in stack.functions(stage)
    }
    optional = {*there("books", "ProjectEntries"), *there("checks", "CheckDecided"), "ReadStatements"}
    optional |= {*stack.OF_PAYOUTS, *stack.OF_PAYRUNS}
    assert named.keys() == FUNCTIONS.keys() | optional


@each_stage
def test_functions_have_limits_and_only_executions_are_traced(stage: str) -> None:
    settings = STAGES[stage]

    for name, function in functions(stage).items():
        seconds = SECONDS.get(name, settings.function_timeout_seconds) * settings.timeout_factor
        seconds = min(seconds, LAMBDA_SECONDS_MAX)
        assert function["Timeout"] == seconds, name
        least = 1_024 if name in SECONDS and SECONDS[name] > 29 else settings.function_memory_mb
        least = 1_769 if name == "ReconcileBooks" else least  # a whole CPU
        assert function["MemorySize"] == least, name
        assert function.get("TracingConfig") == ({"Mode": "Active"} if name in STATES else None), name


@each_stage
def test_the_proof_has_the_largest_disk_and_reserves_a_minute(stage: str) -> None:
    """Reading a throttled page takes some twenty seconds, in the scan and again in its second look."""
    disks = {name: function.get("EphemeralStorage") for name, function in functions(stage).items()}

    assert disks.pop("ReconcileBooks") == {"Size": 10_240}
    assert disks.pop("ReadStatements", None) == ({"Size": 4_096} if stage in stack.READING else None)
    assert set(disks.values()) == {None}
    assert reconcile_books.RESERVED_MS == 60_000


@each_stage
def test_each_function_has_its_own_log_group_that_expires(stage: str) -> None:
    """Metrics count as INFO, so a higher level would drop them. Debug lines contain names."""
    levels = {"local": "INFO", "dev": "INFO", "prod": "WARN"}
    groups = resources(stage, "Logs::LogGroup")

    for name, function in functions(stage).items():
        assert function["LoggingConfig"] == {
            "LogFormat": "JSON",
            "SystemLogLevel": levels[stage],
            "ApplicationLogLevel": "INFO",
            "LogGroup": f"${{{name}Logs}}",
        }
        assert groups[f"{name}Logs"]["Properties"]["RetentionInDays"] == RETENTION_DAYS[stage]
        assert variables(stage, name)["POWERTOOLS_LOG_LEVEL"] == "INFO"
        assert variables(stage, name)["LOG_DETAIL"] == STAGES[stage].function_log_detail


@each_stage_on_aws
def test_on_aws_functions_have_the_managed_runtime_and_tested_powertools(stage: str) -> None:
    parameters = templates.template(stage)["Parameters"]
    powertools = version("aws-lambda-powertools")

    for name, function in functions(stage).items():
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert "PYTHON" not in variables(stage, name)
        (layer,) = function["Layers"]
        parameter = parameters[layer[2:-1]]
        assert parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
        assert parameter["Default"] == f"/aws/service/powertools/python/arm64/python3.13/{powertools}"


@pytest.mark.parametrize("stage", EMBEDDED)
def test_on_the_embedded_aws_functions_run_on_our_own_python(stage: str) -> None:
    for name, function in functions(stage).items():
        assert function["Runtime"] == "provided.al2023"
        assert variables(stage, name)["PYTHON"] == STAGES[stage].embedded_python
        assert not function.keys() & {"Layers", "Architectures"}


@each_stage
def test_a_function_gets_its_table_and_the_stages_configuration(stage: str) -> None:
    for name in FUNCTIONS:
        given = variables(stage, name)
        assert given["TABLE_NAME"] == "${LedgerTable}"
        assert given["STAGE_CONFIG"] == STAGES[stage].stage_config
        assert given["PAGER"] == replace(STAGES[stage], runbooks=runbooks(stage)).pager


@each_stage
def test_a_functions_timeout_allows_two_attempts_at_a_write(stage: str) -> None:
    """A function cut off in its first attempt would be called repeatedly while DynamoDB is slow."""
    attempts: int = CLIENT_CONFIG.retries["total_max_attempts"]
    sending = attempts * (CLIENT_CONFIG.connect_timeout + CLIENT_CONFIG.read_timeout)

    assert sending < STAGES[stage].function_timeout_seconds == 8


def test_a_recovery_run_begins_nothing_after_the_next_run_begins() -> None:
    """The embedded AWS starts functions slowly and lets them run longer; overlap is harmless there."""
    for stage in ON_AWS:
        assert 50_000 < functions(stage)["RecoverStalled"]["Timeout"] * 1000 - RESERVED_MS < 60_000


def test_the_embedded_aws_can_start_the_bootstrap() -> None:
    assert (LAMBDAS / "bootstrap").stat().st_mode & 0o111 == 0o111
