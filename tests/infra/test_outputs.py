"""The stack's outputs: the contract with the services that start settlements."""

from typing import Any

import pytest

from infra.config import STAGES
from settlement.model.stage_config import StageConfig
from tests.infra.iam import arn, attribute
from tests.infra.machines import MACHINES, bus, function_id, name
from tests.infra.rules import RULES, target
from tests.support import templates

each_stage = pytest.mark.parametrize("stage", STAGES)

CONTRACT = {
    "TableName",
    "SettlementExpressArn",
    "SettlementStandardArn",
    "CompensationArn",
    "EventBusName",
    "PagerTopicArn",
    "KycWebhookUrl",
    "KycCredentialsArn",
    "KycSigningArn",
    "RecoverStalledArn",
    "StartQueueUrl",
    "StartDeadLetterQueueUrl",
    "StageConfig",
}


def outputs(stage: str) -> dict[str, Any]:
    found = templates.template(stage).to_json()["Outputs"]
    return {name: output["Value"] for name, output in found.items()}


@each_stage
def test_the_outputs_are_the_contract(stage: str) -> None:
    assert outputs(stage).keys() == CONTRACT


@each_stage
def test_no_output_claims_a_name_for_the_whole_account(stage: str) -> None:
    assert [name for name, output in raw(stage).items() if "Export" in output] == []


@each_stage
def test_the_table_name_is_the_tables(stage: str) -> None:
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    assert outputs(stage)["TableName"] == {"Ref": table}


@each_stage
@pytest.mark.parametrize("machine", MACHINES)
def test_each_machines_arn_is_that_of_its_name_and_type(stage: str, machine: str) -> None:
    machines = templates.resources("AWS::StepFunctions::StateMachine", stage)

    found = outputs(stage)[f"{machine}Arn"]["Ref"]

    assert name(found) == machine
    assert machines[found]["Properties"]["StateMachineType"] == MACHINES[machine]


@each_stage
def test_the_bus_is_an_output_by_its_name(stage: str) -> None:
    """The name and not the ARN: another stack's rule needs the name."""
    assert outputs(stage)["EventBusName"] == {"Ref": bus(stage)}


@each_stage
def test_the_topic_to_subscribe_to_is_the_pagers(stage: str) -> None:
    """Every alert goes there: a second topic would have no subscribers."""
    for rule in RULES:
        assert outputs(stage)["PagerTopicArn"] == target(stage, rule)["Arn"]


@each_stage
def test_the_address_to_give_to_the_provider_is_the_webhooks(stage: str) -> None:
    (address,) = templates.resources("AWS::Lambda::Url", stage)

    assert outputs(stage)["KycWebhookUrl"] == {"Fn::GetAtt": [address, "FunctionUrl"]}


@each_stage
@pytest.mark.parametrize("secret", ["Credentials", "Signing"])
def test_a_secret_is_named_by_its_arn_and_its_value_is_no_output(stage: str, secret: str) -> None:
    """By the attribute, as its Ref is the ARN on AWS, but the name on the embedded AWS."""
    found = arn(outputs(stage)[f"Kyc{secret}Arn"], stage)

    assert name(found) == f"Kyc{secret}"
    assert found in templates.resources("AWS::SecretsManager::Secret", stage)
    assert "resolve:secretsmanager" not in str(raw(stage))


@each_stage
def test_the_function_that_a_person_may_call_for_one_settlement_is_the_recovery(stage: str) -> None:
    assert arn(outputs(stage)["RecoverStalledArn"], stage) == function_id(stage, "RecoverStalled")


@each_stage
def test_the_outputs_name_the_queue_that_is_read_and_its_dead_letter_queue(stage: str) -> None:
    """Crossed, upstream services would send payments to a queue that no function reads."""
    (mapping,) = templates.resources("AWS::Lambda::EventSourceMapping", stage).values()
    queue = attribute(mapping["Properties"]["EventSourceArn"])
    redrive = templates.resources("AWS::SQS::Queue", stage)[queue]["Properties"]["RedrivePolicy"]

    assert outputs(stage)["StartQueueUrl"] == {"Ref": queue}
    assert outputs(stage)["StartDeadLetterQueueUrl"] == {"Ref": attribute(redrive["deadLetterTargetArn"])}


@each_stage
def test_the_configuration_is_that_of_the_functions(stage: str) -> None:
    assert outputs(stage)["StageConfig"] == templates.stage_config_json(stage)
    assert set(StageConfig.from_json(outputs(stage)["StageConfig"]).currencies) == set(
        STAGES[stage].currencies
    )


def raw(stage: str) -> dict[str, Any]:
    found: dict[str, Any] = templates.template(stage).to_json()["Outputs"]
    return found
