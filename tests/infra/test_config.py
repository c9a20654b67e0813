import dataclasses
import json
import shlex
from dataclasses import asdict, replace
from typing import Any

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
from tests.world.templates import app

UNCHANGED = (
    *("fee", "fee_basis_points", "fee_floor_basis_points", "fee_ceiling_basis_points"),
    *("deadline_seconds", "recover_after_seconds"),
    *("idempotency_key", "party_names"),
)

VAULT = "arn:aws:backup:eu-central-1:123456789012:backup-vault:safe"
LABEL = "2026-11-23T06:00:00.000"
ADDRESS = "kyc_url: must be an address without user, query or fragment$"
HTTPS = r"kyc_url: must be an HTTPS address$"
EMBEDDED = {"embedded_python": "/usr/bin/python3"}
PROD = {"stage": "prod", "kyc_url": "https://kyc.example"}
PAGED = PROD | {"page_address": "oncall@example.com"}
SUBSCRIPTION = "AWS::SNS::Subscription"
CLIENT: dict[str, Any] = {"fee": "client", "fee_ceiling_basis_points": 500}
BY_NAME = {"kyc": KycSettings(url="https://api.opensanctions.org", provider="opensanctions")}

Changes = dict[str, Any]


def each(setting: str, told: str, *values: Any, **beside: Any) -> list[tuple[Changes, str]]:
    """Return (changes, expected error) for each value of a setting."""
    return [({**beside, setting: value}, f"{setting}: {told}") for value in values]


