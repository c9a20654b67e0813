"""The public address of the webhook: a function URL, or an HTTP API with a throttle."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_apigatewayv2 as http
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.aws_apigatewayv2_integrations import HttpLambdaIntegration
from constructs import Construct

from infra.config import Settings
from infra.pager import Pager

_REFUSED_MANY = 100
"""The refusals in five minutes at which a person looks: a provider repeats a call some ten times."""

_FIVE_MINUTES = Duration.minutes(5)
_LOGGED = ("requestId", "requestTime", "httpMethod", "status", "integrationStatus")
"""What the HTTP API logs of a call: neither its content nor its caller."""


class Webhook(Construct):
    """The address, and the alarm on the calls that it refuses.

    Its calls carry a signature, so AWS asks for none. The handler checks it before anything else.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        pager: Pager,
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        if settings.webhook == "http-api":
            api = self._http_api(function, settings)
            self.url = f"{api.api_endpoint}/"
            self.refused = api.metric_client_error(period=_FIVE_MINUTES, statistic="Sum")
        else:
            self.url = function.add_function_url(auth_type=lambda_.FunctionUrlAuthType.NONE).url
            self.refused = function.metric("Url4xxCount", period=_FIVE_MINUTES, statistic="Sum")
        pager.alarm(
            "WebhookRefused",
            self.refused,
            "The webhook refuses many calls: a wrong secret, or strangers.",
            threshold=_REFUSED_MANY,
        )

    def _http_api(self, function: lambda_.Function, settings: Settings) -> http.HttpApi:
        """Return an API with one route. What is beyond its throttle never reaches the function."""
        api = http.HttpApi(
            self, "Api", api_name=f"{Stack.of(self).stack_name}-webhook", create_default_stage=False
        )
        api.add_routes(
            path="/",
            methods=[http.HttpMethod.POST],
            integration=HttpLambdaIntegration("Function", function),
        )
        log_group = logs.LogGroup(
            self,
            "Calls",
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
