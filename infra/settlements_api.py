"""The services' door: an HTTP API to read settlements, and, by another permission, to start and cancel."""

import json
from collections.abc import Sequence

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.orders import LOGGED
from infra.settings import CoreSettings

READS = {
    "Outcome": "/settlements/{key}",
    "List": "/settlements",
    "Statement": "/accounts/{id}/entries",
    "Journal": "/journal",
}
"""The routes that read, each by its name in the stack."""

START = "POST /settlements"
"""The route that starts a settlement."""

CANCEL = "POST /settlements/{key}/cancel"
"""The route by which a starter cancels one."""

_GRANTED = ("settlements", "settlements/*", "accounts/*/entries", "journal")
"""The reads as IAM sees them: it is asked for the path of a call, with the key or the account's id."""


class SettlementsApi(Construct):
    """The API, its routes with IAM authorisation, and the managed policies of the services that call it.

    The function that reads has no right to write, nor to start anything: others start and cancel.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        reading: lambda_.Function,
        starting: lambda_.Function,
        cancelling: lambda_.Function,
        settings: CoreSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.CfnApi(
            self, "Api", name=f"{settings.stack_name}-settlements", protocol_type="HTTP"
        )
        read = self._integration("Integration", reading)
        for name, path in READS.items():
            self._route(f"{name}Route", f"GET {path}", read)
        self._route("StartRoute", START, self._integration("StartIntegration", starting))
        self._route("CancelRoute", CANCEL, self._integration("CancelIntegration", cancelling))
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
        for function, calls in (
            (reading, "GET/*"),
            (starting, "POST/settlements"),
            (cancelling, "POST/settlements/*/cancel"),
        ):
            function.add_permission(
                "BySettlementsApi",
                principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
                source_arn=self._arn(calls),
            )
        self.reader = self._policy(
            "Reader", "What a service may do that reads settlements, and does not pay", self.reads
        )
        self.starter = self._policy(
            "Starter",
            "What a service may do that starts settlements by HTTP: it pays",
            self.starts,
        )

    @property
    def url(self) -> str:
        """The address of the API."""
        return self.api.attr_api_endpoint

    @property
    def reads(self) -> list[str]:
        """What `execute-api:Invoke` is granted on, to read."""
        return [self._arn(f"GET/{path}") for path in _GRANTED]

    @property
    def starts(self) -> list[str]:
        """What `execute-api:Invoke` is granted on, to start and to cancel."""
        return [self._arn(f"POST/{path}") for path in ("settlements", "settlements/*/cancel")]

    def _integration(self, name: str, function: lambda_.Function) -> apigateway.CfnIntegration:
        return apigateway.CfnIntegration(
            self,
            name,
            api_id=self.api.ref,
            integration_type="AWS_PROXY",
            integration_uri=function.function_arn,
            payload_format_version="2.0",
        )

    def _route(self, name: str, route: str, integration: apigateway.CfnIntegration) -> None:
        apigateway.CfnRoute(
            self,
            name,
            api_id=self.api.ref,
            route_key=route,
            authorization_type="AWS_IAM",
            target=f"integrations/{integration.ref}",
        )

    def _policy(self, name: str, description: str, calls: Sequence[str]) -> iam.CfnManagedPolicy:
        return iam.CfnManagedPolicy(
            self,
            name,
            description=description,
            policy_document={
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Sid": "Settlements",
                        "Effect": "Allow",
                        "Action": ["execute-api:Invoke"],
                        "Resource": list(calls),
                    }
                ],
            },
        )

    def _arn(self, call: str) -> str:
        stack = self.api.stack
        return stack.format_arn(service="execute-api", resource=self.api.ref, resource_name=f"*/{call}")

    def _log(self, settings: CoreSettings) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            "Log",
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )
