"""The stages' settings: invalid ones are refused, and the functions get amounts in minor units."""

import dataclasses
import json
from dataclasses import asdict
from typing import Any

import aws_cdk as cdk
import pytest
import typer

from app import build
from infra.config import STAGES, Settings
from settle.cli import app as commands
from settle.local import record
from settlement.model.stage_config import StageConfig
from settlement.policy.pager import PagerConfig

UNCHANGED = (
    *("fee_basis_points", "deadline_seconds", "recover_after_seconds"),
    *("idempotency_key", "party_names"),
)
"""The settings that the functions get as they are."""


def settings(**changes: Any) -> Settings:
    defaults: dict[str, Any] = {"stage": "test", "currencies": ("EUR", "JPY", "KWD")}
    return Settings(**defaults | changes)


def parse(command: str) -> dict[str, Any]:
    """Return the parameters of a command line, as the command itself parses them."""
    program, group, name, *arguments = command.split()
    assert program == "settle"
    click: Any = typer.main.get_command(commands)
    found: dict[str, Any] = click.commands[group].commands[name].make_context(name, arguments).params
    return found


def config(**changes: Any) -> StageConfig:
    return StageConfig.from_json(settings(**changes).stage_config)


@pytest.mark.parametrize("code", ["XXQ", "eur", "", "EURO"])
def test_a_currency_outside_iso_4217_is_refused(code: str) -> None:
    with pytest.raises(ValueError, match=f"^currencies: .*{code}$"):
        settings(currencies=("EUR", code))


def test_a_currency_without_minor_units_is_refused() -> None:
    """Gold has a code, but no exponent: an amount of it cannot be written."""
    with pytest.raises(ValueError, match=r"^currencies: .*XAU$"):
        settings(currencies=("EUR", "XAU"))


def test_every_unknown_currency_is_named() -> None:
    with pytest.raises(ValueError, match=r"^currencies: .*ABC, XYZ$"):
        settings(currencies=("XYZ", "EUR", "ABC"))


@pytest.mark.parametrize("basis_points", [-1, 10_000, 10_001])
def test_a_fee_of_nothing_less_or_of_everything_is_refused(basis_points: int) -> None:
    with pytest.raises(ValueError, match=r"^fee_basis_points: "):
        settings(fee_basis_points=basis_points)


@pytest.mark.parametrize("basis_points", [0, 9_999])
def test_a_fee_from_nothing_to_almost_everything_is_accepted(basis_points: int) -> None:
    assert settings(fee_basis_points=basis_points).fee_basis_points == basis_points


@pytest.mark.parametrize("recover_after", [60, 61])
def test_a_recovery_that_begins_after_the_deadline_is_refused(recover_after: int) -> None:
    with pytest.raises(
        ValueError, match=r"^recover_after_seconds: must be positive, and below deadline_seconds$"
    ):
        settings(deadline_seconds=60, recover_after_seconds=recover_after)


def test_a_recovery_before_the_deadline_is_accepted() -> None:
    assert settings(deadline_seconds=60, recover_after_seconds=59).recover_after_seconds == 59


@pytest.mark.parametrize("recover_after", [-1, 0])
def test_a_recovery_that_waits_for_nothing_is_refused(recover_after: int) -> None:
    """Every settlement would have a second execution from its beginning."""
    with pytest.raises(
        ValueError, match=r"^recover_after_seconds: must be positive, and below deadline_seconds$"
    ):
        settings(recover_after_seconds=recover_after)


@pytest.mark.parametrize("name", ["idempotency_key", "party_names"])
@pytest.mark.parametrize("rule", ["required", "optional"])
def test_keys_and_names_are_required_or_optional(name: str, rule: str) -> None:
    assert getattr(config(**{name: rule}), name) == rule


@pytest.mark.parametrize("name", ["idempotency_key", "party_names"])
@pytest.mark.parametrize("rule", ["", "Required", "never", True, None])
def test_any_other_rule_is_refused(name: str, rule: object) -> None:
    """Misspelt, it must not mean that a payment is made twice, or without a screening."""
    with pytest.raises(ValueError, match=rf"^{name}: must be required or optional$"):
        settings(**{name: rule})


def test_names_are_optional_by_default_and_on_every_stage() -> None:
    """No stage of the repository screens by name."""
    assert settings().party_names == "optional"
    assert {one.party_names for one in STAGES.values()} == {"optional"}


def test_keys_are_required_where_nothing_is_said_and_where_money_is_real() -> None:
    assert settings().idempotency_key == "required"
    assert {stage for stage, one in STAGES.items() if one.idempotency_key == "optional"} == {"dev"}


@pytest.mark.parametrize("name", ["webhook_concurrency", "recovery_concurrency"])
@pytest.mark.parametrize("reserved", [-1, 0])
def test_a_function_that_could_never_run_is_refused(name: str, reserved: int) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: must be at least 1, or None$"):
        settings(**{name: reserved})


@pytest.mark.parametrize("name", ["webhook_concurrency", "recovery_concurrency"])
@pytest.mark.parametrize("reserved", [1, None])
def test_a_function_may_have_some_concurrency_for_itself_or_share_the_accounts(
    name: str, reserved: int | None
) -> None:
    assert getattr(settings(**{name: reserved}), name) == reserved


