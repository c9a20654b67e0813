import pytest

from tests.infra.evaluator import Request, allows
from tests.infra.reading.test_settlements_api import ARN
from tests.infra.stack import each_stage, properties


@each_stage
@pytest.mark.parametrize(
    ("call", "is_allowed"),
    [
        ("POST/settlements", True),
        ("POST/settlements/order-2026-000117/cancel", True),
        ("POST/settlements/order-2026-000117", False),
        ("GET/settlements/order-2026-000117", False),
    ],
)
def test_a_starters_policy_only_allows_starting_and_cancelling(
    stage: str, call: str, is_allowed: bool
) -> None:
    policy = properties(stage, "IAM::ManagedPolicy")["SettlementsStarter"]["PolicyDocument"]["Statement"]

    assert allows(policy, Request("execute-api:Invoke", f"{ARN}/{call}")) == is_allowed
    assert {action for one in policy for action in one["Action"]} == {"execute-api:Invoke"}
