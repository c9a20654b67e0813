import dataclasses
import json
import shlex
from dataclasses import asdict, replace
from typing import Any

import aws_cdk as cdk
import pytest
import typer
from aws_cdk.assertions import Template

from app import build
from infra.config import STAGES, Settings
from infra.kyc_config import NOT_NAMED, PROVIDERS, SCREENS_BY_NAME, KycSettings
from settle.cli import app as commands
from settle.local import record
from settlement.core import telemetry
from settlement.core.model.command import command
from settlement.core.model.errors import KycRequestRefused
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.policy.pager import PagerConfig
from settlement.kyc import client as kyc_client
from tests.infra.stack import each_stage, template
from tests.world.rooms import there

UNCHANGED = (
    *("fee", "fee_basis_points", "fee_floor_basis_points", "fee_ceiling_basis_points"),
    *("deadline_seconds", "recover_after_seconds"),
    *("idempotency_key", "party_names"),
)

RECOVER = "recover_after_seconds: must be positive, and below deadline_seconds$"
ALERT = "alert_again_after_seconds: must exceed function_timeout_seconds, and be at most 86400$"
VAULT = "arn:aws:backup:eu-central-1:123456789012:backup-vault:safe"

LABEL = "2026-11-23T06:00:00.000"

EXCHANGE = "kyc: both timeouts must leave 3 s of function_timeout_seconds for the rest$"
ADDRESS = "url: must be an address without user, query or fragment$"
PROBE = "recovery_seconds: must be longer than a probe takes"
HTTPS = r"kyc\.url: must be an HTTPS address$"
BY_NAME = {"kyc": KycSettings(url="https://api.opensanctions.org", provider="opensanctions")}

CLIENT: dict[str, Any] = {"fee": "client", "fee_ceiling_basis_points": 500}

REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"currencies": ("EUR", code)}, f"currencies: .*{code}$") for code in ("XXQ", "eur", "", "EURO")),
    # ISO 4217 has it, but no one has pinned its exponent.
    ({"currencies": ("EUR", "GBP")}, r"currencies: not in infra/currencies\.toml: GBP$"),
    # Gold has a code, but no exponent: an amount of it cannot be written.
    ({"currencies": ("EUR", "XAU")}, "currencies: .*XAU$"),
    ({"currencies": ("XYZ", "EUR", "ABC")}, "currencies: .*ABC, XYZ$"),
    # A fee is less than its amount.
    *(({"fee_basis_points": points}, "fee_basis_points: ") for points in (-1, 10_000, 10_001)),
    # Misspelt, it must not let a client set its fees.
    *(({"fee": rule}, "fee: must be schedule or client$") for rule in ("", "Client", "both", None, True)),
    # A bound without effect would be believed.
    *(
        ({name: points}, f"{name}: must be left out unless fee is client$")
        for name in ("fee_floor_basis_points", "fee_ceiling_basis_points")
        for points in (-1, 1, 100)
    ),
    *(
        (
            CLIENT | {"fee_floor_basis_points": floor},
            "fee_floor_basis_points: must be from 0 to fee_basis_points$",
        )
        for floor in (-1, 101, 10_000)
    ),
    *(
        (
            CLIENT | {"fee_ceiling_basis_points": ceiling},
            "fee_ceiling_basis_points: must be from fee_basis_points to 9999$",
        )
        for ceiling in (-1, 0, 99, 10_000)
    ),
    # Three letters may become a currency; a colon or a `#` is part of the names of accounts and rows.
    *(
        ({"assets": {code: 0}}, rf"assets: {code}.* must match ")
        for code in (
            "EUR",
            "XTS",
            "ABC",
            "CO",
            "points",
            "",
            "P" * 13,
            "2CO",
            "fees:",
            "A#1B",
            "CO2\n",
            "ÄÖÜ1",
        )
    ),
    *(
        ({"assets": {"POINTS": exponent}}, "assets: POINTS must have from 0 to 8 decimals$")
        for exponent in (-1, 9, "2", None, True, 2.0)
    ),
    # Misspelt, it must not mean that one person is enough.
    *(
        ({"approvals": {decision: 2}}, "approvals: .* is none of write-off, complete, retry, reverse$")
        for decision in ("writeoff", "Write-off", "write-off ", "reverse-part", "")
    ),
    *(
        ({"approvals": {"write-off": persons}}, "approvals: write-off must be from 1 to 5$")
        for persons in (0, -1, 6, "2", 2.0, True, None)
    ),
    *(
        ({"reverse_over": {"EUR": amount}}, "reverse_over: EUR must be a decimal string in that currency$")
        for amount in ("", "-1", "1.", "1.234", "1e3", "1,00", 1000, None)
    ),
    # A currency that is added later must not need fewer persons.
    (
        {"assets": {"CO2": 3}, "reverse_over": {"EUR": "1", "JPY": "1", "KWD": "1"}},
        "reverse_over: must name each currency and asset; CO2 is missing$",
    ),
    ({"reverse_over": {"XTS": "1"}}, "reverse_over: XTS is not among the stage's currencies and assets$"),
    # A second execution from the beginning, or none before the deadline.
    *(({"deadline_seconds": 60, "recover_after_seconds": after}, RECOVER) for after in (-1, 0, 60, 61)),
    # Misspelt, it must not mean that a payment is made twice, or without a screening.
    *(
        ({name: rule}, f"{name}: must be required or optional$")
        for name in ("idempotency_key", "party_names")
        for rule in ("", "Required", "never", True, None)
    ),
    # An entry must outlive a Standard execution, a redrive, and a dispute; a text would be no time.
    *(
        ({name: days}, f"{name}: must be from 400 to 36500, or None$")
        for name in ("retention_days", "shortest_retention_days")
        for days in (-1, 0, 1, 399, 36_501)
    ),
    (
        {"retention_days": 400, "shortest_retention_days": 401},
        "shortest_retention_days: must be at most retention_days$",
    ),
    # Misspelt, it must not cost ten times as much; a text would be searched for parts of keys.
    *(({"log_detail": detail}, "log_detail: must be lean or full$") for detail in ("", "Full", "all", None)),
    *(
        ({"log_full_keys": keys}, "log_full_keys: must be at most 20 keys$")
        for keys in ("order-1", ["order-1"], None, ("order-1",) * 21)
    ),
    # The function could never run.
    *(
        ({name: calls}, f"{name}: must be from 1 to 10000$")
        for name in ("webhook_calls_per_second", "webhook_burst")
        for calls in (-1, 0, 10_001, 1.5, True, None, "9")
    ),
    # Misspelt, it must not open a public function URL.
    *(
        ({"webhook": kind}, "webhook: must be function-url or http-api$")
        for kind in ("", "http", "url", None)
    ),
    # Nothing would be resumed, or more at once than the storm of stalls has tried.
    *(
        ({"recovery_starts_per_second": pace}, "recovery_starts_per_second: must be from 1 to 1000$")
        for pace in (-1, 0, 1_001)
    ),
    # The function may run on after its task has timed out, and overwrite a live token with a dead one.
    *(({"alert_again_after_seconds": seconds}, ALERT) for seconds in (-1, 0, 7, 8, 86_401)),
    # Cut or misread, it would be a different bound from the setting.
    *(
        ({"highest_balances": {currency: amount}}, f"highest_balances: .*{currency}")
        for currency, amount in (
            *(("EUR", "10.001"), ("JPY", "10.5"), ("KWD", "10.0001"), ("EUR", "-10"), ("EUR", "1e3")),
            *(("EUR", "NaN"), ("EUR", "ten"), ("EUR", 10.5), ("USD", "10.00")),
        )
    ),
    # Cut off, the function would not count the failure, and the circuit would never open.
    *(
        (
            {"kyc": KycSettings(connect_timeout_seconds=connect, read_timeout_seconds=read)},
            EXCHANGE,
        )
        for connect, read in ((1, 5), (3, 3), (5, 1), (1, 8))
    ),
    # Settings are in the repository and in the template: no place for a password or a key.
    *(
        ({name: address}, f"{name}: must be a mail address, or an HTTPS address")
        for name in ("page_address", "notice_address", *there("books", "finance_address"))
        for address in (
            *("", "oncall", "http://pages.example", "https://", "https://key@pages.example"),
            *("https://pages.example/?key=secret", "on call@pages.example", "oncall@pages.example\n"),
        )
    ),
    # No topic would carry it.
    *there(
        "books",
        (
            {"finance_address": "finance@example.com"},
            "finance_address: must be left out without books_every_minutes",
        ),
    ),
    # It has no snapshots: the setting would have no effect.
    (
        {"warm_write_units": 5_000, "embedded_python": "/usr/bin/python3"},
        "warm_write_units: must be None on the embedded AWS",
    ),
    *(
        ({"warm_write_units": units}, "warm_write_units: must be above 4000, which a new table bears$")
        for units in (4_000, 0, -1, True, 12_000.0, "12000")
    ),
    *(
        ({"restored_table": name, "restored_stream": LABEL}, "restored_table: must be a table's name$")
        for name in ("", "ab", "a" * 256, "a/b", "restored\n", "arn:aws:dynamodb", 3)
    ),
    *(
        (
            {"restored_table": "restored", "restored_stream": label},
            "restored_stream: must be a stream's label",
        )
        for label in ("", "2026-11-23", f"{LABEL}Z", f"{LABEL}\n", f"restored/stream/{LABEL}")
    ),
    # The sealed journal and the sweeps read the stream: the stage would settle without both.
    ({"restored_table": "restored"}, "restored_stream: must be given with restored_table"),
    ({"restored_stream": LABEL}, "restored_stream: must be given with restored_table"),
    *(
        ({"books_every_minutes": minutes}, "books_every_minutes: must be from 1 to 60, or None$")
        for minutes in there("books", 0, 61, -1, True, "1", 1.5)
    ),
    *(({"backup_days": days}, "backup_days: must be from 7 to") for days in (6, 36_501, True, "35")),
    *(
        (
            {"backup_days": 35, "keeps_data": False} | more,
            "backup_days: must be None on a stage that keeps no",
        )
        for more in ({}, {"embedded_python": "/usr/bin/python3"})
    ),
    ({"backup_days": 35, "backup_lock": "none"}, "backup_lock: must be governance or compliance$"),
    *(
        ({"backup_days": 35, "backup_copy_to": arn}, "backup_copy_to: must be the ARN of a backup vault$")
        for arn in ("", "safe", VAULT.replace("123456789012", "*"), f"{VAULT}\n", 3)
    ),
    ({"backup_copy_to": VAULT}, "backup_copy_to: must be left out without backup_days$"),
    *(
        ({"canary_percent": percent}, "canary_percent: must be from 1 to 99, or None$")
        for percent in (-1, 0, 100, 10.5, True, "10")
    ),
    # A misspelling must be found before the canary is needed.
    *(
        ({"canary_minutes": minutes}, "canary_minutes: must be from 10 to 2100, as an alarm")
        for minutes in (0, 9, 2_101, True, "15")
    ),
    (
        {"canary_percent": 10, "embedded_python": "/usr/bin/python3"},
        "canary_percent: must be None on the embedded AWS",
    ),
    (
        {"canary_percent": 10, "qualified_functions": False},
        "canary_percent: needs qualified_functions, or both versions would run the newest code$",
    ),
    (
        {"snap_start": True, "embedded_python": "/usr/bin/python3"},
        "snap_start: must be False on the embedded AWS",
    ),
    (
        {"snap_start": True, "qualified_functions": False},
        "snap_start: needs qualified_functions, as only versions have snapshots$",
    ),
    # Requests about customers are encrypted in transit. The embedded AWS asks on the same machine.
    ({"kyc": KycSettings(url="http://kyc.example")}, HTTPS),
    # It knows no account ids: it would approve every payment.
    (BY_NAME, "party_names: must be required with the KYC provider opensanctions, which screens by name"),
]

