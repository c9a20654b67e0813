"""The readers' door: an HTTP API for services that ask for outcomes, and may not pay."""

import json

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import Settings
from infra.orders_api import LOGGED

READS = {
    "Outcome": "/settlements/{key}",
    "List": "/settlements",
    "Statement": "/accounts/{id}/entries",
}
"""The routes that read, each by its name in the stack."""

_GRANTED = ("settlements", "settlements/*", "accounts/*/entries")
"""The same as IAM sees them: it is asked for the path of a call, with the key or the account's id."""


class SettlementsApi(Construct):
    """The API, its routes with IAM authorisation, and the managed policy of the services that read.

    Its function has no right to write, nor to start anything.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.Function, settings: Settings
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.CfnApi(
            self, "Api", name=f"{settings.stack_name}-settlements", protocol_type="HTTP"
        )
        integration = apigateway.CfnIntegration(
            self,
            "Integration",
            api_id=self.api.ref,
            integration_type="AWS_PROXY",
            integration_uri=function.function_arn,
            payload_format_version="2.0",
        )
        for name, path in READS.items():
            apigateway.CfnRoute(
                self,
                f"{name}Route",
                api_id=self.api.ref,
                route_key=f"GET {path}",
                authorization_type="AWS_IAM",
                target=f"integrations/{integration.ref}",
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
        function.add_permission(
            "BySettlementsApi",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=self._arn("GET/*"),
        )
        self.reader = iam.CfnManagedPolicy(
            self,
            "Reader",
            description="What a service may do that reads settlements, and does not pay",
            policy_document={
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": "Settlements",
                        "Effect": "Allow",
                        "Action": ["execute-api:Invoke"],
                        "Resource": self.reads,
                    }
                ],
            },
        )

    @property
    def url(self) -> str:
        """The address of the API."""
        return self.api.attr_api_endpoint

    @property
    def reads(self) -> list[str]:
        """What `execute-api:Invoke` is granted on, to read."""
        return [self._arn(f"GET/{path}") for path in _GRANTED]

    def _arn(self, call: str) -> str:
        stack = self.api.stack
        return stack.format_arn(service="execute-api", resource=self.api.ref, resource_name=f"*/{call}")

    def _log(self, settings: Settings) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            "Log",
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )
