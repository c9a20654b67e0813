"""The stage's side of its KYC provider: the secrets, the webhook's address, the client's settings."""

import base64
import json
import string
from pathlib import Path
from typing import Any

import pytest

from infra.config import STAGES
from infra.kyc_config import PROVIDERS
from settlement.adapters import kyc_client
from settlement.adapters.kyc_circuit import Thresholds
from settlement.model.stage_config import StageConfig
from tests.infra.iam import arn, attribute, statements, text
from tests.infra.machines import bus, each_stage, function_id, logical_id, name
from tests.infra.test_functions import FUNCTIONS, properties
from tests.infra.test_grants import about, granted
from tests.support import templates
from tests.support.templates import PROJECT

READERS = {"KycCredentials": "VerifyKyc", "KycSigning": "KycDecided"}
"""Each secret, and the one function that needs it."""

each_secret = pytest.mark.parametrize(
    ("stage", "secret"), [(stage, secret) for stage in STAGES for secret in READERS]
)


def secrets(stage: str) -> dict[str, str]:
    """Return the secrets' logical ids, by their names in the stack."""
    return {name(one): one for one in templates.resources("AWS::SecretsManager::Secret", stage)}


def resource(stage: str, secret: str) -> Any:
    return templates.resources("AWS::SecretsManager::Secret", stage)[secrets(stage)[secret]]


def variables(stage: str, function: str) -> Any:
    return properties(stage, function)["Environment"]["Variables"]


def description(stage: str) -> Any:
    """Return VerifyKyc's settings of the provider, with the secret's ARN as `${<logical id>.Id}`."""
    return json.loads(text(variables(stage, "VerifyKyc")["KYC"]))


@each_stage
def test_these_are_the_secrets(stage: str) -> None:
    assert secrets(stage).keys() == READERS.keys()


@each_secret
def test_no_value_of_a_secret_is_in_the_template(stage: str, secret: str) -> None:
    """Every person who may describe the stack can read its template."""
    found = resource(stage, secret)["Properties"]

    assert found.keys() == {"GenerateSecretString"}
    known = json.loads(found["GenerateSecretString"]["SecretStringTemplate"])
    assert known == {"KycCredentials": {}, "KycSigning": {"previous": None}}[secret]


@each_secret
def test_a_new_secret_is_random_under_the_name_that_its_function_reads(stage: str, secret: str) -> None:
    """44 characters of base64 make a webhook's key of 33 bytes."""
    generated = resource(stage, secret)["Properties"]["GenerateSecretString"]

    assert generated["GenerateStringKey"] == {"KycCredentials": "api_key", "KycSigning": "current"}[secret]
    assert set(string.punctuation) <= set(generated["ExcludeCharacters"])
    assert not generated.get("IncludeSpace")
    assert len(base64.b64decode("x" * generated["PasswordLength"], validate=True)) >= 24


@each_secret
def test_a_secret_can_be_read_by_exactly_one_function(stage: str, secret: str) -> None:
    reading = {
        role
        for role in templates.resources("AWS::IAM::Role", stage)
        for one in about("secretsmanager", statements(role, stage))
        if secrets(stage)[secret] in one.resources or any("*" in resource for resource in one.resources)
    }

    assert reading == {attribute(properties(stage, READERS[secret])["Role"])}


@each_secret
def test_a_function_may_read_its_secret_and_neither_change_nor_list_it(stage: str, secret: str) -> None:
    (allowed,) = about("secretsmanager", granted(stage, READERS[secret]))

    assert allowed.actions == {"secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"}
    assert allowed.resources == (secrets(stage)[secret],)


@each_stage
def test_no_secret_has_a_policy_of_its_own(stage: str) -> None:
    assert templates.resources("AWS::SecretsManager::ResourcePolicy", stage) == {}


@each_stage
def test_a_function_knows_its_own_secret_only(stage: str) -> None:
    known = {
        (function, secret)
        for function in FUNCTIONS
        for secret, identifier in secrets(stage).items()
        if identifier in json.dumps(variables(stage, function))
    }

    assert known == {(reader, secret) for secret, reader in READERS.items()}
    assert arn(variables(stage, "KycDecided")["KYC_SIGNING_SECRET"], stage) == secrets(stage)["KycSigning"]
    assert description(stage)["secret_id"] == f"${{{secrets(stage)['KycCredentials']}.Id}}"


@each_secret
def test_where_money_is_real_a_secret_outlives_the_stack(stage: str, secret: str) -> None:
    policy = "Retain" if STAGES[stage].keeps_data else "Delete"

    assert resource(stage, secret)["DeletionPolicy"] == policy
    assert resource(stage, secret)["UpdateReplacePolicy"] == policy