ACCEPTED: list[dict[str, Any]] = [
    *({"fee_basis_points": points} for points in (0, 9_999)),
    *({"fee_basis_points": 0, "fee": rule} for rule in ("schedule", "client")),
    *(
        CLIENT | {"fee_floor_basis_points": floor, "fee_ceiling_basis_points": ceiling}
        for floor in (0, 100)
        for ceiling in (100, 9_999)
    ),
    *({"approvals": {"write-off": persons, "reverse": 1}} for persons in (1, 2, 5)),
    *(
        {"reverse_over": {"EUR": amount, "JPY": "1000", "KWD": "1000"}}
        for amount in ("0", "1000", "1000.5", "1000.00")
    ),
    {"assets": {"CO2": 3, "POINTS": 0, "SATOSHI": 8, "P" * 12: 1}, "highest_balances": {"CO2": "1.125"}},
    {"deadline_seconds": 60, "recover_after_seconds": 59},
    *({"idempotency_key": rule, "party_names": rule} for rule in ("required", "optional")),
    {"webhook": "http-api", "webhook_calls_per_second": 1, "webhook_burst": 1},
    {"webhook": "function-url", "webhook_calls_per_second": 10_000, "webhook_burst": 10_000},
    *(
        {name: address}
        for name in ("page_address", "notice_address")
        for address in ("oncall@pages.example", "https://pages.example/v1/settlement", None)
    ),
    *({"recovery_starts_per_second": pace} for pace in (1, 1_000)),
    {"warm_write_units": 4_001},
    *({"books_every_minutes": minutes} for minutes in there("books", 1, 60)),
    *there("books", {"books_every_minutes": 1, "finance_address": "finance@pages.example"}),
    *({"backup_days": 7, "backup_lock": lock} for lock in ("governance", "compliance")),
    {"backup_days": 36_500, "backup_copy_to": VAULT},
    *(
        {"restored_table": name, "restored_stream": LABEL}
        for name in ("abc", "settlement-prod_2.b", "a" * 255)
    ),
    *({"alert_again_after_seconds": seconds} for seconds in (9, 60, 1800, 86_400)),
    *({"log_detail": detail, "log_full_keys": ("order-1",) * 20} for detail in ("lean", "full")),
    *(
        {"kyc": KycSettings(connect_timeout_seconds=connect, read_timeout_seconds=read)}
        for connect, read in ((1, 4), (4, 1), (1, 1))
    ),
    {"kyc": KycSettings(url="http://kyc.example"), "embedded_python": "/usr/bin/python3"},
    BY_NAME | {"party_names": "required"},
    *({"canary_percent": percent, "canary_minutes": minutes} for percent, minutes in ((1, 10), (99, 2_100))),
    {"snap_start": True},
]