REFUSED: list[tuple[Changes, str]] = [
    *(({"currencies": ("EUR", code)}, f"currencies: .*{code}$") for code in ("XXQ", "eur", "", "EURO")),
    # ISO 4217 has it, but no one has pinned its exponent.
    *each("currencies", r"not in infra/currencies\.toml: GBP$", ("EUR", "GBP")),
    # Gold has a code, but no exponent: an amount of it cannot be written.
    *each("currencies", ".*XAU$", ("EUR", "XAU")),
    *each("currencies", ".*ABC, XYZ$", ("XYZ", "EUR", "ABC")),
    # A fee is less than its amount.
    *each("fee_basis_points", "", -1, 10_000),
    # Misspelt, it must not let a client set its fees.
    *each("fee", "must be schedule or client$", "", "Client", "both", None, True),
    # A bound without effect would be believed.
    *each("fee_floor_basis_points", "must be left out unless fee is client$", -1, 1),
    *each("fee_ceiling_basis_points", "must be left out unless fee is client$", -1, 1),
    *each("fee_floor_basis_points", "must be from 0 to fee_basis_points$", -1, 101, **CLIENT),
    *each("fee_ceiling_basis_points", "must be from fee_basis_points to 9999$", -1, 99, 10_000, fee="client"),
    # Three letters may become a currency; a colon or a `#` is part of the names of accounts and rows.
    *(
        ({"assets": {code: 0}}, rf"assets: {code}.* must match ")
        for code in (
            *("EUR", "XTS", "ABC", "CO", "points", "", "P" * 13),
            *("2CO", "fees:", "A#1B", "CO2\n", "ÄÖÜ1"),
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
    *each("reverse_over", "XTS is not among the stage's currencies and assets$", {"XTS": "1"}),
    # A second execution from the beginning, or none before the deadline.
    *each(
        "recover_after_seconds",
        "must be positive, and below deadline_seconds$",
        *(-1, 0, 60, 61),
        deadline_seconds=60,
    ),
    # Misspelt, it must not mean that a payment is made twice, or without a screening.
    *each("idempotency_key", "must be required or optional$", "", "Required", "never", True, None),
    *each("party_names", "must be required or optional$", "", "Required", "never", True, None),
    # An entry must outlive a Standard execution, a redrive, and a dispute; a text would be no time.
    *each("retention_days", "must be from 400 to 36500, or None$", -1, 0, 399, 36_501),
    *each("shortest_retention_days", "must be from 400 to 36500, or None$", -1, 0, 399, 36_501),
    *each("shortest_retention_days", "must be at most retention_days$", 401, retention_days=400),
    # Misspelt, it must not cost ten times as much; a text would be searched for parts of keys.
    *each("log_detail", "must be lean or full$", "", "Full", "all", None),
    *each("log_full_keys", "must be at most 20 keys$", "order-1", ["order-1"], None, ("order-1",) * 21),
    # The function could never run.
    *each("webhook_calls_per_second", "must be from 1 to 10000$", -1, 0, 10_001, 1.5, True, None, "9"),
    *each("webhook_burst", "must be from 1 to 10000$", -1, 0, 10_001, 1.5, True, None, "9"),
    *each("api_calls_per_second", "must be from 1 to 10000$", -1, 0, 10_001, 1.5, True, None, "9"),
    # Lambda refuses less than 2.
    *each(
        "start_queue_calls", "must be from 2 to 1000$", *there("doors", -1, 0, 1, 1_001, 1.5, True, None, "9")
    ),
    *each("traced_percent", "must be from 0 to 100$", -1, 100.5, True, None, "9"),
    # Misspelt, it must not open a public function URL.
    *each("webhook", "must be function-url or http-api$", "", "http", "url", None),
    # Nothing would be resumed, or more at once than the storm of stalls has tried.
    *each("recovery_starts_per_second", "must be from 1 to 1000$", -1, 0, 1_001),
    # The function may run on after its task has timed out, and overwrite a live token with a dead one.
    *each(
        "alert_again_after_seconds",
        "must exceed function_timeout_seconds, and be at most 86400$",
        *(-1, 0, 7, 8, 86_401),
    ),
    # Cut or misread, it would be a different bound from the setting.
    *(
        ({"highest_balances": {currency: amount}}, f"highest_balances: .*{currency}")
        for currency, amount in (
            *(("EUR", "10.001"), ("JPY", "10.5"), ("KWD", "10.0001"), ("EUR", "-10"), ("EUR", "1e3")),
            *(("EUR", "NaN"), ("EUR", "ten"), ("EUR", 10.5), ("USD", "10.00")),
        )
    ),
    # Cut off, the function would not count the failure, and the circuit would never open.
    *each(
        "kyc",
        "both timeouts must leave 3 s of the function's timeout for the rest$",
        *(
            KycSettings(connect_timeout_seconds=connect, read_timeout_seconds=read)
            for connect, read in ((1, 5), (3, 3), (5, 1), (1, 8))
        ),
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
    *each(
        "finance_address",
        "must be left out without books_every_minutes",
        *there("books", "finance@example.com"),
    ),
    *each(
        "books_every_minutes", "must be from 1 to 60, or None$", *there("books", 0, 61, -1, True, "1", 1.5)
    ),
    *each("statements_every_minutes", "", 0, 14, 1_441, True, "60"),
    # It names no account.
    *each("statement_accounts", "must ", "ACC-(", "ACC-(?P<customer>x)", "ACC-x"),
    # It has no snapshots: the setting would have no effect.
    *each("warm_write_units", "must be None on the embedded AWS", 5_000, **EMBEDDED),
    *each(
        "warm_write_units",
        "must be above 4000, which a new table bears$",
        *(4_000, 0, -1, True, 12_000.0, "12000"),
    ),
    *each(
        "restored_table",
        "must be a table's name$",
        *("", "ab", "a" * 256, "a/b", "restored\n", "arn:aws:dynamodb", 3),
        restored_stream=LABEL,
    ),
    *each(
        "restored_stream",
        "must be a stream's label",
        *("", "2026-11-23", f"{LABEL}Z", f"{LABEL}\n", f"restored/stream/{LABEL}"),
        restored_table="restored",
    ),
    # The sealed journal and the sweeps read the stream: the stage would settle without both.
    ({"restored_table": "restored"}, "restored_stream: must be given with restored_table"),
    ({"restored_stream": LABEL}, "restored_stream: must be given with restored_table"),
    *each("backup_days", "must be from 7 to", 6, 36_501, True, "35"),
    *each("backup_days", "must be None on a stage that keeps no", 35, keeps_data=False),
    *each("backup_days", "must be None on a stage that keeps no", 35, keeps_data=False, **EMBEDDED),
    *each("backup_lock", "must be governance or compliance$", "none", backup_days=35),
    *each(
        "backup_copy_to",
        "must be the ARN of a backup vault$",
        *("", "safe", VAULT.replace("123456789012", "*"), f"{VAULT}\n", 3),
        backup_days=35,
    ),
    *each("backup_copy_to", "must be left out without backup_days$", VAULT),
    *each("canary_percent", "must be from 1 to 99, or None$", -1, 0, 100, 10.5, True, "10"),
    # A misspelling must be found before the canary is needed.
    *each("canary_minutes", "must be from 10 to 2100, as an alarm", 0, 9, 2_101, True, "15"),
    *each("canary_percent", "must be None on the embedded AWS", 10, **EMBEDDED),
    *each(
        "canary_percent",
        "needs qualified_functions, or both versions would run the newest code$",
        10,
        qualified_functions=False,
    ),
    *each("snap_start", "must be False on the embedded AWS", True, **EMBEDDED),
    *each(
        "snap_start",
        "needs qualified_functions, as only versions have snapshots$",
        True,
        qualified_functions=False,
    ),
    *each("row_keys", "must be from 1 to 20", 0, -1, 21),
    # A key that there is not cannot sign.
    *each("signing_key", "must be from 1 to row_keys", 0, 2),
    # No alarm could watch for a rarer proof.
    *each("reconcile_every_hours", "must be from 1 to 24, or None", 0, -1, 25, 168),
    *each("journal_lock", "", "none"),
    *each("journal_lock_days", "", 0, 36_501),
    # Requests about customers are encrypted in transit. The embedded AWS asks on the same machine.
    ({"kyc": KycSettings(url="http://kyc.example")}, HTTPS),
    # It knows no account ids: it would approve every payment.
    (BY_NAME, "party_names: must be required with the KYC provider opensanctions, which screens by name"),
]

ACCEPTED: list[Changes] = [
    *({"fee_basis_points": points} for points in (0, 9_999)),
    *({"fee_basis_points": 0, "fee": rule} for rule in ("schedule", "client")),
    *(
        CLIENT | {"fee_floor_basis_points": floor, "fee_ceiling_basis_points": ceiling}
        for floor, ceiling in ((0, 100), (100, 9_999))
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
        {"page_address": address, "notice_address": address}
        for address in ("oncall@pages.example", "https://pages.example/v1/settlement", None)
    ),
    *({"recovery_starts_per_second": pace} for pace in (1, 1_000)),
    *({"traced_percent": share, "api_calls_per_second": rate} for share, rate in ((0, 1), (100, 10_000))),
    *({"start_queue_calls": calls} for calls in there("doors", 2, 1_000)),
    {"warm_write_units": 4_001},
    *({"books_every_minutes": minutes} for minutes in there("books", 1, 60)),
    *there("books", {"books_every_minutes": 1, "finance_address": "finance@pages.example"}),
    *({"backup_days": 7, "backup_lock": lock} for lock in ("governance", "compliance")),
    {"backup_days": 36_500, "backup_copy_to": VAULT},
    *(
        {"restored_table": name, "restored_stream": LABEL}
        for name in ("abc", "settlement-prod_2.b", "a" * 255)
    ),
    *({"alert_again_after_seconds": seconds} for seconds in (9, 86_400)),
    *({"log_detail": detail, "log_full_keys": ("order-1",) * 20} for detail in ("lean", "full")),
    *(
        {"kyc": KycSettings(connect_timeout_seconds=connect, read_timeout_seconds=read)}
        for connect, read in ((1, 4), (4, 1), (1, 1))
    ),
    {"kyc": KycSettings(url="http://kyc.example"), **EMBEDDED},
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

KYC_REFUSED: list[tuple[Changes, str]] = [
    *each(
        "provider",
        "must be one of opensanctions, verifications$",
        *("", "Verifications", "acme", "verifications "),
    ),
    # Settings are in the repository and the template: no place for a password or key.
    *(
        ({"url": url}, ADDRESS)
        for url in (
            *("", "kyc.example", "ftp://kyc.example", "https://", "https:///verifications"),
            *("https://user:secret@kyc.example", "https://kyc.example?key=secret"),
            *("https://kyc.example/v1?key=secret", "https://kyc.example/#top", "https://kyc.example#top"),
            *(
                "https://kyc example",
                "https://kyc.example/v 1",
                "https://kyc.example\n",
                " https://kyc.example",
            ),
        )
    ),
    # It would change the path.
    *each(
        "health_path",
        "must be empty, or a path that begins with /",
        *("health", "/a?b", "/a#b", "/ a", "//user@host", "/health\n"),
    ),
    *each("dataset", "must be letters, digits, _ and -$", "", "a/b", "a b", "../match", "a?b", "über"),
    *(
        ({field: number}, f"{field}: must be a whole number from {least} to {most}$")
        for field, (least, most) in NUMBERS.items()
        for number in (0, -1, least - 1, most + 1, least + 0.5, True, "5", None)
    ),
    *each("recovery_seconds", "must be longer than a probe takes", 3, 4),
]
KYC_ACCEPTED: list[Changes] = [
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
def test_an_invalid_setting_of_the_kyc_provider_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        KycSettings(**changes)


@pytest.mark.parametrize("changes", KYC_ACCEPTED, ids=str)
def test_a_kyc_providers_setting_at_its_bounds_is_accepted(changes: dict[str, Any]) -> None:
    found = KycSettings(**changes)

    assert {name: getattr(found, name) for name in changes} == changes
    assert found.is_secure is (not found.url.startswith("http:"))


def test_the_tests_cover_every_setting_of_the_kyc_provider() -> None:
    fields = {field.name for field in dataclasses.fields(KycSettings)}

    assert fields == {*NUMBERS, "url", "provider", "dataset", "health_path"}


def test_settings_are_immutable() -> None:
    for frozen, name in ((settings(), "fee_basis_points"), (KycSettings(), "url")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, None)


def test_a_stage_is_strict_by_default_and_with_real_money() -> None:
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
def test_the_pager_config_has_a_valid_command_and_runbook_address(stage: str) -> None:
    """On AWS the command must name the stack, because by default it means the embedded one."""
    chosen = replace(STAGES[stage], runbooks="https://runbooks.example/settlement")
    alert, key = json.loads(chosen.pager), "order-2026-000101"

    parsed = parse(command("limbo show", key, stack=alert["stack"]))

    assert (parsed["key"], parsed["stack"]) == (key, None if stage == "local" else f"settlement-{stage}")
    assert alert["runbook"] == "https://runbooks.example/settlement/limbo.md"
    assert alert["again_after_seconds"] == chosen.alert_again_after_seconds
    assert asdict(PagerConfig.from_json(chosen.pager)) == alert


def test_highest_balances_are_converted_to_minor_units() -> None:
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
def test_providers_that_screen_names_are_never_asked_without_a_name(
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


@pytest.mark.parametrize(
    ("context", "message"),
    [
        *(
            (context, f"stage: must be one of {', '.join(STAGES)}, or a personal one")
            for context in ({"stage": "production"}, {"stage": ""}, dict[str, str]())
        ),
        # Deployed, it would reverse every payment.
        *(
            (context, "kyc_url: name the KYC provider's address; pass it as -c kyc_url=")
            for context in ({"stage": "dev"}, {"stage": "dev", "kyc_url": ""})
        ),
        *(
            ({"stage": "prod", "kyc_url": url}, message)
            for url, message in (
                *(("http://kyc.example", HTTPS), ("kyc.example", ADDRESS)),
                ("https://user:secret@kyc.example", ADDRESS),
            )
        ),
        # A page must reach a person and must not lead to a path on its author's machine.
        (PROD, "page_address: name the address that is paged; pass it as -c page_address="),
        *(
            (context, "runbooks: name the HTTPS address of your runbooks")
            for context in (PAGED, PAGED | {"runbooks": "http://runbooks.example.com"})
        ),
    ],
)
def test_a_wrong_context_value_is_refused_in_one_line(context: dict[str, str], message: str) -> None:
    with pytest.raises(SystemExit, match=f"^{message}") as refused:
        build(app(**context))

    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_context_names_the_addresses_that_are_subscribed() -> None:
    """Pages have one topic, but notices have two topics: for the morning and for information."""
    pages, notices = "https://pages.example/settlement", "https://notices.example/settlement"
    given = {"stage": "dev", "kyc_url": "https://kyc.example", "page_address": pages}

    stack = build(app(**given, notice_address=notices))

    found = [one["Properties"] for one in Template.from_stack(stack).find_resources(SUBSCRIPTION).values()]
    assert sorted(one["Endpoint"] for one in found) == [notices, notices, pages]
    assert {one["Protocol"] for one in found} == {"https"}


def test_synthesising_a_stage_does_not_change_shared_settings() -> None:
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
def test_the_proof_knows_the_shortest_retention_the_stage_ever_had(
    settings: dict[str, Any], told: tuple[int | None, int | None]
) -> None:
    config = StageConfig.from_json(replace(STAGES["prod"], **settings).stage_config)

    assert (config.retention_days, config.shortest_retention_days) == told
