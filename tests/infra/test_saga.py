"""Tests a saga in another app: `infra/saga.py`, with the profiles of `infra/config.py`."""

import json
import re
from functools import cache
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from constructs import Construct

import infra
from infra import SettlementSaga, dev, kyc, orders, paging, people, prod, reading
from infra.config import Settings
from infra.core import Room
from infra.people import POLICIES
from infra.saga import EMBEDDED
from infra.settlement_stack import SettlementStack
from infra.urgency import Urgency
from tests.infra.stack import template
from tests.world import templates
from tests.world.rooms import needs, there

KYC = "https://kyc.example.com"
PLACE = {"python": "/usr/bin/python3", "kyc_url": "http://127.0.0.1:8081"}
FEW: tuple[Room, ...] = tuple(
    getattr(infra, name).ROOM for name in ("kyc", *there("doors", "doors"), "events")
)
"""Few rooms, because two sagas with all rooms exceed a stack's 500 resources."""


def settings(stage: str = "eu", **more: Any) -> Settings:
    return dev(stage=stage, currencies=("EUR",), kyc_url=KYC, **more)


def resources(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = Template.from_stack(stack).to_json()["Resources"]
    return found


def of_kind(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one["Properties"] for one in found.values() if one["Type"] == f"AWS::{kind}"]


def saga(
    identity: str = "Eu", rooms: tuple[Room, ...] = FEW, context: dict[str, Any] | None = None
) -> SettlementSaga:
    return SettlementSaga(
        Stack(templates.app(**(context or {})), "Payments"), identity, settings=settings(), rooms=rooms
    )


@cache
def one_saga() -> tuple[SettlementSaga, dict[str, Any]]:
    made = saga()
    return made, resources(Stack.of(made))


def names(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (one["Type"], key, value)
        for one in found.values()
        for key, value in one.get("Properties", {}).items()
        if key.endswith("Name") and isinstance(value, str)
    ]


def test_two_sagas_of_a_stack_share_no_names() -> None:
    stack = Stack(templates.app(), "Payments")
    for stage in ("eu", "us"):
        SettlementSaga(stack, stage.title(), settings=settings(stage), rooms=FEW)

    found = Template.from_stack(stack).to_json()
    given = [one for one in names(found["Resources"]) if one[1] not in ("MetricName", "StageName")]
    assert sorted(given) == sorted(set(given))
    assert ("AWS::Events::EventBus", "Name", "settlement-us") in given
    assert {"EuTableName", "UsTableName", "EuStageConfig", "UsStageConfig"} <= found["Outputs"].keys()
    assert "TableName" not in found["Outputs"]


def test_alerts_and_alarms_name_the_saga_as_commands_do() -> None:
    found = one_saga()[1]
    variables = [one["Environment"]["Variables"] for one in of_kind(found, "Lambda::Function")]
    (config,) = {one["PAGER"] for one in variables if "PAGER" in one}
    told = " ".join(one["AlarmDescription"] for one in of_kind(found, "CloudWatch::Alarm"))
    prefixes = set(re.findall(r"--log-group-name-prefix Payments-(\w+)", told))
    groups = {name for name, one in found.items() if one["Type"] == "AWS::Logs::LogGroup"}

    assert '"stack": "Payments/Eu"' in config
    assert "--stack Payments/Eu" in told
    assert "settlement-prod" not in told
    assert prefixes
    assert all(any(name.startswith(prefix) for name in groups) for prefix in prefixes), prefixes


def test_two_sagas_with_the_same_stage_name_are_refused() -> None:
    app = templates.app()
    SettlementSaga(Stack(app, "One", env={"region": "eu-west-1"}), "Saga", settings=settings(), rooms=FEW)
    SettlementSaga(Stack(app, "Far", env={"region": "eu-west-2"}), "Saga", settings=settings(), rooms=FEW)

    again = Stack(app, "Two", env={"region": "eu-west-1"})
    with pytest.raises(ValueError, match=r"^stage: One/Saga has eu already; give each saga its own$"):
        SettlementSaga(again, "Saga", settings=settings(), rooms=FEW)


def test_a_single_saga_has_the_resources_of_the_projects_stack() -> None:
    stack = SettlementStack(templates.app(), settings=settings("other"), rooms=FEW)

    assert {"Ledger", "Pager"} <= {one.node.id for one in stack.node.find_child("Default").node.children}
    own = {kind["Type"] for kind in template("dev").values()}
    assert {one["Type"] for one in resources(stack).values()} <= own


def granted(role: str, found: dict[str, Any]) -> set[str]:
    (logical,) = (name for name in found if name.startswith(role) and found[name]["Type"] == "AWS::IAM::Role")
    statements = [
        statement
        for one in found.values()
        if one["Type"] == "AWS::IAM::Policy" and {"Ref": logical} in one["Properties"]["Roles"]
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
    ]
    return {
        action
        for one in statements
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }


@needs("doors")
def test_grants_for_services_and_persons_give_no_table_access() -> None:
    made = saga(rooms=(*FEW, orders.ROOM, reading.ROOM, people.ROOM))
    stack = Stack.of(made)
    service = iam.ServicePrincipal("lambda.amazonaws.com")
    starter, reader = (iam.Role(stack, name, assumed_by=service) for name in ("Starter", "Reader"))
    person = iam.Role(stack, "Person", assumed_by=iam.AccountRootPrincipal())

    made.grant_start(starter)
    made.grant_read(reader)
    made.grant_order(person, "operator")

    found = resources(stack)
    started = granted("Starter", found)
    assert started == {
        *("states:StartExecution", "states:StartSyncExecution", "execute-api:Invoke"),
        *("sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"),
    }
    assert granted("Reader", found) == {"execute-api:Invoke"}
    (policies,) = (
        one["Properties"]["ManagedPolicyArns"] for name, one in found.items() if name.startswith("Person")
    )
    assert len(policies) == 1
    assert POLICIES["operator"] in policies[0]["Ref"]
    with pytest.raises(ValueError, match=r"^kind: must be one of viewer, operator, approver, break-glass$"):
        made.grant_order(person, "boss")


@needs("doors")
def test_the_saga_exposes_its_topics_bus_queue_and_api() -> None:
    made = saga(rooms=(*FEW, paging.ROOM))

    assert made.topics.keys() == {urgency.name.lower() for urgency in Urgency}
    for arn in (made.outcome_bus.event_bus_arn, made.start_queue.queue_arn, made.settlements_api_url):
        assert Stack.of(made).resolve(arn)


def test_using_a_room_that_was_left_out_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^rooms: Start is left out of this saga$"):
        saga(rooms=(kyc.ROOM,)).start_queue  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"stage": "Eu"}, "stage: must be"),
        ({"stage": "a" * 17}, "stage: must be"),
        ({"currencies": ("EURO",)}, "currencies: .*EURO"),
        ({"stage": None}, "stage: must be"),
        *(({"currencies": wrong}, "currencies: must be a list of codes") for wrong in ("EUR", (), None)),
        ({"currencies": [1]}, r"currencies: must be tuple\[str, ...\], and not \(1,\)"),
        *(({"kyc_url": wrong}, "kyc_url: must be") for wrong in ("ftp://kyc", "http://kyc", "", None)),
        ({"keeps_data": "no"}, "keeps_data: must be bool, and not 'no'"),
        ({"deadline_seconds": True}, "deadline_seconds: must be int, and not True"),
        ({"backup_days": "7"}, r"backup_days: must be int \| None, and not '7'"),
        ({"traced_percent": "1"}, "traced_percent: must be float, and not '1'"),
        ({"assets": {"POINTS": "0"}}, r"assets: must be Mapping\[str, int\], and not"),
        ({"approvals": 2}, r"approvals: must be Mapping\[str, int\], and not 2"),
        ({"concurrency": 5}, "concurrency: must be Concurrency, and not 5"),
        ({"colour": "red"}, "colour: is no setting"),
        ({"page_address": "oncall"}, "page_address: must be"),
    ],
)
def test_a_wrong_saga_prop_is_named_in_one_line(wrong: dict[str, Any], told: str) -> None:
    given = {"stage": "eu", "currencies": ("EUR",), "kyc_url": KYC} | wrong

    with pytest.raises(ValueError, match=f"^{told}") as refused:
        dev(**given)
    assert "\n" not in str(refused.value)