NUMBERS = {
    "connect_timeout_seconds": (1, 10),
    "read_timeout_seconds": (1, 60),
    "failures": (3, 50),
    "failures_within_seconds": (60, 86_400),
    "recovery_seconds": (1, 3_600),
    "review_seconds": (60, 2_592_000),
}

BAD_ADDRESSES = [
    *("", "kyc.example", "ftp://kyc.example", "https://", "https:///verifications"),
    *("https://user:secret@kyc.example", "https://kyc.example?key=secret"),
    *("https://kyc.example/v1?key=secret", "https://kyc.example/#top", "https://kyc.example#top"),
    *("https://kyc example", "https://kyc.example/v 1", "https://kyc.example\n", " https://kyc.example"),
]
"""Settings are in the repository and the template: no place for a password or key."""

KYC_REFUSED: list[tuple[dict[str, Any], str]] = [
    *(
        ({"provider": provider}, "provider: must be one of opensanctions, verifications$")
        for provider in ("", "Verifications", "acme", "verifications ")
    ),
    *(({"url": url}, ADDRESS) for url in BAD_ADDRESSES),
    # It would change the path.
    *(
        ({"health_path": path}, "health_path: must be empty, or a path that begins with /")
        for path in ("health", "/a?b", "/a#b", "/ a", "//user@host", "/health\n")
    ),
    *(
        ({"dataset": dataset}, "dataset: must be letters, digits, _ and -$")
        for dataset in ("", "a/b", "a b", "../match", "a?b", "über")
    ),
    *(
        ({field: number}, f"{field}: must be a whole number from {least} to {most}$")
        for field, (least, most) in NUMBERS.items()
        for number in (0, -1, least - 1, most + 1, least + 0.5, True, "5", None)
    ),
    *(({"recovery_seconds": seconds}, PROBE) for seconds in (3, 4)),
]
KYC_ACCEPTED: list[dict[str, Any]] = [
    *({"provider": provider} for provider in ("opensanctions", "verifications")),
    *(
        {"url": url}
        for url in (
            *("https://kyc.example", "https://kyc.example/", "https://kyc.example:8443/api/v1"),
            "http://127.0.0.1:8081",
        )
    ),
    *({"health_path": path} for path in ("", "/", "/healthz", "/api/v1/ready-z")),
    *({"dataset": dataset} for dataset in ("default", "us_ofac_sdn", "EU-2026")),
    {"recovery_seconds": 5},  # both timeouts are 4 s
    *(
        {"connect_timeout_seconds": 1, "read_timeout_seconds": 1, "recovery_seconds": 3_600, field: number}
        for field, bounds in NUMBERS.items()
        for number in bounds
        if (field, number) != ("recovery_seconds", 1)  # it depends on the timeouts
    ),
]


