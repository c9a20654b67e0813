"""The policies of a narrower execution role; `make templates` compares them with AWS's schemas."""

import json

import pytest

from tests.infra.test_limits import STAGES, Deployed
from tests.world.templates import PROJECT
from tools.execution_role import POLICIES, documents

DOCUMENTS = json.loads(POLICIES.read_text())
ACTIONS = [action for document in DOCUMENTS for action in document["Statement"][0]["Action"]]
SIZE_MAX, POLICIES_MAX = 6_144, 10
"""IAM's limits on a managed policy and on a role."""

NAMED_OTHERWISE = {"apigatewayv2": "apigateway", "stepfunctions": "states", "cdk": "ssm"}


@pytest.mark.parametrize("stage", STAGES)
def test_the_execution_role_allows_each_service_of_a_template(stage: str) -> None:
    services = {one["Type"].split("::")[1].lower() for one in Deployed(stage).resources.values()}

    assert {NAMED_OTHERWISE.get(one, one) for one in services} <= {one.partition(":")[0] for one in ACTIONS}
    assert {"iam:PassRole", "iam:CreateServiceLinkedRole", "secretsmanager:GetSecretValue"} <= {*ACTIONS}


def test_the_delivery_page_names_each_service_of_a_template() -> None:
    services = {one["Type"].split("::")[1].lower() for one in Deployed("everything").resources.values()}
    page = (PROJECT / "docs/operating/delivery.md").read_text()

    assert [one for one in services if f"`{NAMED_OTHERWISE.get(one, one)}`" not in page] == []


def test_the_policies_fit_iams_limits_without_repeating_an_action() -> None:
    sizes = [len(json.dumps(one, separators=(",", ":"))) for one in DOCUMENTS]

    assert max(sizes) < SIZE_MAX
    assert len(DOCUMENTS) < POLICIES_MAX
    assert len(ACTIONS) == len({*ACTIONS})
    assert {one["Statement"][0]["Effect"] for one in DOCUMENTS} == {"Allow"}


def test_actions_are_split_into_policies_below_the_size_limit() -> None:
    actions = [f"service:Action{number:04}" for number in range(600)]
    found = documents(reversed(actions))

    assert len(found) > 1
    assert [action for one in found for action in one["Statement"][0]["Action"]] == actions
    assert all(len(json.dumps(one, separators=(",", ":"))) < SIZE_MAX for one in found)
