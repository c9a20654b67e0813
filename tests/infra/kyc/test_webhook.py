import re
from typing import Any

from tests.infra.stack import changed


def template() -> dict[str, Any]:
    return changed(webhook="http-api", webhook_calls_per_second=7, webhook_burst=9)


_OTHER_DOORS = re.compile(r"Orders|Settlements(Api|Stage|.*Integration|.*Route)|.*By(Orders|Settlements)Api")


def of(kind: str) -> list[Any]:
    return [
        one["Properties"]
        for name, one in template().items()
        if one["Type"] == f"AWS::{kind}" and not _OTHER_DOORS.match(name)
    ]


def test_an_http_api_with_one_route_replaces_the_function_url() -> None:
    """Some organisations forbid function URLs, because their permission admits all accounts."""
    (route,), (integration,) = of("ApiGatewayV2::Route"), of("ApiGatewayV2::Integration")
    (permission,) = (one for one in of("Lambda::Permission") if "apigateway" in one["Principal"])

    assert of("Lambda::Url") == []
    assert [one for one in of("Lambda::Permission") if one["Principal"] == "*"] == []
    # Its calls carry a signature.
    assert (route["RouteKey"], route["AuthorizationType"]) == ("POST /", "NONE")
    assert integration["PayloadFormatVersion"] == "2.0"
    assert integration["IntegrationUri"] == permission["FunctionName"] == "${KycDecided.Arn}"
    assert permission["SourceArn"].endswith("/*/*/")


def test_the_api_throttles_calls_and_logs_no_content_or_caller() -> None:
    (stage,) = of("ApiGatewayV2::Stage")

    assert stage["StageName"] == "$default"
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 7, "ThrottlingBurstLimit": 9}
    logged = stage["AccessLogSettings"]["Format"]
    assert "$context.status" in logged
    for personal in ("identity", "authorizer", "header", "path", "error"):
        assert personal not in logged


def test_the_alarm_on_refused_webhooks_watches_the_api() -> None:
    (alarm,) = (
        one["Properties"]
        for one in template().values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
        and "webhook refuses" in one["Properties"]["AlarmDescription"]
    )

    assert (alarm["Namespace"], alarm["MetricName"], alarm["Threshold"]) == ("AWS/ApiGateway", "4xx", 100)