def settings(**changes: Any) -> Settings:
    defaults: dict[str, Any] = {"stage": "test", "currencies": ("EUR", "JPY", "KWD")}
    return Settings(**defaults | changes)


def config(**changes: Any) -> StageConfig:
    return StageConfig.from_json(settings(**changes).stage_config)


def parse(line: str) -> dict[str, Any]:
    _, group, name, *arguments = shlex.split(line)
    click: Any = typer.main.get_command(commands)
    found: dict[str, Any] = click.commands[group].commands[name].make_context(name, arguments).params
    return found


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=str)
def test_an_invalid_setting_is_refused_by_its_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        settings(**changes).stage_config  # noqa: B018 - refused here at the latest


@pytest.mark.parametrize("changes", ACCEPTED, ids=str)
def test_a_setting_at_its_bounds_is_accepted(changes: dict[str, Any]) -> None:
    assert {name: getattr(settings(**changes), name) for name in changes} == changes


@pytest.mark.parametrize(("changes", "message"), KYC_REFUSED, ids=str)
def test_an_invalid_setting_of_the_provider_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        KycSettings(**changes)


@pytest.mark.parametrize("changes", KYC_ACCEPTED, ids=str)
def test_a_setting_of_the_provider_at_its_bounds_is_accepted(changes: dict[str, Any]) -> None:
    found = KycSettings(**changes)

    assert {name: getattr(found, name) for name in changes} == changes
    assert found.is_secure is (not found.url.startswith("http:"))


def test_every_setting_of_the_provider_is_examined_here() -> None:
    fields = {field.name for field in dataclasses.fields(KycSettings)}

    assert fields == {*NUMBERS, "url", "provider", "dataset", "health_path"}


def test_settings_do_not_change() -> None:
    for frozen, name in ((settings(), "fee_basis_points"), (KycSettings(), "url")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, None)


