"""The HTTP API of services, on which rooms open their routes."""

import json
from collections.abc import Mapping, Sequence

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.core import Core
from infra.grants import allow
from infra.http_log import LOGGED
from infra.settings import CoreSettings


class SettlementsApi(Construct):
    """The API and its stage. Rooms open routes on it, with IAM authorisation."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: CoreSettings) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.CfnApi(
            self, "Api", name=f"{settings.stack_name}-settlements", protocol_type="HTTP"
        )
        apigateway.CfnStage(
            self,
            "Stage",
            api_id=self.api.ref,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=self._log(settings).log_group_arn, format=json.dumps(LOGGED)
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_burst_limit=100, throttling_rate_limit=50
            ),
        )

    def open(self, name: str, function: lambda_.Function, routes: Mapping[str, str], calls: str) -> None:
        """Let routes, by their names in the stack, call a function, and no other call of the API."""
        integration = apigateway.CfnIntegration(
            self,
            f"{name}Integration",
            api_id=self.api.ref,
            integration_type="AWS_PROXY",
            integration_uri=function.function_arn,
            payload_format_version="2.0",
        )
        for route, key in routes.items():
            apigateway.CfnRoute(
                self,
                f"{route}Route",
                api_id=self.api.ref,
                route_key=key,
                authorization_type="AWS_IAM",
                target=f"integrations/{integration.ref}",
            )
        function.add_permission(
            "BySettlementsApi",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=self.arn(calls),
        )

    @property
    def url(self) -> str:
        """The address of the API."""
        return self.api.attr_api_endpoint

    def policy(self, name: str, description: str, calls: Sequence[str]) -> iam.CfnManagedPolicy:
        """Add the managed policy of the services that make some calls."""
        statements = [allow("Settlements", ["execute-api:Invoke"], calls)]
        return iam.CfnManagedPolicy(
            self,
            name,
            description=description,
            policy_document={"Version": "2012-10-17", "Statement": statements},
        )

    def arn(self, call: str) -> str:
        """Return what `execute-api:Invoke` is granted on, for a method with a path."""
        stack = self.api.stack
        return stack.format_arn(service="execute-api", resource=self.api.ref, resource_name=f"*/{call}")

    def _log(self, settings: CoreSettings) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            "Log",
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )


def api_of(core: Core, settings: CoreSettings) -> SettlementsApi:
    """Return the API, which the first room that needs it makes."""
    return core.part(SettlementsApi) or SettlementsApi(core.stack, "Settlements", settings=settings)
