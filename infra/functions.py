import re
from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from .assets import LAMBDAS
from .grants import STATES, Handler
from .settings import CoreSettings

WAITED_FOR = ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee", "RejectSettlement", "ReportOutcome")
"""Functions for which a caller waits. They get SnapStart and versions."""

SECONDS_MAX = 900
"""Lambda's maximum."""

POWERTOOLS = "3.37.0"
"""Version of AWS's layer, as in the tests."""

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64


class HandlerFunction(lambda_.Function):
    """A handler's function: `HoldFunds` runs `handlers/core/hold_funds.py`.

    The settlement machine calls `qualified`: the function, or a version. Each execution keeps its version: a
    later deployment deletes none. A failed deployment deletes only the version that it added; recovery then
    resumes that version's settlements.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        handler: Handler,
        *,
        settings: CoreSettings,
        environment: Mapping[str, str],
    ) -> None:
        snaps = settings.snap_start and name in WAITED_FOR
        log_group = logs.LogGroup(
            scope,
            f"{name}Logs",
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )
        role = iam.Role(scope, f"{name}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(role)
        super().__init__(
            scope,
            name,
            role=role,
            handler=handler_of(name),
            timeout=Duration.seconds(function_seconds(handler, settings)),
            memory_size=max(settings.function_memory_mb, handler.memory_mb),
            ephemeral_storage_size=Size.gibibytes(handler.disk_gb) if handler.disk_gb else None,
            environment={**environment, "LOG_DETAIL": settings.function_log_detail},
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.INFO
            if settings.logs_in_full
            else lambda_.SystemLogLevel.WARN,
            # Metrics are lines without a level, which count as INFO: a higher level would drop them.
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            reserved_concurrent_executions=settings.concurrency.of(name),
            # Only machines decide what is traced: AWS samples functions at a rate that nobody can set.
            tracing=lambda_.Tracing.ACTIVE if name in STATES else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snaps else None,
            current_version_options=lambda_.VersionOptions(
                removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            ),
            **_platform(scope, settings),
        )
        if settings.embedded_python:
            self.add_environment("PYTHON", settings.embedded_python)
        publishes = settings.qualified_functions and name in WAITED_FOR
        self.qualified: lambda_.IFunction = self.current_version if publishes else self


def handler_of(name: str) -> str:
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    (file,) = LAMBDAS.glob(f"handlers/*/{module}.py")
    return f"handlers.{file.parent.name}.{module}.handler"


def function_seconds(handler: Handler, settings: CoreSettings) -> int:
    seconds = handler.seconds or settings.function_timeout_seconds
    return min(seconds * settings.timeout_factor, SECONDS_MAX)


def _platform(scope: Construct, settings: CoreSettings) -> dict[str, Any]:
    if settings.is_embedded:
        code = lambda_.Code.from_asset(str(LAMBDAS), exclude=["**/__pycache__"])
        return {"code": code, "runtime": lambda_.Runtime.PROVIDED_AL2023}
    code = lambda_.Code.from_asset(str(LAMBDAS), exclude=["**/__pycache__", "bootstrap"])
    return {
        "code": code,
        "runtime": RUNTIME,
        "architecture": ARCHITECTURE,
        "layers": [_powertools(scope, settings)],
    }


def _powertools(scope: Construct, settings: CoreSettings) -> lambda_.ILayerVersion:
    if existing := scope.node.try_find_child("Powertools"):
        return existing  # type: ignore[return-value]
    arn = settings.powertools_layer or ssm.StringParameter.value_for_string_parameter(
        scope, layer_parameter()
    )
    return lambda_.LayerVersion.from_layer_version_arn(scope, "Powertools", arn)


def layer_parameter() -> str:
    """Return the name of AWS's parameter for the layer, absent in some regions."""
    return f"/aws/service/powertools/python/{ARCHITECTURE.name}/{RUNTIME.name}/{POWERTOOLS}"