def test_a_stage_is_strict_by_default_and_with_real_money() -> None:
    """No stage of the repository screens by name; only the embedded one asks over plain HTTP."""
    assert (settings().idempotency_key, settings().party_names) == ("required", "optional")
    assert {name for name, one in STAGES.items() if one.idempotency_key == "optional"} == {"dev"}
    assert {one.party_names for one in STAGES.values()} == {"optional"}
    assert {name for name, one in STAGES.items() if not one.kyc.is_secure} == {"local"}
    assert {name for name, one in STAGES.items() if not one.keeps_data} == {"local"}
    assert (settings().fee, settings().assets) == ("schedule", {})
    assert {name for name, one in STAGES.items() if one.fee == "client"} == {"local"}
    assert {code for code, _ in STAGES["prod"].highest_balances.items()} == {*STAGES["prod"].currencies}
    assert (settings().log_detail, settings().log_full_keys) == ("lean", ())
    assert {name for name, one in STAGES.items() if one.logs_in_full} == {"local", "dev"}
    assert {one.log_full_keys for one in STAGES.values()} == {()}
    assert {one.snap_start for one in STAGES.values()} == {False}  # not every region has it
    assert {name for name, one in STAGES.items() if one.is_embedded} == {"local"}
    assert {name for name, one in STAGES.items() if one.must_reach_people} == {"prod"}


@each_stage
def test_a_stage_is_found_by_its_name(stage: str) -> None:
    assert STAGES[stage].stage == stage
    assert STAGES[stage].stack_name == f"settlement-{stage}"
    assert (STAGES[stage].stack_name == record.STACK_NAME) is STAGES[stage].is_embedded


@each_stage
def test_the_alert_has_a_valid_command_and_the_runbooks_address(stage: str) -> None:
    """On AWS the command must name the stack; the embedded stack is its default."""
    chosen = replace(STAGES[stage], runbooks="https://runbooks.example/settlement")
    alert, key = json.loads(chosen.pager), "order-2026-000101"

    parsed = parse(command("limbo show", key, stack=alert["stack"]))

    assert (parsed["key"], parsed["stack"]) == (key, None if stage == "local" else f"settlement-{stage}")
    assert alert["runbook"] == "https://runbooks.example/settlement/limbo.md"
    assert alert["again_after_seconds"] == chosen.alert_again_after_seconds
    assert asdict(PagerConfig.from_json(chosen.pager)) == alert


def test_exponents_are_pinned_and_highest_balances_become_minor_units() -> None:
    highest = {"EUR": "1000000.5", "JPY": "1000000", "KWD": "1000000.125", "CO2": "7.5", "POINTS": "9"}
    found = config(highest_balances=highest, assets={"CO2": 3, "POINTS": 0})

    assert found.currencies == {"EUR": 2, "JPY": 0, "KWD": 3, "CO2": 3, "POINTS": 0}
    assert found.highest_balances == {
        **{"EUR": 100_000_050, "JPY": 1_000_000, "KWD": 1_000_000_125},
        **{"CO2": 7_500, "POINTS": 9},
    }


@each_stage
def test_the_functions_read_the_configuration_that_the_stage_sets(stage: str) -> None:
    text = STAGES[stage].stage_config

    parsed = StageConfig.from_json(text)

    assert asdict(parsed) == json.loads(text)
    for name in UNCHANGED:
        assert getattr(parsed, name) == getattr(STAGES[stage], name)
    for rule in ("required", "optional"):
        found = config(idempotency_key=rule, party_names=rule)
        assert (found.idempotency_key, found.party_names) == (rule, rule)