@pytest.mark.parametrize("seconds", [-1, 0, 86_401])
def test_a_wait_that_is_none_or_longer_than_a_day_is_refused(seconds: int) -> None:
    """An alert each second is noise, and one a day is the least that a settlement in LIMBO asks for."""
    with pytest.raises(ValueError, match=r"^alert_again_after_seconds: "):
        settings(alert_again_after_seconds=seconds)


@pytest.mark.parametrize("seconds", [60, 1800, 86_400])
def test_a_wait_of_up_to_a_day_is_accepted(seconds: int) -> None:
    chosen = settings(alert_again_after_seconds=seconds)

    assert chosen.alert_again_after_seconds == seconds
    assert json.loads(chosen.pager)["again_after_seconds"] == seconds


@pytest.mark.parametrize("seconds", [7, 8])
def test_a_wait_that_ends_before_its_function_does_is_refused(seconds: int) -> None:
    """The function may run on after its task has timed out, and overwrite a live token with a dead one."""
    with pytest.raises(
        ValueError, match=r"^alert_again_after_seconds: must exceed function_timeout_seconds\b"
    ):
        settings(function_timeout_seconds=8, alert_again_after_seconds=seconds)


def test_a_wait_that_outlasts_its_function_is_accepted() -> None:
    chosen = settings(function_timeout_seconds=8, alert_again_after_seconds=9)

    assert chosen.alert_again_after_seconds == 9


@pytest.mark.parametrize("stage", STAGES)
def test_the_command_in_an_alert_is_valid(stage: str) -> None:
    """On AWS it must name the stack; the embedded one is the command's default."""
    on_aws = [] if stage == "local" else ["--stack", f"settlement-{stage}"]
    key = "order-2026-000101"

    command = json.loads(STAGES[stage].pager)["show_command"].format(key=key)

    assert command.split() == ["settle", "limbo", "show", key, *on_aws]
    parsed = parse(command)
    assert (parsed["key"], parsed["stack"]) == (key, f"settlement-{stage}" if on_aws else None)


def test_the_alert_has_the_stages_address_of_the_runbook() -> None:
    pager = json.loads(settings(runbooks="https://runbooks.example/settlement").pager)

    assert pager["runbook"] == "https://runbooks.example/settlement/limbo.md"


@pytest.mark.parametrize("stage", STAGES)
def test_the_functions_read_the_pagers_configuration(stage: str) -> None:
    text = STAGES[stage].pager

    assert asdict(PagerConfig.from_json(text)) == json.loads(text)


def test_exponents_come_from_iso_4217() -> None:
    assert config().currencies == {"EUR": 2, "JPY": 0, "KWD": 3}


def test_highest_balances_become_minor_units() -> None:
    highest = {"EUR": "1000000.5", "JPY": "1000000", "KWD": "1000000.125"}

    assert config(highest_balances=highest).highest_balances == {
        "EUR": 100_000_050,
        "JPY": 1_000_000,
        "KWD": 1_000_000_125,
    }


@pytest.mark.parametrize(
    ("currency", "amount"),
    [
        pytest.param("EUR", "10.001", id="three decimals of EUR"),
        pytest.param("JPY", "10.5", id="a decimal of JPY"),
        pytest.param("KWD", "10.0001", id="four decimals of KWD"),
        pytest.param("EUR", "-10", id="negative"),
        pytest.param("EUR", "1e3", id="an exponent"),
        pytest.param("EUR", "NaN", id="not a number"),
        pytest.param("EUR", "ten", id="a word"),
        pytest.param("EUR", 10.5, id="a float"),
    ],
)
def test_a_highest_balance_that_is_no_amount_of_its_currency_is_refused(
    currency: str, amount: object
) -> None:
    """Cut or misread, it would be another bound than the settings say."""
    with pytest.raises(ValueError, match=f"^highest_balances: .*{currency}"):
        settings(highest_balances={currency: amount}).stage_config  # noqa: B018 - refused here at the latest


def test_a_highest_balance_in_a_currency_that_the_stage_does_not_accept_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^highest_balances: .*USD"):
        settings(highest_balances={"USD": "10.00"}).stage_config  # noqa: B018 - refused here at the latest


@pytest.mark.parametrize("stage", STAGES)
def test_the_functions_read_the_configuration_that_the_stage_sets(stage: str) -> None:
    text = STAGES[stage].stage_config

    parsed = StageConfig.from_json(text)

    assert asdict(parsed) == json.loads(text)
    for name in UNCHANGED:
        assert getattr(parsed, name) == getattr(STAGES[stage], name)


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings().fee_basis_points = 0  # type: ignore[misc]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_found_by_its_name(stage: str) -> None:
    assert STAGES[stage].stage == stage
    assert STAGES[stage].stack_name == f"settlement-{stage}"


def test_only_the_embedded_stage_deletes_its_data() -> None:
    assert {stage for stage, one in STAGES.items() if not one.keeps_data} == {"local"}
    assert {stage for stage, one in STAGES.items() if one.is_embedded} == {"local"}


@pytest.mark.parametrize("context", [{"stage": "production"}, {"stage": ""}, {}])
def test_an_unknown_stage_is_refused_in_one_line_that_lists_the_stages(context: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as refused:
        build(cdk.App(context=context))

    message = str(refused.value)
    assert message.startswith("stage: ")
    assert "\n" not in message
    assert all(stage in message for stage in STAGES)


def test_the_command_looks_for_the_stack_that_the_local_stage_deploys() -> None:
    assert STAGES["local"].stack_name == record.STACK_NAME
