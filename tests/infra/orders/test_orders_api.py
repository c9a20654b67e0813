import json
from typing import Any

from handlers.orders import take_order
from infra.orders import APPROVED, DECISIONS, MOVES, routes
from infra.rooms import ORDERS
from settlement.core.model.orders import REVERSE, Decision
from settlement.orders.requests import REVERSE_PART
from tests.infra.stack import each_stage, properties

ROUTES = routes(ORDERS)


def of_orders(stage: str, kind: str) -> list[dict[str, Any]]:
    found = properties(stage, f"ApiGatewayV2::{kind}")
    return [one for name, one in found.items() if name.startswith("Orders")]


@each_stage
def test_each_order_has_its_own_route_and_a_proven_caller(stage: str) -> None:
    found = of_orders(stage, "Route")

    assert {one["RouteKey"] for one in found} == {f"POST /orders/{route}" for route in ROUTES}
    assert {one["AuthorizationType"] for one in found} == {"AWS_IAM"}
    assert len(found) == len(ROUTES)


def test_the_routes_are_the_orders_that_the_function_takes() -> None:
    assert {*DECISIONS, *ORDERS} == take_order.ROUTES.keys()
    assert {*MOVES} == take_order.MOVES.keys()
    assert {*APPROVED} == {*map(str, Decision), REVERSE, REVERSE_PART}


@each_stage
def test_all_routes_call_one_function_and_only_this_api_may(stage: str) -> None:
    """A direct invocation can claim any identity."""
    (integration,) = of_orders(stage, "Integration")
    (permission,) = (
        one
        for one in properties(stage, "Lambda::Permission").values()
        if one["FunctionName"] == "${TakeOrder.Arn}"
    )

    assert integration["IntegrationUri"] == "${TakeOrder.Arn}"
    assert (integration["IntegrationType"], integration["PayloadFormatVersion"]) == ("AWS_PROXY", "2.0")
    assert (permission["Action"], permission["Principal"]) == (
        "lambda:InvokeFunction",
        "apigateway.amazonaws.com",
    )
    assert permission["SourceArn"].endswith(":${OrdersApi}/*/POST/orders/*")


@each_stage
def test_calls_are_logged_and_bounded_and_no_browser_is_answered(stage: str) -> None:
    """The log has each call's caller, and not its order."""
    (api,), (settings,) = of_orders(stage, "Api"), of_orders(stage, "Stage")

    logged = json.loads(settings["AccessLogSettings"]["Format"])
    assert logged.keys() == {"requestId", "routeKey", "status", "userArn", "sourceIp", "error"}
    assert settings["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 20, "ThrottlingRateLimit": 10}
    assert api["ProtocolType"] == "HTTP"
    assert "CorsConfiguration" not in api
