import json

import pytest

from infra.rooms import HANDLERS
from infra.signing import PROVING, SIGNED, signing
from settlement.signing import signature
from tests.infra.stack import FUNCTIONS, PAYING, RUNNING, changed, each_stage, properties, variables

SIGNS = {*signing(HANDLERS)}


@each_stage
def test_exactly_the_signing_functions_and_the_proof_have_row_keys(stage: str) -> None:
    reference = "1:{{resolve:secretsmanager:${RowKeysSecret1.Id}}}"

    found = {
        name: variables(stage, name)["ROW_KEYS"] for name in FUNCTIONS if "ROW_KEYS" in variables(stage, name)
    }

    assert found == dict.fromkeys((*SIGNS, PROVING), reference)
    assert {"HoldFunds", "TakeOrder", "KycDecided"} < SIGNS
    assert not SIGNS & {
        *("PrepareAlert", "ResolveLimbo", "ReportOutcome", "SweepMerchants"),
        *("ReadSettlements", "SealJournal", "PublishEvents", "RecoverStalled"),
    }


def test_settings_and_functions_sign_the_same_kinds_of_rows() -> None:
    assert {kind.removesuffix("*") for kind in SIGNED} == {*signature.SIGNED}


@each_stage
def test_one_kms_key_encrypts_the_row_keys_secret_and_environments(stage: str) -> None:
    (secret,) = [
        one for name, one in properties(stage, "SecretsManager::Secret").items() if "RowKeys" in name
    ]
    functions = properties(stage, "Lambda::Function")
    encrypted = {name for name, function in functions.items() if "KmsKeyArn" in function}

    proving = {"ReservePayout", "ServePayouts", "FollowPayouts"} if stage in PAYING else set()
    proving |= {"PayLines"} if stage in RUNNING else set()
    assert encrypted == {*SIGNS, PROVING, *proving}
    assert {json.dumps(functions[one]["KmsKeyArn"]) for one in encrypted} == {json.dumps(secret["KmsKeyId"])}
    assert secret["GenerateSecretString"]["PasswordLength"] >= 43
    assert "RowKeys" in secret["KmsKeyId"]


@pytest.mark.parametrize("number", [1, 2])
def test_the_proof_gets_each_row_key_before_functions_use_it(number: int) -> None:
    functions = changed("local", row_keys=2, signing_key=number)
    proving, hold = (
        json.dumps(functions[one]["Properties"]["Environment"]["Variables"]["ROW_KEYS"])
        for one in (PROVING, "HoldFunds")
    )

    assert ("1:" in proving, "2:" in proving) == (True, True)
    assert ("1:" in hold, "2:" in hold) == (number == 1, number == 2)