def test_a_saga_refuses_settings_not_from_dev_or_prod() -> None:
    with pytest.raises(ValueError, match=r"^Payments/Eu: settings: must come from dev\(...\) or prod"):
        SettlementSaga(Stack(templates.app(), "Payments"), "Eu", settings={"stage": "eu"})  # type: ignore[arg-type]


def test_prod_and_dev_profiles_have_different_defaults() -> None:
    reached = {"page_address": "oncall@example.com", "runbooks": "https://runbooks.example.com"}
    ours = prod(stage="eu", currencies=("EUR",), kyc_url=KYC, **reached)

    assert (ours.approvals["write-off"], ours.must_reach_people, ours.log_detail) == (2, True, "lean")
    assert (settings().log_detail, settings().warm_write_units) == ("full", None)
    with pytest.raises(ValueError, match=r"^runbooks: name the HTTPS address"):
        prod(stage="eu", currencies=("EUR",), kyc_url=KYC, page_address="a@b.example", runbooks="http://x")


@pytest.mark.parametrize("profile", [dev, prod], ids=lambda profile: profile.__name__)
def test_with_the_embedded_context_any_saga_runs_locally(profile: Any) -> None:
    stack = Stack(templates.app(**{EMBEDDED: json.dumps(PLACE)}), "Payments")
    given = {"page_address": "oncall@example.com", "runbooks": "https://runbooks.example.com"}
    own = {"fee_basis_points": 250, **(given if profile is prod else {})}
    SettlementSaga(stack, "Eu", settings=profile(stage="eu", currencies=("EUR",), kyc_url=KYC, **own))

    found = resources(stack)
    variables = [one["Environment"]["Variables"] for one in of_kind(found, "Lambda::Function")]
    (provider,) = (str(one["KYC"]) for one in variables if "KYC" in one)
    assert "WarmThroughput" not in of_kind(found, "DynamoDB::Table")[0]
    assert {one["PYTHON"] for one in variables} == {"/usr/bin/python3"}
    assert "http://127.0.0.1:8081" in provider
    assert json.loads(variables[0]["STAGE_CONFIG"])["fee_basis_points"] == 250


