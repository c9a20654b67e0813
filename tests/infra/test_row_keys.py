import json
from dataclasses import replace

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template

from infra.config import STAGES
from infra.rooms import HANDLERS
from infra.settlement_stack import SettlementStack
from infra.signing import PROVING, SIGNED, signing
from settlement.signing import signature
from tests.infra.stack import FUNCTIONS, KEPT, each_stage, name, properties, resources, variables

SIGNS = {*signing(HANDLERS)}


@each_stage
def test_exactly_the_signing_functions_and_the_proof_have_the_key(stage: str) -> None:
    reference = "1:{{resolve:secretsmanager:${RowKeysSecret1.Id}}}"

    found = {
        name: variables(stage, name)["ROW_KEYS"] for name in FUNCTIONS if "ROW_KEYS" in variables(stage, name)
    }

    assert found == dict.fromkeys((*SIGNS, PROVING), reference)
    assert {"HoldFunds", "TakeOrder", "KycDecided"} < SIGNS
    assert not SIGNS & {
        "PrepareAlert",
        "ResolveLimbo",
        "ReportOutcome",
        "SweepMerchants",
        "ReadSettlements",
        "SealJournal",
        "PublishEvents",
        "RecoverStalled",
    }


def test_the_signed_kinds_are_those_of_the_functions() -> None:
    assert {kind.removesuffix("*") for kind in SIGNED} == {*signature.SIGNED}


@each_stage
def test_one_key_encrypts_the_secret_and_each_environment_with_it(stage: str) -> None:
    (secret,) = [
        one for name, one in properties(stage, "SecretsManager::Secret").items() if "RowKeys" in name
    ]
    functions = properties(stage, "Lambda::Function")
    encrypted = {name for name, function in functions.items() if "KmsKeyArn" in function}

    assert encrypted == {*SIGNS, PROVING}
    assert {json.dumps(functions[one]["KmsKeyArn"]) for one in encrypted} == {json.dumps(secret["KmsKeyId"])}
    assert secret["GenerateSecretString"]["PasswordLength"] >= 43
    assert "RowKeys" in secret["KmsKeyId"]


@pytest.mark.parametrize("number", [1, 2])
def test_the_proof_has_a_new_key_before_it_may_sign(number: int) -> None:
    settings = replace(STAGES["local"], row_keys=2, signing_key=number)
    found = Template.from_stack(SettlementStack(App(), settings=settings)).find_resources(
        "AWS::Lambda::Function"
    )
    functions = {name(logical_id): one["Properties"] for logical_id, one in found.items()}
    proving, hold = (
        json.dumps(functions[one]["Environment"]["Variables"]["ROW_KEYS"]) for one in (PROVING, "HoldFunds")
    )

    assert ("1:" in proving, "2:" in proving) == (True, True)
    assert ("1:" in hold, "2:" in hold) == (number == 1, number == 2)


@each_stage
def test_the_keys_outlive_the_stack_where_the_rows_do(stage: str) -> None:
    kept = [
        KEPT[stage].items() <= one.items()
        for kind in ("KMS::Key", "SecretsManager::Secret")
        for logical_id, one in resources(stage, kind).items()
        if logical_id.startswith("RowKeys")
    ]

    assert kept == [True] * 2


@pytest.mark.parametrize("number", [0, -1, 21])
def test_a_number_of_keys_that_makes_no_sense_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="row_keys: must be from 1 to 20"):
        replace(STAGES["prod"], row_keys=number)


@pytest.mark.parametrize("number", [0, 2])
def test_a_key_that_there_is_not_cannot_sign(number: int) -> None:
    with pytest.raises(ValueError, match="signing_key: must be from 1 to row_keys"):
        replace(STAGES["prod"], signing_key=number)
