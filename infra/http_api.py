import json
from collections.abc import Mapping, Sequence

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from .core import Core
from .grants import allow
from .settings import CoreSettings

LOGGED = {
    "requestId": "$context.requestId",
    "routeKey": "$context.routeKey",
    "status": "$context.status",
    "userArn": "$context.identity.userArn",
    "sourceIp": "$context.identity.sourceIp",
    "error": "$context.error.message",
}
"""Fields of the access log, without content. Only this log shows requests that IAM refuses."""


ACCESS_LOGS = "/aws/vendedlogs/apigateway/"
"""Prefix of access logs. It is AWS's own, as others use up the log service's policy of 5,120 characters."""


def access_log(api: str) -> str:
    return f"{ACCESS_LOGS}{api}"


START_CALLS = ("POST/settlements", "POST/settlements/*/cancel")
READ_CALLS = ("GET/settlements", "GET/settlements/*", "GET/accounts/*/entries", "GET/journal")
"""Calls as IAM sees them. `*` stands for a key or an account id."""


class HttpApi(Construct):
    """An API with IAM authorisation. It takes `rate` calls a second, and bursts of twice that."""

    def __init__(self, core: Core, construct_id: str, *, rate: int, settings: CoreSettings) -> None:
        super().__init__(core.scope, construct_id)
        name = f"{settings.stack_name}-{construct_id.lower()}"
        self.api = apigateway.CfnApi(self, "Api", name=name, protocol_type="HTTP")
        log = logs.LogGroup(
            self,
            "Log",
            log_group_name=access_log(name),
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )
        apigateway.CfnStage(
            self,
            "Stage",
            api_id=self.api.ref,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=log.log_group_arn, format=json.dumps(LOGGED)
            ),
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_burst_limit=2 * rate, throttling_rate_limit=rate
            ),
        )

    def open(self, name: str, function: lambda_.Function, routes: Mapping[str, str], calls: str) -> None:
        """Route calls to a function. `routes` are route keys by construct name."""
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
            f"By{self.node.id}Api",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=self.arn(calls),
        )

    @property
    def url(self) -> str:
        return self.api.attr_api_endpoint

    def policy(self, name: str, description: str, calls: Sequence[str]) -> iam.CfnManagedPolicy:
        statements = [allow("Settlements", ["execute-api:Invoke"], calls)]
        return iam.CfnManagedPolicy(
            self,
            name,
            description=description,
            policy_document={"Version": "2012-10-17", "Statement": statements},
        )

    def arn(self, call: str) -> str:
        stack = self.api.stack
        return stack.format_arn(service="execute-api", resource=self.api.ref, resource_name=f"*/{call}")


class SettlementsApi(HttpApi):
    """The API to read, start and cancel settlements. `read_calls`: what readers may call."""

    def __init__(self, core: Core, settings: CoreSettings) -> None:
        super().__init__(core, "Settlements", rate=settings.api_calls_per_second, settings=settings)
        self.read_calls = [*READ_CALLS]
        self._readers: iam.CfnManagedPolicy | None = None

    def add_readers(self, description: str) -> str:
        """Add the readers' policy; return its ARN."""
        self._readers = self.policy("Reader", description, [self.arn(call) for call in self.read_calls])
        return self._readers.ref

    def let_readers(self, call: str) -> None:
        """Let readers make one more call."""
        self.read_calls.append(call)
        if self._readers:
            document = self._readers.policy_document
            document["Statement"][0]["Resource"].append(self.arn(call))
            self._readers.policy_document = document


def api_of(core: Core, settings: CoreSettings) -> SettlementsApi:
    """Return the shared API, created for the first room that needs it."""
    return core.part(SettlementsApi) or SettlementsApi(core, settings)