def test_the_embedded_settings_are_refused_in_an_account_of_aws() -> None:
    made = saga(context={EMBEDDED: json.dumps(PLACE)})

    rules = Template.from_stack(Stack.of(made)).to_json()["Rules"]
    (own,) = (one for name, one in rules.items() if name.startswith("EuOnlyOnTheEmbeddedAws"))
    (refusal,) = own["Assertions"]
    assert refusal["Assert"] == {"Fn::Equals": [{"Ref": "AWS::AccountId"}, "000000000000"]}
    assert "OnlyOnTheEmbeddedAws" not in json.dumps(templates.template("prod").get("Rules", {}))


@pytest.mark.parametrize("given", ["yes", "1", "[]", '{"python": "p"}', {"python": "p"}])
def test_an_invalid_embedded_context_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^settlement-saga:embedded: only `settle local deploy` gives"):
        saga(context={EMBEDDED: given})


def test_a_saga_protects_its_stack_and_has_the_tested_flags() -> None:
    made, _ = one_saga()
    flag = "@aws-cdk/aws-lambda:recognizeLayerVersion"

    assert Stack.of(made).termination_protection is True
    assert (made.node.try_get_context(flag), Stack.of(made).node.try_get_context(flag)) == (True, None)


@pytest.mark.parametrize("name", ["my-saga", "1st", "A" * 25])
def test_a_saga_id_that_commands_cannot_find_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be a stack's child, of up to 24 letters and digits$"):
        saga(name)


def test_a_saga_below_another_construct_is_refused() -> None:
    platform = Construct(Stack(templates.app(), "Payments"), "Platform")

    with pytest.raises(ValueError, match=r"^Payments/Platform/Saga: must be a stack's child"):
        SettlementSaga(platform, "Saga", settings=settings(), rooms=FEW)
