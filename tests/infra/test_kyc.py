"""What the stage shares with its KYC provider: the secrets, the webhook's address, how it is asked."""

import base64
import json
import string
from pathlib import Path
from typing import Any

import pytest

from infra.kyc_settings import PROVIDERS
from infra.settings import STAGES
from settlement import kyc
from settlement.breaker import Thresholds
from settlement.terms import Terms
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
    """The secrets' logical ids, by the names that the stack gives them."""
    return {name(one): one for one in templates.resources("AWS::SecretsManager::Secret", stage)}


def resource(stage: str, secret: str) -> Any:
    return templates.resources("AWS::SecretsManager::Secret", stage)[secrets(stage)[secret]]


def variables(stage: str, function: str) -> Any:
    return properties(stage, function)["Environment"]["Variables"]


def description(stage: str) -> Any:
    """How VerifyKyc is told to ask; the secret's ARN stands in it as `${<logical id>.Id}`."""
    return json.loads(text(variables(stage, "VerifyKyc")["KYC"]))


@each_stage
def test_these_are_the_secrets(stage: str) -> None:
    assert secrets(stage).keys() == READERS.keys()


@each_secret
def test_no_value_of_a_secret_is_in_the_template(stage: str, secret: str) -> None:
    """What a template says, everybody may read who may look at the stack."""
    found = resource(stage, secret)["Properties"]

    assert found.keys() == {"GenerateSecretString"}
    known = json.loads(found["GenerateSecretString"]["SecretStringTemplate"])
    assert known == {"KycCredentials": {}, "KycSigning": {"previous": None}}[secret]


@each_secret
def test_a_new_secret_is_chance_under_the_name_that_its_function_reads(stage: str, secret: str) -> None:
    """44 characters of what base64 has, so that a webhook's key can be made of them: 33 bytes."""
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
def test_no_policy_of_a_secret_lets_anybody_else_in(stage: str) -> None:
    assert templates.resources("AWS::SecretsManager::ResourcePolicy", stage) == {}


@each_stage
def test_a_function_is_told_of_its_own_secret_only(stage: str) -> None:
    told = {
        (function, secret)
        for function in FUNCTIONS
        for secret, identifier in secrets(stage).items()
        if identifier in json.dumps(variables(stage, function))
    }

    assert told == {(reader, secret) for secret, reader in READERS.items()}
    assert arn(variables(stage, "KycDecided")["KYC_SIGNING_SECRET"], stage) == secrets(stage)["KycSigning"]
    assert description(stage)["secret_id"] == f"${{{secrets(stage)['KycCredentials']}.Id}}"


@each_secret
def test_where_money_is_real_a_secret_outlives_the_stack(stage: str, secret: str) -> None:
    policy = "Retain" if STAGES[stage].keeps_data else "Delete"

    assert resource(stage, secret)["DeletionPolicy"] == policy
    assert resource(stage, secret)["UpdateReplacePolicy"] == policy


@each_stage
def test_the_webhook_is_the_one_address_that_the_stack_gives_out(stage: str) -> None:
    """No CORS: a browser has no business there. Its calls carry a signature, so AWS asks for none."""
    (address,) = templates.resources("AWS::Lambda::Url", stage).values()

    assert address["Properties"] == {
        "AuthType": "NONE",
        "TargetFunctionArn": {"Fn::GetAtt": [function_id(stage, "KycDecided"), "Arn"]},
    }


@each_stage
def test_the_webhook_may_be_called_through_its_address_and_in_no_other_way(stage: str) -> None:
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
def test_the_public_and_settlements_cannot_use_up_the_concurrency_that_others_need(stage: str) -> None:
    """A reservation is a ceiling, too; an account that is new has not enough to give any away.

    Recovery has its own: a run, and beside it a person's call for one settlement.
    """
    reserved = {
        function: properties(stage, function)["ReservedConcurrentExecutions"]
        for function in FUNCTIONS
        if "ReservedConcurrentExecutions" in properties(stage, function)
    }

    assert reserved == ({"KycDecided": 20, "RecoverStalled": 2} if stage == "prod" else {})


@each_stage
def test_verify_kyc_can_read_how_its_stage_asks(stage: str) -> None:
    found, expected = description(stage), STAGES[stage].kyc

    endpoint = kyc.Endpoint(**found["endpoint"])

    assert found.keys() == {"endpoint", "breaker", "review_seconds", "secret_id", "runbook"}
    assert endpoint == kyc.Endpoint(
        url="https://kyc.example.com",  # as the tests' templates are told
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
    assert kyc.Client(endpoint, Terms.from_json(STAGES[stage].terms))


def test_a_stage_may_choose_from_the_providers_that_there_are() -> None:
    assert set(PROVIDERS) == kyc.PROVIDERS.keys()
    assert len(set(PROVIDERS)) == len(PROVIDERS)


@each_stage
def test_an_exchange_ends_before_its_function_does(stage: str) -> None:
    endpoint = description(stage)["endpoint"]

    seconds = endpoint["connect_timeout_seconds"] + endpoint["read_timeout_seconds"]

    assert 0 < seconds < STAGES[stage].function_timeout_seconds <= properties(stage, "VerifyKyc")["Timeout"]


@each_stage
def test_a_change_of_the_circuit_names_a_runbook_that_is_there(stage: str) -> None:
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
    """Express names may be used again at once: only the Standard machine knows that it runs already."""
    machine = logical_id(stage, "SettlementStandard")

    (allowed,) = about("states", granted(stage, "KycDecided"))

    assert allowed.actions == {"states:StartExecution"}
    assert allowed.resources == (machine,)
    assert variables(stage, "KycDecided")["SETTLEMENT_MACHINE"] == {"Ref": machine}


@each_stage
def test_the_webhook_may_not_read_the_tables_index(stage: str) -> None:
    """Whoever gets past the signature asks about one key, and is never told of others."""
    found = about("dynamodb", granted(stage, "KycDecided"))

    assert not [one for one in found if any("index" in resource for resource in one.resources)]
    assert "dynamodb:Query" not in {action for one in found for action in one.actions}