@each_stage
def test_the_webhook_is_the_stacks_only_public_address(stage: str) -> None:
    """No CORS: a browser has no business there. Its calls carry a signature, so AWS asks for none."""
    (address,) = templates.resources("AWS::Lambda::Url", stage).values()

    assert address["Properties"] == {
        "AuthType": "NONE",
        "TargetFunctionArn": {"Fn::GetAtt": [function_id(stage, "KycDecided"), "Arn"]},
    }


@each_stage
def test_the_webhook_can_be_called_through_its_address_only(stage: str) -> None:
    """AWS asks for both permissions; either without its restriction lets any account invoke the function."""
    webhook = {"Fn::GetAtt": [function_id(stage, "KycDecided"), "Arn"]}
    permissions = [
        one["Properties"] for one in templates.resources("AWS::Lambda::Permission", stage).values()
    ]

    assert sorted(permissions, key=str) == sorted(
        [
            {
                "Action": "lambda:InvokeFunctionUrl",
                "FunctionName": webhook,
                "FunctionUrlAuthType": "NONE",
                "Principal": "*",
            },
            {
                "Action": "lambda:InvokeFunction",
                "FunctionName": webhook,
                "InvokedViaFunctionUrl": True,
                "Principal": "*",
            },
        ],
        key=str,
    )


@each_stage
def test_the_webhook_is_limited_and_recovery_has_its_own_concurrency(stage: str) -> None:
    """A reservation is a limit, too; a new account has not enough concurrency to reserve any.

    Recovery has its own: a run, and beside it a person's call for one settlement.
    """
    reserved = {
        function: properties(stage, function)["ReservedConcurrentExecutions"]
        for function in FUNCTIONS
        if "ReservedConcurrentExecutions" in properties(stage, function)
    }

    assert reserved == ({"KycDecided": 20, "RecoverStalled": 2} if stage == "prod" else {})


@each_stage
def test_verify_kyc_can_read_its_settings_of_the_provider(stage: str) -> None:
    found, expected = description(stage), STAGES[stage].kyc

    endpoint = kyc_client.Endpoint(**found["endpoint"])

    assert found.keys() == {"endpoint", "breaker", "review_seconds", "secret_id", "runbook"}
    assert endpoint == kyc_client.Endpoint(
        url="https://kyc.example.com",  # in the context of the tests' templates
        provider=expected.provider,
        dataset=expected.dataset,
        connect_timeout_seconds=expected.connect_timeout_seconds,
        read_timeout_seconds=expected.read_timeout_seconds,
    )
    assert Thresholds(**found["breaker"]) == Thresholds(
        failures=expected.failures,
        within_seconds=expected.failures_within_seconds,
        recovery_seconds=expected.recovery_seconds,
    )
    assert found["review_seconds"] == expected.review_seconds
    assert kyc_client.Client(endpoint, StageConfig.from_json(STAGES[stage].stage_config))


def test_a_stage_may_choose_every_provider_that_has_a_module() -> None:
    assert set(PROVIDERS) == kyc_client.PROVIDERS.keys()
    assert len(set(PROVIDERS)) == len(PROVIDERS)


@each_stage
def test_an_exchange_ends_before_its_function_does(stage: str) -> None:
    endpoint = description(stage)["endpoint"]

    seconds = endpoint["connect_timeout_seconds"] + endpoint["read_timeout_seconds"]

    assert 0 < seconds < STAGES[stage].function_timeout_seconds <= properties(stage, "VerifyKyc")["Timeout"]


@each_stage
def test_a_change_of_the_circuit_names_an_existing_runbook(stage: str) -> None:
    runbook = description(stage)["runbook"]

    assert runbook == f"{STAGES[stage].runbooks}/kyc-outage.md"
    assert (PROJECT / "docs" / "runbooks" / Path(runbook).name).is_file()


@each_stage
def test_verify_kyc_may_put_events_on_the_stages_bus_only(stage: str) -> None:
    (allowed,) = about("events", granted(stage, "VerifyKyc"))

    assert allowed.actions == {"events:PutEvents"}
    assert allowed.resources == (bus(stage),)
    assert variables(stage, "VerifyKyc")["EVENT_BUS"] == {"Ref": bus(stage)}


@each_stage
def test_a_verdict_starts_the_standard_settlement_and_nothing_else(stage: str) -> None:
    """Express takes the same name again at once: only a Standard machine knows that it runs already."""
    machine = logical_id(stage, "SettlementStandard")

    (allowed,) = about("states", granted(stage, "KycDecided"))

    assert allowed.actions == {"states:StartExecution"}
    assert allowed.resources == (machine,)
    assert variables(stage, "KycDecided")["SETTLEMENT_MACHINE"] == {"Ref": machine}


@each_stage
def test_the_webhook_may_not_read_the_tables_index(stage: str) -> None:
    """A caller with a valid signature names one key, and learns nothing about others."""
    found = about("dynamodb", granted(stage, "KycDecided"))

    assert not [one for one in found if any("index" in resource for resource in one.resources)]
    assert "dynamodb:Query" not in {action for one in found for action in one.actions}