@pytest.mark.parametrize("detail", ["lean", "full"])
def test_the_functions_read_the_log_detail_that_the_stage_sets(
    detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(log_detail=detail, log_full_keys=("order-1", "order-2"))
    monkeypatch.setattr(telemetry, "_detail", json.loads(found.function_log_detail))

    for key, is_listed in (("order-1", True), ("order-2", True), ("order-3", False), (None, False)):
        telemetry.logger.append_keys(key=key)
        assert telemetry._is_detailed() is (is_listed or detail == "full")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_exactly_the_providers_screening_by_name_ask_nothing_without_one(
    provider: str, settlement: Settlement, config: StageConfig
) -> None:
    """An unlisted provider that needs names would be asked with account ids."""
    body = kyc_client.PROVIDERS[provider].body
    named = replace(settlement, payer_name="Alice Muster", payee_name="Bob Muster")

    asked_by_name = "Alice Muster" in json.dumps(body(named, config))

    assert asked_by_name == (provider in SCREENS_BY_NAME)
    if asked_by_name:
        with pytest.raises(KycRequestRefused):
            body(settlement, config)


@pytest.mark.parametrize("context", [{"stage": "production"}, {"stage": ""}, {}])
def test_one_line_refuses_an_unknown_stage_and_lists_the_stages(context: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as refused:
        build(cdk.App(context=context))

    message = str(refused.value)
    assert message.startswith("stage: ")
    assert "\n" not in message
    assert all(stage in message for stage in STAGES)


@pytest.mark.parametrize("context", [{"stage": "dev"}, {"stage": "dev", "kyc_url": ""}])
def test_a_stage_with_neither_provider_nor_argument_is_refused(
    context: dict[str, str],
) -> None:
    """Deployed, it would reverse every payment."""
    message = r"^kyc_url: name the KYC provider's address; pass it as -c kyc_url="
    with pytest.raises(SystemExit, match=message):
        build(cdk.App(context=context))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "page_address: name the address that is paged; pass it as -c page_address="),
        ({"page_address": "oncall@example.com"}, "runbooks: name the HTTPS address of your runbooks"),
        (
            {"page_address": "oncall@example.com", "runbooks": "http://runbooks.example.com"},
            "runbooks: name the HTTPS address of your runbooks",
        ),
    ],
)
def test_prod_is_refused_without_addresses_for_pages_and_runbooks(
    given: dict[str, str], message: str
) -> None:
    """A page must reach a person and must not lead to a path on its author's machine."""
    with pytest.raises(SystemExit, match=f"^{message}"):
        build(cdk.App(context={"stage": "prod", "kyc_url": "https://kyc.example"} | given))


@pytest.mark.parametrize("setting", ["page_address", "notice_address"])
def test_the_arguments_name_the_addresses_that_are_subscribed(setting: str) -> None:
    given = {"stage": "dev", "kyc_url": "https://kyc.example", setting: "https://pages.example/settlement"}

    found = Template.from_stack(build(cdk.App(context=given))).find_resources("AWS::SNS::Subscription")

    assert [one["Properties"]["Protocol"] for one in found.values()] == (
        ["https"] if setting == "page_address" else ["https", "https"]
    )
    assert {one["Properties"]["Endpoint"] for one in found.values()} == {given[setting]}


@pytest.mark.parametrize(
    ("url", "message"),
    [("http://kyc.example", HTTPS), ("kyc.example", ADDRESS), ("https://user:secret@kyc.example", ADDRESS)],
)
def test_the_argument_is_refused_as_a_setting_is(url: str, message: str) -> None:
    with pytest.raises(SystemExit, match=f"^{message}") as refused:
        build(cdk.App(context={"stage": "prod", "kyc_url": url}))

    assert "secret" not in str(refused.value)


def test_the_argument_changes_no_setting() -> None:
    """The settings are shared with the next stack of the process."""
    assert template("dev")
    assert STAGES["dev"].kyc.url == NOT_NAMED


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, (None, None)),
        ({"retention_days": 400}, (400, 400)),
        ({"retention_days": 800, "shortest_retention_days": 400}, (800, 400)),
        ({"shortest_retention_days": 400}, (None, 400)),
    ],
)
def test_the_proof_gets_the_stages_shortest_retention_ever(
    settings: dict[str, Any], told: tuple[int | None, int | None]
) -> None:
    config = StageConfig.from_json(replace(STAGES["prod"], **settings).stage_config)

    assert (config.retention_days, config.shortest_retention_days) == told
