import json

import pytest

from handlers.reading import read_settlements
from infra.config import STAGES
from infra.grants import WAITING_SECONDS
from infra.reading import READS
from settlement.reading.queries import WAIT_SECONDS_MAX
from tests.infra.evaluator import Request, allows
from tests.infra.stack import each_stage, of_function, properties
from tests.world.rooms import brought

ARN = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${SettlementsApi}/$default"


def called(stage: str, target: str) -> str:
    name = target.removeprefix("integrations/${").removesuffix("}")
    return str(properties(stage, "ApiGatewayV2::Integration")[name]["IntegrationUri"])


@each_stage
def test_each_route_calls_its_own_function_and_demands_a_signature(stage: str) -> None:
    every = properties(stage, "ApiGatewayV2::Route").items()
    routes = [one for name, one in every if name.startswith("Settlements")]

    assert {f"GET {path}" for path in READS.values()} == read_settlements.ROUTES.keys()
    assert {one["AuthorizationType"] for one in routes} == {"AWS_IAM"}
    found = {one["RouteKey"]: called(stage, one["Target"]) for one in routes}
    assert found == {
        **dict.fromkeys(read_settlements.ROUTES, "${ReadSettlements.Arn}"),
        **{
            route: f"${{{name}.Arn}}"
            for room in brought("infra", "routes")
            if stage in getattr(room, "STAGES", STAGES)
            for route, name in room.ROUTES.items()
        },
    }


CALLED = [
    *((stage, "ReadSettlements", "GET/*") for stage in STAGES),
    *(
        (stage, name, calls)
        for room in brought("infra", "routes")
        for stage in getattr(room, "STAGES", STAGES)
        for name, calls in room.CALLED.items()
    ),
]


@pytest.mark.parametrize(("stage", "function", "calls"), CALLED)
def test_only_the_apis_routes_may_call_the_function(stage: str, function: str, calls: str) -> None:
    permission = of_function(stage, function, "Lambda::Permission")

    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceArn"].endswith(f":${{SettlementsApi}}/*/{calls}")


@each_stage
@pytest.mark.parametrize("of", ["Orders", "Settlements"])
def test_api_calls_are_logged_and_throttled_and_have_no_cors(stage: str, of: str) -> None:
    """The log has each call's caller, not its content."""
    (api,), (settings,) = (
        [one for name, one in properties(stage, f"ApiGatewayV2::{kind}").items() if name.startswith(of)]
        for kind in ("Api", "Stage")
    )

    logged = json.loads(settings["AccessLogSettings"]["Format"])
    assert logged.keys() == {"requestId", "routeKey", "status", "userArn", "sourceIp", "error"}
    rate = 10 if of == "Orders" else STAGES[stage].api_calls_per_second
    assert settings["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 2 * rate, "ThrottlingRateLimit": rate}
    assert (api["ProtocolType"], api["Name"]) == ("HTTP", f"{STAGES[stage].stack_name}-{of.lower()}")
    assert "CorsConfiguration" not in api


@each_stage
@pytest.mark.parametrize(
    ("call", "is_allowed"),
    [
        ("GET/settlements", True),
        ("GET/settlements/order-2026-000117", True),
        ("GET/accounts/fees:EUR/entries", True),
        ("GET/journal", True),
        ("POST/settlements", False),
        ("POST/settlements/order-2026-000117/cancel", False),
        ("GET/accounts/alice", False),
    ],
)
def test_a_readers_policy_only_allows_reading(stage: str, call: str, is_allowed: bool) -> None:
    policy = properties(stage, "IAM::ManagedPolicy")["SettlementsReader"]["PolicyDocument"]["Statement"]

    assert allows(policy, Request("execute-api:Invoke", f"{ARN}/{call}")) == is_allowed
    assert {action for one in policy for action in one["Action"]} == {"execute-api:Invoke"}


def test_the_longest_wait_and_a_last_read_fit_one_call() -> None:
    assert WAIT_SECONDS_MAX + 6 < WAITING_SECONDS < 30
