"""Exponents are pinned: no update of a package and no deployment changes what a row means."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import iso4217
import pytest
import yaml
from botocore.exceptions import ClientError
from jsonschema import Draft202012Validator

from infra import deployed
from infra.config import STAGES
from infra.currencies import ASSET, ASSET_EXPONENT_MAX, PINNED_EXPONENTS
from settlement.ledger import keys
from settlement.model import accounts
from settlement.model.request import ACCOUNT
from tests.infra.stack import each_stage
from tests.infra.test_concurrency import Functions
from tests.unit.contracts import CONTRACTS, OUTCOME, REQUEST, SCHEMAS

PACKAGE = {one.code: one.exponent for one in iso4217.Currency}
KYC = CONTRACTS / "kyc.openapi.yaml"
PROCEDURE = "docs/decisions/2026-11-22-exponents-and-assets.md"


class CloudFormation:
    """CloudFormation with at most one stack."""

    def __init__(self, outputs: dict[str, str] | None = None, failure: str = "") -> None:
        self._outputs, self._failure = outputs, failure

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:  # noqa: N803
        if self._outputs is None:
            message = self._failure or f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        outputs = [{"OutputKey": name, "OutputValue": text} for name, text in self._outputs.items()]
        return {"Stacks": [{"StackName": StackName, "Outputs": outputs}]}


@pytest.mark.parametrize("code", sorted(PINNED_EXPONENTS))
def test_a_pinned_exponent_is_that_of_iso_4217(code: str) -> None:
    assert PACKAGE.get(code) == PINNED_EXPONENTS[code], f"{code} has changed: read {PROCEDURE}"


@each_stage
def test_a_stage_has_the_pinned_exponents_and_those_of_its_assets(stage: str) -> None:
    settings = STAGES[stage]
    given = json.loads(settings.stage_config)["currencies"]

    assert given == settings.exponents
    assert {code: given[code] for code in settings.currencies} == {
        code: PINNED_EXPONENTS[code] for code in settings.currencies
    }
    assert {code: given[code] for code in settings.assets} == settings.assets
    assert len(given) == len(settings.currencies) + len(settings.assets)


def codes() -> Iterator[str]:
    """Yield the assets' codes of all lengths that begin and end at the bounds of their pattern."""
    for length in range(1, 15):
        for last in "AZ09":
            yield "A" * (length - 1) + last
    yield from ("C-2", "c02", "CO2\n", "CO:2", "CO#2", "CO_2", "Ä00", "٢٢٢", "2CO", "")


def test_an_asset_has_neither_the_form_of_a_currency_nor_a_separator() -> None:
    accepted = [code for code in codes() if ASSET.fullmatch(code)]

    assert {len(code) for code in accepted} == set(range(3, 13))
    assert [code for code in accepted if len(code) == 3] == ["AA0", "AA9"]
    assert not any(ASSET.fullmatch(code) for code in PACKAGE)
    for code in accepted:
        for internal in (accounts.fees(code), accounts.losses(code), accounts.external(code)):
            assert not ACCOUNT.fullmatch(internal)
            assert {place.rpartition("#")[0] for place in keys.entry_partitions(internal)} == {
                f"ENTRIES#{internal}"
            }


@pytest.mark.parametrize(("decimals", "valid"), [(ASSET_EXPONENT_MAX, True), (ASSET_EXPONENT_MAX + 1, False)])
def test_the_contracts_have_room_for_each_asset(decimals: int, valid: bool) -> None:
    amount, code = f"1.{'1' * decimals}", "P" * 12
    payment = yaml.safe_load(KYC.read_text())["components"]["schemas"]["Payment"]["properties"]
    request = SCHEMAS[REQUEST]["properties"]

    for field in (request["amount"], request["fee"], payment["amount"]):
        assert Draft202012Validator(field).is_valid(amount) is valid
    for field in (request["currency"], payment["currency"], SCHEMAS[OUTCOME]["properties"]["currency"]):
        assert Draft202012Validator(field).is_valid(code)


# A deployed stage


@pytest.mark.parametrize(
    ("planned", "problems"),
    [
        ({"EUR": 2, "JPY": 0, "CO2": 3}, []),
        ({"EUR": 2, "JPY": 0, "CO2": 3, "USD": 2}, []),
        ({"EUR": 3, "JPY": 0, "CO2": 3}, ["EUR: is deployed with the exponent 2, and must not get 3"]),
        ({"EUR": 2, "CO2": 3}, ["JPY: is deployed with the exponent 0, and must stay"]),
        (
            {"JPY": 2},
            [
                "CO2: is deployed with the exponent 3, and must stay",
                "EUR: is deployed with the exponent 2, and must stay",
                "JPY: is deployed with the exponent 0, and must not get 2",
            ],
        ),
    ],
)
def test_a_deployed_currency_stays_as_it_is(planned: dict[str, int], problems: list[str]) -> None:
    assert list(deployed.changed({"EUR": 2, "JPY": 0, "CO2": 3}, planned)) == problems


def check(monkeypatch: pytest.MonkeyPatch, found: CloudFormation) -> int:
    monkeypatch.setattr(boto3, "client", {"cloudformation": found, "lambda": Functions(1_000)}.__getitem__)
    return deployed.main(["prod"])


def test_a_deployment_is_refused_that_would_change_what_rows_mean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads(STAGES["prod"].stage_config)
    same = {"StageConfig": json.dumps(config)}
    other = {"StageConfig": json.dumps(config | {"currencies": config["currencies"] | {"USD": 3, "GBP": 2}})}

    codes = [check(monkeypatch, CloudFormation(outputs)) for outputs in (same, None, other, {})]

    assert codes == [0, 0, 1, 1]
    assert capsys.readouterr().out.splitlines() == [
        "settlement-prod: every currency and asset keeps its exponent",
        "settlement-prod: is not deployed yet, so no rows can change their meaning",
        "GBP: is deployed with the exponent 2, and must stay",
        "USD: is deployed with the exponent 3, and must not get 2",
        "settlement-prod: has no output StageConfig, so its exponents are unknown",
    ]


def test_no_answer_is_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError):
        check(monkeypatch, CloudFormation(failure="Rate exceeded"))


@pytest.mark.parametrize("stage", ["local", "production", ""])
def test_a_stage_that_is_not_deployed_on_aws_is_refused(stage: str) -> None:
    with pytest.raises(SystemExit):
        deployed.main([stage])
