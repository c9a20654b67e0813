import base64
import json
import string
from typing import Any

import pytest

from infra.config import STAGES
from infra.kyc_config import PROVIDERS
from settlement.core.model.stage_config import StageConfig
from settlement.http.circuit import Thresholds
from settlement.kyc import client as kyc_client
from tests.infra.stack import (
    FUNCTIONS,
    KYC_URL,
    PAYING,
    each_stage,
    properties,
    runbooks,
    variables,
)
from tests.world.templates import PROJECT

READERS = {"KycCredentials": "VerifyKyc", "KycSigning": "KycDecided"}
"""Each secret and its only reader. test_roles.py excludes other readers."""

NEW = {"KycCredentials": ({}, "api_key"), "KycSigning": ({"previous": None}, "current")}
"""Each new secret's known fields, and the name of its random field."""


def description(stage: str) -> Any:
    return json.loads(variables(stage, "VerifyKyc")["KYC"])


@each_stage
def test_a_new_secret_is_random_and_not_in_the_template(stage: str) -> None:
    """Anyone allowed to describe the stack can read its template.

    44 base64 characters make a webhook key of 33 bytes.
    """
    found = properties(stage, "SecretsManager::Secret")

    payouts = {"PayoutsCredentials", "PayoutsSigning"} if stage in PAYING else set()
    assert found.keys() - READERS.keys() == {"RowKeysSecret1", *payouts}
    for secret, (known, random) in NEW.items():
        assert found[secret].keys() == {"GenerateSecretString"}
        generated = found[secret]["GenerateSecretString"]
        assert json.loads(generated["SecretStringTemplate"]) == known
        assert generated["GenerateStringKey"] == random
        assert set(string.punctuation) <= set(generated["ExcludeCharacters"])
        assert not generated.get("IncludeSpace")
        assert len(base64.b64decode("x" * generated["PasswordLength"], validate=True)) >= 24


@each_stage
def test_a_function_knows_its_own_secret_only(stage: str) -> None:
    known = {
        (function, secret)
        for function in FUNCTIONS
        for secret in READERS
        if f"${{{secret}" in json.dumps(variables(stage, function))
    }

    assert known == {(reader, secret) for secret, reader in READERS.items()}
    assert variables(stage, "KycDecided")["KYC_SIGNING_SECRET"] == "${KycSigning.Id}"
    assert description(stage)["secret_id"] == "${KycCredentials.Id}"
    assert variables(stage, "VerifyKyc")["EVENT_BUS"] == "${PagerBus}"


@each_stage
def test_the_webhook_can_only_be_called_by_its_public_address(stage: str) -> None:
    """The provider signs its calls, so AWS requires no authentication. No browser needs CORS.

    Without its condition, either permission would let any account invoke the function.
    """
    webhook = {"FunctionName": "${KycDecided.Arn}", "Principal": "*"}

    assert properties(stage, "Lambda::Url")["KycDecidedFunctionUrl"] == {
        "AuthType": "NONE",
        "TargetFunctionArn": "${KycDecided.Arn}",
    }
    permissions = properties(stage, "Lambda::Permission")
    assert {name: one for name, one in permissions.items() if name.startswith("KycDecided")} == {
        "KycDecidedinvokefunctionurl": {
            "Action": "lambda:InvokeFunctionUrl",
            "FunctionUrlAuthType": "NONE",
            **webhook,
        },
        "KycDecidedinvokefunction": {
            "Action": "lambda:InvokeFunction",
            "InvokedViaFunctionUrl": True,
            **webhook,
        },
    }


@each_stage
def test_verify_kyc_can_read_the_providers_settings(stage: str) -> None:
    found, expected = description(stage), STAGES[stage].kyc

    endpoint = kyc_client.Endpoint(**found["endpoint"])

    assert found.keys() == {"endpoint", "breaker", "review_seconds", "secret_id", "runbook"}
    assert endpoint == kyc_client.Endpoint(
        url=KYC_URL,  # in the context of the tests' templates
        provider=expected.provider,
        dataset=expected.dataset,
        connect_timeout_seconds=expected.connect_timeout_seconds,
        read_timeout_seconds=expected.read_timeout_seconds,
        health_path=expected.health_path,
    )
    assert Thresholds(**found["breaker"]) == Thresholds(
        failures=expected.failures,
        within_seconds=expected.failures_within_seconds,
        recovery_seconds=expected.recovery_seconds,
    )
    assert found["review_seconds"] == expected.review_seconds
    assert found["runbook"] == f"{runbooks(stage)}/kyc-outage.md"
    assert (PROJECT / "docs/runbooks/kyc-outage.md").is_file()
    assert kyc_client.Client(endpoint, StageConfig.from_json(STAGES[stage].stage_config))


def test_a_stage_may_choose_every_provider_that_has_a_module() -> None:
    assert set(PROVIDERS) == kyc_client.PROVIDERS.keys()
    assert len(set(PROVIDERS)) == len(PROVIDERS)


@pytest.mark.parametrize("stage", STAGES)
def test_a_providers_exchange_ends_before_its_functions_timeout(stage: str) -> None:
    timeout = properties(stage, "Lambda::Function")["VerifyKyc"]["Timeout"]

    assert 0 < STAGES[stage].kyc.exchange_seconds < STAGES[stage].function_timeout_seconds <= timeout
