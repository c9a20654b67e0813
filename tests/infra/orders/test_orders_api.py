from typing import Any

from handlers.orders import take_order
from infra.orders import APPROVED, DECISIONS, MOVES, routes
from infra.rooms import ORDERS
from settlement.core.model.orders import REVERSE, Decision
from settlement.orders.requests import REVERSE_PART
from tests.infra.stack import each_stage, of_function, properties

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


def test_the_apis_routes_are_the_orders_that_the_function_accepts() -> None:
    assert {*DECISIONS, *ORDERS} == take_order.ROUTES.keys()
    assert {*MOVES} == take_order.MOVES.keys()
    assert {*APPROVED} == {*map(str, Decision), REVERSE, REVERSE_PART}


@each_stage
def test_only_the_orders_api_may_call_the_orders_function(stage: str) -> None:
    """A direct invocation can claim any identity."""
    (integration,) = of_orders(stage, "Integration")
    permission = of_function(stage, "TakeOrder", "Lambda::Permission")

    assert integration["IntegrationUri"] == "${TakeOrder.Arn}"
    assert (integration["IntegrationType"], integration["PayloadFormatVersion"]) == ("AWS_PROXY", "2.0")
    assert (permission["Action"], permission["Principal"]) == (
        "lambda:InvokeFunction",
        "apigateway.amazonaws.com",
    )
    assert permission["SourceArn"].endswith(":${OrdersApi}/*/POST/orders/*")
