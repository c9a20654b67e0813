"""The settings of a stage's KYC provider: invalid ones are refused before a deployment."""

import dataclasses
import json
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from app import build
from infra.config import STAGES, Settings
from infra.kyc_config import PROVIDERS, SCREENS_BY_NAME, KycSettings
from settlement.adapters import kyc_client
from settlement.model.errors import KycRequestRefused
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.infra.iam import text
from tests.infra.machines import name

NUMBERS = {
    "connect_timeout_seconds": (1, 10),
    "read_timeout_seconds": (1, 60),
    "failures": (1, 1_000),
    "failures_within_seconds": (1, 3_600),
    "recovery_seconds": (1, 3_600),
    "review_seconds": (60, 2_592_000),
}
"""The bounds of each number."""


def stage(**changes: Any) -> Settings:
    defaults: dict[str, Any] = {"stage": "test", "currencies": ("EUR",), "function_timeout_seconds": 8}
    return Settings(**defaults | changes)


def kyc(**changes: Any) -> KycSettings:
    return KycSettings(**changes)


def deployed_url(context: dict[str, str]) -> str:
    """Return the provider's address in the stack of a context."""
    functions = Template.from_stack(build(cdk.App(context=context))).find_resources("AWS::Lambda::Function")
    (verify,) = (one for logical_id, one in functions.items() if name(logical_id) == "VerifyKyc")
    found: str = json.loads(text(verify["Properties"]["Environment"]["Variables"]["KYC"]))["endpoint"]["url"]
    return found


@pytest.mark.parametrize("provider", ["", "Verifications", "acme", "verifications "])
def test_an_unknown_provider_is_refused_and_the_known_ones_are_named(provider: str) -> None:
    with pytest.raises(ValueError, match=r"^provider: must be one of opensanctions, verifications$"):
        kyc(provider=provider)


@pytest.mark.parametrize("provider", ["opensanctions", "verifications"])
def test_a_known_provider_is_accepted(provider: str) -> None:
    assert kyc(provider=provider).provider == provider


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="nothing"),
        pytest.param("kyc.example", id="no scheme"),
        pytest.param("ftp://kyc.example", id="another scheme"),
        pytest.param("https://", id="no host"),
        pytest.param("https:///verifications", id="a path and no host"),
        pytest.param("https://user:secret@kyc.example", id="a user"),
        pytest.param("https://kyc.example?key=secret", id="a query"),
        pytest.param("https://kyc.example/v1?key=secret", id="a query after a path"),
        pytest.param("https://kyc.example/#top", id="a fragment"),
        pytest.param("https://kyc.example#top", id="a fragment after the host"),
        pytest.param("https://kyc example", id="a space"),
        pytest.param("https://kyc.example/v 1", id="a space in the path"),
        pytest.param("https://kyc.example\n", id="a line break"),
        pytest.param(" https://kyc.example", id="a space in front"),
    ],
)
def test_an_invalid_address_or_one_with_a_secret_is_refused(url: str) -> None:
    """Settings are in the repository and in the template: no place for a password or a key."""
    with pytest.raises(ValueError, match=r"^url: must be an address without user, query or fragment$"):
        kyc(url=url)


@pytest.mark.parametrize(
    "url",
    [
        "https://kyc.example",
        "https://kyc.example/",
        "https://kyc.example:8443/api/v1",
        "http://127.0.0.1:8081",
    ],
)
def test_an_address_is_accepted(url: str) -> None:
    assert kyc(url=url).url == url
    assert kyc(url=url).is_secure is url.startswith("https:")


@pytest.mark.parametrize("dataset", ["", "a/b", "a b", "../match", "a?b", "über"])
def test_a_dataset_that_would_change_the_path_is_refused(dataset: str) -> None:
    with pytest.raises(ValueError, match=r"^dataset: must be letters, digits, _ and -$"):
        kyc(dataset=dataset)


@pytest.mark.parametrize("dataset", ["default", "us_ofac_sdn", "EU-2026"])
def test_a_dataset_is_accepted(dataset: str) -> None:
    assert kyc(dataset=dataset).dataset == dataset


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_out_of_its_bounds_or_that_is_not_whole_is_refused(field: str) -> None:
    least, most = NUMBERS[field]

    for number in (0, -1, least - 1, most + 1, least + 0.5, True, "5", None):
        with pytest.raises(ValueError, match=rf"^{field}: must be a whole number from {least} to {most}$"):
            kyc(**{field: number})


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_at_its_bounds_is_accepted(field: str) -> None:
    """Except for the time to recovery, which depends on the timeouts."""
    for number in NUMBERS[field]:
        chosen = {"connect_timeout_seconds": 1, "read_timeout_seconds": 1, "recovery_seconds": 3_600}
        if (field, number) != ("recovery_seconds", 1):
            assert getattr(kyc(**chosen | {field: number}), field) == number


@pytest.mark.parametrize("seconds", [3, 4])
def test_a_probe_that_outlasts_the_time_to_recovery_is_refused(seconds: int) -> None:
    with pytest.raises(ValueError, match=r"^recovery_seconds: must be longer than a probe takes"):
        kyc(recovery_seconds=seconds)


def test_a_probe_that_ends_before_the_next_is_accepted() -> None:
    assert kyc(recovery_seconds=5).recovery_seconds == 5


