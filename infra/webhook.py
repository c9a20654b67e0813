"""A public address for signed calls: a function URL, or an HTTP API that throttles."""

from dataclasses import dataclass

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from .http_api import access_log
from .pager import Pager
from .settings import API_CALLS_MAX, CoreSettings
from .urgency import Urgency

_REFUSED_MANY = 100
"""Refusals in five minutes that raise the alarm. A provider repeats a call about ten times."""

_LOGGED = ("requestId", "requestTime", "httpMethod", "status", "integrationStatus")
"""Fields of the access log, without content and caller."""


@dataclass(frozen=True, kw_only=True)
class WebhookSettings(CoreSettings):
    webhook: str = "function-url"
    webhook_calls_per_second: int = 50
    webhook_burst: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.webhook not in ("function-url", "http-api"):
            raise ValueError("webhook: must be function-url or http-api")
        self._check_whole("webhook_calls_per_second", 1, API_CALLS_MAX)
        self._check_whole("webhook_burst", 1, API_CALLS_MAX)


@dataclass(frozen=True, kw_only=True)
class Receiver:
    """A webhook's function. `name` ends the API's physical name. `path` is the API's only route."""

    function: lambda_.Function
    name: str
    path: str
    alarm: str
    described: str


class Webhook(Construct):
    """A webhook's address, and the alarm on refused calls.

    Calls have a signature instead of AWS credentials. The handler checks it first.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        receiver: Receiver,
        pager: Pager,
        settings: WebhookSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        function, alarm = receiver.function, receiver.alarm
        if settings.webhook == "http-api":
            api = self._http_api(receiver, settings)
            self.url = f"{api.api_endpoint}/"
            self.refused = api.metric_client_error(period=Duration.minutes(5), statistic="Sum")
        else:
            self.url = function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE).url
            self.refused = function.metric("Url4xxCount", period=Duration.minutes(5), statistic="Sum")
        described = receiver.described
        pager.alarm(alarm, self.refused, described, threshold=_REFUSED_MANY, urgency=Urgency.MORNING)

    def _http_api(self, receiver: Receiver, settings: WebhookSettings) -> http.HttpApi:
        name = f"{settings.stack_name}-{receiver.name}"
        api = http.HttpApi(self, "Api", api_name=name, create_default_stage=False)
        api.add_routes(
            path=receiver.path,
            methods=[http.HttpMethod.POST],
            integration=HttpLambdaIntegration("Function", receiver.function),
        )
        log_group = logs.LogGroup(
            self,
            "Calls",
            log_group_name=access_log(name),
            retention=settings.log_retention,
            removal_policy=settings.removal_policy,
        )
        http.CfnStage(
            self,
            "Stage",
            api_id=api.api_id,
            stage_name="$default",
            auto_deploy=True,
            access_log_settings=http.CfnStage.AccessLogSettingsProperty(
                destination_arn=log_group.log_group_arn,
                format=Stack.of(self).to_json_string({name: f"$context.{name}" for name in _LOGGED}),
            ),
            default_route_settings=http.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=settings.webhook_calls_per_second,
                throttling_burst_limit=settings.webhook_burst,
            ),
        )
        return api
