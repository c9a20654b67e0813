import json
from collections.abc import Iterator

import iso4217
import pytest
import yaml
from jsonschema import Draft202012Validator

from infra.config import STAGES
from infra.currencies import ASSET, ASSET_EXPONENT_MAX, PINNED_EXPONENTS
from settlement.core.ledger import keys
from settlement.core.model import accounts
from settlement.core.model.request import ACCOUNT
from tests.infra.stack import each_stage
from tests.unit.contracts import CONTRACTS, OUTCOME, REQUEST, SCHEMAS

PACKAGE = {one.code: one.exponent for one in iso4217.Currency}
KYC = CONTRACTS / "kyc.openapi.yaml"
PROCEDURE = "docs/decisions/2026-11-22-exponents-and-assets.md"


@pytest.mark.parametrize("code", sorted(PINNED_EXPONENTS))
def test_each_pinned_exponent_equals_the_iso_4217_exponent(code: str) -> None:
    assert PACKAGE.get(code) == PINNED_EXPONENTS[code], f"{code} has changed: read {PROCEDURE}"


@each_stage
def test_a_stage_knows_the_exponents_of_currencies_and_its_assets(stage: str) -> None:
    settings = STAGES[stage]
    pinned = {code: PINNED_EXPONENTS[code] for code in settings.currencies}

    assert (
        json.loads(settings.stage_config)["currencies"] == settings.exponents == {**pinned, **settings.assets}
    )


def codes() -> Iterator[str]:
    """Yield asset codes of all lengths, with first and last characters at the pattern's bounds."""
    for length in range(1, 15):
        for last in "AZ09":
            yield "A" * (length - 1) + last
    yield from ("C-2", "c02", "CO2\n", "CO:2", "CO#2", "CO_2", "Ä00", "٢٢٢", "2CO", "")


def test_asset_codes_equal_no_currency_and_their_accounts_no_customers() -> None:
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
def test_the_contracts_accept_every_assets_code_and_decimals(decimals: int, valid: bool) -> None:
    amount, code = f"1.{'1' * decimals}", "P" * 12
    payment = yaml.safe_load(KYC.read_text())["components"]["schemas"]["Payment"]["properties"]
    request = SCHEMAS[REQUEST]["properties"]

    for field in (request["amount"], request["fee"], payment["amount"]):
        assert Draft202012Validator(field).is_valid(amount) is valid
    for field in (request["currency"], payment["currency"], SCHEMAS[OUTCOME]["properties"]["currency"]):
        assert Draft202012Validator(field).is_valid(code)