def test_these_are_the_numbers() -> None:
    assert {field.name for field in dataclasses.fields(KycSettings)} == {
        *NUMBERS,
        "url",
        "provider",
        "dataset",
    }


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        kyc().url = "http://127.0.0.1"  # type: ignore[misc]


def test_requests_about_customers_are_encrypted_in_transit() -> None:
    """On AWS. The embedded one asks a simulator on the same machine."""
    plain = kyc(url="http://kyc.example")

    with pytest.raises(ValueError, match=r"^kyc\.url: must be an HTTPS address$"):
        stage(kyc=plain)
    assert stage(kyc=plain, embedded_python="/usr/bin/python3").kyc == plain
    assert stage(kyc=kyc(url="https://kyc.example")).kyc.is_secure


def test_only_the_embedded_stage_asks_over_plain_http() -> None:
    assert {name for name, one in STAGES.items() if not one.kyc.is_secure} == {"local"}


@pytest.mark.parametrize(("connect", "read"), [(1, 5), (3, 3), (5, 1), (1, 8)])
def test_an_exchange_that_may_outlast_its_function_is_refused(connect: int, read: int) -> None:
    """Cut off, the function would not count the failure, and the circuit would never open."""
    slow = kyc(connect_timeout_seconds=connect, read_timeout_seconds=read)

    with pytest.raises(
        ValueError, match=r"^kyc: both timeouts must leave 3 s of function_timeout_seconds for the rest$"
    ):
        stage(kyc=slow)


@pytest.mark.parametrize(("connect", "read"), [(1, 4), (4, 1), (1, 1)])
def test_an_exchange_that_ends_before_its_function_is_accepted(connect: int, read: int) -> None:
    chosen = stage(kyc=kyc(connect_timeout_seconds=connect, read_timeout_seconds=read))

    assert chosen.kyc.exchange_seconds == connect + read


def test_a_provider_that_screens_by_name_is_refused_where_requests_need_no_names() -> None:
    """It knows no account ids: it would approve every payment."""
    by_name = kyc(url="https://api.opensanctions.org", provider="opensanctions")

    with pytest.raises(
        ValueError,
        match=r"^party_names: must be required with the KYC provider opensanctions, which screens by name",
    ):
        stage(kyc=by_name)
    assert stage(kyc=by_name, party_names="required").kyc == by_name


@pytest.mark.parametrize("rule", ["required", "optional"])
def test_names_may_be_required_with_any_provider(rule: str) -> None:
    assert stage(kyc=kyc(url="https://kyc.example"), party_names=rule).party_names == rule


def test_a_deployment_of_such_a_stage_without_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = kyc(url="https://api.opensanctions.org", provider="opensanctions")
    named = replace(STAGES["prod"], kyc=by_name, party_names="required")
    context = {"stage": "prod"}

    monkeypatch.setitem(STAGES, "prod", named)
    assert deployed_url(context) == "https://api.opensanctions.org"
    with pytest.raises(ValueError, match=r"^party_names: must be required"):
        replace(named, party_names="optional")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_providers_that_screen_by_name_are_those_that_ask_nothing_without_a_name(
    provider: str, settlement: Settlement, config: StageConfig
) -> None:
    """A new provider that needs names, but is not in the list, would be asked with account ids."""
    body = kyc_client.PROVIDERS[provider].body
    named = replace(settlement, payer_name="Alice Muster", payee_name="Bob Muster")

    asked_by_name = "Alice Muster" in json.dumps(body(named, config))

    assert asked_by_name == (provider in SCREENS_BY_NAME)
    if asked_by_name:
        with pytest.raises(KycRequestRefused):
            body(settlement, config)


def test_the_providers_address_is_an_argument_of_the_deployment() -> None:
    """A deployment to another account changes no file."""
    assert deployed_url({"stage": "dev", "kyc_url": "https://kyc.example/v1"}) == "https://kyc.example/v1"


@pytest.mark.parametrize("context", [{"stage": "dev"}, {"stage": "dev", "kyc_url": ""}])
def test_without_that_argument_a_stage_whose_settings_name_no_provider_is_refused(
    context: dict[str, str],
) -> None:
    """Deployed, it would reverse every payment."""
    with pytest.raises(
        SystemExit, match=r"^kyc_url: name the KYC provider's address; pass it as -c kyc_url="
    ):
        build(cdk.App(context=context))


def test_without_that_argument_the_address_is_that_of_the_settings() -> None:
    assert deployed_url({"stage": "local"}) == STAGES["local"].kyc.url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://kyc.example", r"^kyc\.url: must be an HTTPS address$"),
        ("kyc.example", r"^url: must be an address"),
        ("https://user:secret@kyc.example", r"^url: must be an address"),
    ],
)
def test_an_argument_is_refused_as_a_setting_is(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        build(cdk.App(context={"stage": "prod", "kyc_url": url}))

    assert "secret" not in str(refused.value)


def test_an_argument_changes_no_other_setting() -> None:
    """The settings are frozen and shared with the next stack of the process."""
    before = STAGES["dev"].kyc

    deployed_url({"stage": "dev", "kyc_url": "https://kyc.example"})

    assert STAGES["dev"].kyc == before
